"""The answers of a results file, beside those of an earlier run."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import compress
from typing import Any

from msgspec import Struct

from multiturn.explaining.spans import in_spans
from multiturn.model.case import Case
from multiturn.model.turns import Call
from multiturn.providers.prices import Usage, price_of
from multiturn.providers.results import Made, RawRequest, Stored, read_results
from multiturn.text import dollars

Texts = tuple[tuple[str, str], ...]  # titles of messages, and their texts
_STATUSES = (  # in the order in which they are shown
    *("prompt and answer changed", "answer changed", "prompt changed", "score changed"),
    *("failed", "new", "removed", "same", "answered"),
)


class Answer(Stored, frozen=True, kw_only=True):
    """A line of a results file, as far as a report shows it; ``score`` is the user's own."""

    response: str | None = None
    finish_reason: str | None = None
    usage: Mapping[str, int] = {}
    raw_request: RawRequest | None = None
    answer: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] | None = None
    score: Any = None
    made: Made = Made()

    @property
    def prompt(self) -> Texts:
        """The messages that were asked, and the definitions of tools."""
        if self.raw_request is None:
            return ()
        asked = in_spans(self.raw_request.turns, Case(id=self.id, input_messages=()))
        texts = [
            "".join(f"{s.text} {s.media.facts}" if s.media else s.text for s in message.shown)
            for message in asked
        ]
        messages = zip((message.title for message in asked), texts, strict=True)
        return *messages, *((tool.title, tool.text) for tool in self.raw_request.tools or ())

    @property
    def text(self) -> str:
        """What the model said, and the tools that it called; or why there is no answer."""
        if self.error is not None:
            return f"no answer: {self.error.message}"
        calls = (
            Call("", each.get("name", ""), each.get("arguments", {})).text
            for each in self.tool_calls or ()
        )
        return "\n".join(filter(None, (self.response, *calls)))


class AnsweredCase(Struct, frozen=True):
    """A case with its answers, then and now."""

    suite: str
    id: str
    sides: tuple[Mapping[str, Answer], ...]  # then and now; by title, such as ``answer of gpt (2)``
    status: str
    scores: str  # the scores that changed, in words; empty if none did

    def texts(self, at: int) -> Texts:
        """Return all messages then (0) or now (1): the first answer's prompt, and the answers."""
        said = self.sides[at]
        prompt = next((each.prompt for each in said.values()), ())
        return *prompt, *((title, each.text) for title, each in said.items())


class AnswerReport:
    """The cases of a results file, compared with those of an earlier one, if there is one.

    All three are paths of files; ``price_of`` reads that of the prices.
    """

    def __init__(self, results: str, before: str | None = None, prices: str | None = None) -> None:
        self.results, self.before = results, before
        # The last result of each case, target and repeat.
        self.sides: list[dict[tuple[str, str, str, int], Answer]] = [
            {(a.suite, a.id, a.target, a.repeat): a for _, a in read_results(path, Answer)}
            if path is not None
            else {}
            for path in (before, results)
        ]
        self._price = cache(partial(price_of, file=prices))
        targets = [{key[2] for key in side} for side in self.sides]
        if [*map(len, targets)] == [1, 1]:  # one model is compared with another
            (name,) = targets[1]
            self.sides[0] = {(*k[:2], name, k[3]): each for k, each in self.sides[0].items()}
        keys = [key for side in self.sides for key in side]
        is_one = len({key[2] for key in keys}) == 1
        is_repeated = any(key[3] > 1 for key in keys)
        found: dict[tuple[str, str], tuple[dict[str, Answer], ...]] = {}
        for at in (1, 0):
            for (suite, case_id, target, repeat), each in self.sides[at].items():
                title = "answer" if is_one else f"answer of {target}"
                title += f" ({repeat})" if is_repeated else ""
                found.setdefault((suite, case_id), ({}, {}))[at][title] = each
        self.cases = [self._case(*key, *sides) for key, sides in found.items()]
        self.cases.sort(key=lambda case: _STATUSES.index(case.status))

    def _case(
        self, suite: str, case_id: str, then: Mapping[str, Answer], now: Mapping[str, Answer]
    ) -> AnsweredCase:
        both = [(title, then[title], now[title]) for title in then if title in now]
        changed = ["prompt"] * any(old.prompt != new.prompt for _, old, new in both)
        is_changed = then.keys() != now.keys() or any(old.text != new.text for _, old, new in both)
        changed += ["answer"] * is_changed
        scores = ", ".join(
            f"score{title.removeprefix('answer')}: {_words(old.score)} → {_words(new.score)}"
            for title, old, new in both
            if old.score != new.score
        )
        status = f"{' and '.join(changed) or 'score'} changed" if changed or scores else "same"
        if self.before is None:
            status = "failed" if any(each.error for each in now.values()) else "answered"
        elif not both:
            status = "new" if now else "removed"
        return AnsweredCase(suite, case_id, (then, now), status, scores)

    @property
    def summary(self) -> str:
        """How many cases there are of each status, in words."""
        counts = Counter(case.status for case in self.cases)
        found = ", ".join(f"{number:,} {status}" for status, number in counts.items())
        compared = f", compared with {self.before}" if self.before else ""
        return f"{self.results}{compared}: {found or 'no results'}"

    def facts(self, answer: Answer, shown: Texts) -> str:
        """Return what is known of an answer beside its text; ``shown`` is the prompt above it."""
        usage, cost = Usage.counted(answer.usage), self._cost(answer)
        known: tuple[Any, ...] = (
            answer.made.model,
            answer.answer and answer.answer != "text" and f"answer {answer.answer}",
            answer.finish_reason and f"finish reason {answer.finish_reason}",
            answer.usage and f"{usage.input:,} input and {usage.output:,} output tokens",
            cost is not None and dollars(cost),
            answer.score is not None and f"score: {_words(answer.score)}",
            answer.prompt != shown and "another prompt than the one above",
        )
        return " · ".join(filter(None, known))

    def _cost(self, answer: Answer) -> float | None:
        """Return what an answer cost, if not sent in a batch; None if that is not known."""
        made, usage = answer.made, answer.usage
        how = {"with_shipped": made.provider != "azure", "for_an_hour": made.prompt_caching == "1h"}
        price = self._price(made.model, **how) if made.model and usage else None
        return None if price is None else price.now.cost(Usage.counted(usage))

    def totals(self) -> list[tuple[str, ...]]:
        """Return the heading of a table of targets, and its rows; empty columns are left out."""
        counted = ("answers", "failed", "input tokens", "output tokens")
        rows: list[tuple[str, ...]] = [("target", *counted, "cost", "mean score")]
        for target in {key[2]: None for side in reversed(self.sides) for key in side}:
            then, now = (
                self._total([each for key, each in side.items() if key[2] == target])
                for side in self.sides
            )
            pairs = zip(then, now, strict=True)
            cells = (new if old in ("", new) else f"{old} → {new or 'none'}" for old, new in pairs)
            rows.append((target, *cells))
        is_said = [*map(any, zip(*rows[1:], strict=True))]
        return [tuple(compress(row, is_said)) for row in rows]

    def _total(self, answers: Sequence[Answer]) -> tuple[str, ...]:
        failed = sum(each.error is not None for each in answers)
        usage = sum((Usage.counted(each.usage) for each in answers), Usage())
        costs = [self._cost(each) for each in answers if each.usage]
        known = [cost for cost in costs if cost is not None]
        scores = [each.score for each in answers if isinstance(each.score, int | float)]
        counts = len(answers) - failed, failed, usage.input, usage.output
        return (
            *(f"{count:,}" if answers else "" for count in counts),
            dollars(sum(known)) if known and len(known) == len(costs) else "",
            f"{sum(scores) / len(scores):.3f}" if scores else "",
        )


def _words(score: Any) -> str:
    return "none" if score is None else json.dumps(score, ensure_ascii=False)

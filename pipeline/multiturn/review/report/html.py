"""The report as one HTML file that asks no network and runs no text of a suite."""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from multiturn.prompts.provenance import Message, Spans, text_of
from multiturn.prompts.record import utf8
from multiturn.review.diff import mark
from multiturn.review.report.comparison import Comparison
from multiturn.review.report.side import Reviewed, spoken
from multiturn.text import UNSEEN

_HERE = Path(__file__).parent
# What ends a script element, or begins a comment in it, cannot stand in one.
_ESCAPES = {sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}

Row = tuple[Message | None, Message | None]


def to_html(
    comparisons: Iterable[Comparison], *, pipeline: str, against: str | None, errors: list[str]
) -> bytes:
    """Render a report.

    Args:
        comparisons: the cases, in the order of ``compare``.
        pipeline: its name.
        against: the revision that they are compared with; None for none.
        errors: that belong to no case.
    """
    tables = _Tables(compared=against is not None)
    data = {
        "unseen": UNSEEN,
        "pipeline": utf8(pipeline),
        "against": against and utf8(against),
        "errors": [utf8(error) for error in errors],
        "cases": [tables.case(comparison) for comparison in comparisons],
        "texts": [tables.row(spans) for spans in tables.texts],
        "strings": [utf8(text) for text in tables.strings],
    }
    text = msgspec.json.encode(data).decode()
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    script = _read("texts.js") + _read("page.js")
    parts = {"STYLE": _read("page.css"), "SCRIPT": script, "DATA": text}
    parts |= {f"{name}_HASH": _digest(parts[name]) for name in ("STYLE", "SCRIPT")}
    # Cut first: what is filled in is not looked at again.
    pieces = _read("page.html").split("%%")
    return "".join(parts[piece] if at % 2 else piece for at, piece in enumerate(pieces)).encode()


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class _Tables:
    """The strings of a page, and the texts in spans: each is held once, and is a number elsewhere.

    Args:
        compared: whether the cases are compared with others; else nothing is new.
    """

    def __init__(self, *, compared: bool) -> None:
        self.compared = compared
        self.strings = {"": 0}  # the most frequent, and so the shortest number
        self.texts: dict[Spans, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a string."""
        return self.strings.setdefault(text, len(self.strings))

    def case(self, comparison: Comparison) -> dict[str, Any]:
        """Return what the page knows of a case."""
        case, now, then = comparison.case, comparison.now, comparison.then
        promoted = sorted(comparison.promoted) if self.compared else ()
        entry: dict[str, Any] = {
            "suite": self.number(case.suite),
            "id": self.number(case.id),
            "line": case.line,
            "status": comparison.status,
            "causes": [self.number(cause) for cause in comparison.causes],
            "promoted": [self.number(path) for path in promoted],
        }
        if case.error:
            entry["error"] = self.number(case.error)
        elif now is None:
            entry["then"] = self.side(case)
        elif comparison.status != "changed" or then is None or then.error:
            entry["now"] = self.side(case)
        else:
            rows = list(_rows(then.chat or (), now.chat or ()))
            question = mark(then.question, now.question)
            texts = zip(_spoken(then), _spoken(now), strict=True)
            payloads = [list(_rows(before, after)) for before, after in texts]
            for at, (name, side) in enumerate((("then", then), ("now", now))):
                chat = None if side.chat is None else _column(rows, at)
                marked = replace(side, chat=chat, question=question[at])
                entry[name] = self.side(marked, [_column(payload, at) for payload in payloads])
            entry["rows"] = [[row[0] is not None, row[1] is not None] for row in rows]
        return entry

    def side(self, case: Reviewed, texts: Iterable[tuple[Message, ...]] = ()) -> dict[str, Any]:
        """Return the texts of one side of a case.

        Args:
            case: as it is on that side.
            texts: of each payload, if some of their words are marked.
        """
        payloads = [
            {
                "provider": payload.provider,
                "notes": [self.number(note) for note in payload.notes],
                "body": self.body(payload.body, iter(messages)),
            }
            for payload, messages in zip(case.payloads, texts or _spoken(case), strict=True)
        ]
        return {
            "chat": case.chat and [(turn.role, self.spans(turn.spans)) for turn in case.chat],
            "question": self.spans(case.question),
            "payloads": payloads,
        }

    def spans(self, spans: Spans) -> int:
        """Return the number of a text in spans."""
        return self.texts.setdefault(spans, len(self.texts))

    def row(self, spans: Spans) -> list[int]:
        """Return four numbers a span: text, origin, path, and whether it has changed."""
        return [
            number
            for span in spans
            for number in (
                self.number(span.text),
                self.number(span.origin),
                self.number(span.path),
                int(span.changed),
            )
        ]

    def body(self, value: Any, texts: Iterator[Message]) -> Any:
        """Return a payload's body, with the number of each text.

        Args:
            value: the body.
            texts: those of the body in its order; some of their words may be marked.
        """
        if isinstance(value, tuple):
            spans = next(texts).spans
            plain = all(not span.origin and not span.changed for span in spans)
            return text_of(spans) if plain else {"$": self.spans(spans)}
        if isinstance(value, list):
            return [self.body(item, texts) for item in value]
        if isinstance(value, dict):
            return {
                key: item if key == "role" else self.body(item, texts)
                for key, item in value.items()
            }
        return value


def _spoken(case: Reviewed) -> list[tuple[Message, ...]]:
    """Return the texts of each payload."""
    return [tuple(spoken(payload.body)) for payload in case.payloads]


def _column(rows: list[Row], at: int) -> tuple[Message, ...]:
    """Return the messages of one side."""
    return tuple(message for row in rows if (message := row[at]))


def _rows(then: tuple[Message, ...], now: tuple[Message, ...]) -> Iterator[Row]:
    """Yield the messages of two prompts side by side, what they lack marked."""
    old, new = ([(m.role, text_of(m.spans)) for m in chat] for chat in (then, now))
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for before, after in zip_longest(then[a:b], now[c:d]):
            if tag == "equal":
                yield before, after
                continue
            first, second = mark(before.spans if before else (), after.spans if after else ())
            yield (
                before and Message(before.role, first),
                after and Message(after.role, second),
            )

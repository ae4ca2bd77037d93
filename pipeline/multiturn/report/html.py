"""The report as one HTML file that needs no network and runs no text of a suite."""

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from multiturn.explaining.record import to_json
from multiturn.explaining.spans import Spans, has_media
from multiturn.report.answers import AnswerReport
from multiturn.report.comparison import MOST_PRIVILEGES, CaseTexts, Comparison, Report, titled
from multiturn.report.images import Images
from multiturn.report.sides import ReportSide, spans_shown
from multiturn.snapshots.reviewed_case import ReviewedCase, SentPrompt
from multiturn.text import unseen

_HERE = Path(__file__).parent
_LEVEL = 5  # of zlib: level 6 takes twice the time, for a page that is a tenth smaller
_SCRIPTS = (
    *("words.js", "texts.js", "split.js", "views.js", "answers.js"),
    *("list.js", "search.js", "viewed.js", "overview.js", "keys.js", "page.js"),
)


def to_html(report: Report, page: "Page | None" = None) -> bytes:
    """Render a report; the page may have the texts of some of its cases already."""
    page = page or Page(report.now, report.then, all_texts=not report.against)
    return _page(page.packed(report))


def _page(data: str) -> bytes:
    script = "".join(map(_read, _SCRIPTS))
    parts = {"STYLE": _read("page.css"), "SCRIPT": script, "DATA": data}
    for name in ("STYLE", "SCRIPT"):
        digest = hashlib.sha256(parts[name].encode()).digest()
        parts[f"{name}_HASH"] = base64.b64encode(digest).decode()
    # The template is split before anything is filled in, so that a suite's text which looks like
    # a placeholder stays text.
    pieces = _read("page.html").split("%%")
    return "".join(parts[piece] if at % 2 else piece for at, piece in enumerate(pieces)).encode()


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def answers_to_html(report: AnswerReport) -> bytes:
    """Render a report of answers, on the page that shows prompts."""
    lines, cases = _Lines(), []
    for case in report.cases:
        sides = ((name, case.texts(at), case.sides[at]) for at, name in enumerate(("then", "now")))
        number = lines.write(
            {
                name: {
                    "roles": [title for title, _ in texts],
                    "texts": [[], *([lines[t], 0, 0] for _, t in texts)],
                    "facts": {t: report.facts(a, texts[: -len(said)]) for t, a in said.items()},
                }
                for name, texts, said in sides
                if said
            }
        )
        shown = {name: getattr(case, name) for name in ("suite", "id", "status", "scores")}
        cases.append({"texts": number, **shown})
    known = _digest(b"".join(lines.lines))
    head = {"comparison": known, "against": report.before or "", "cases": cases}
    return _page(lines.ended({"summary": report.summary, "totals": [*report.totals()], **head}))


def _digest(compared: bytes) -> str:
    """Return what tells a comparison from others: a digest of all that is compared."""
    return f"multiturn {hashlib.blake2b(compared, digest_size=16).hexdigest()}"


class _Lines(dict[str, int]):
    """What the script of a page reads: lines of JSON, compressed.

    The last line has the names of the cases and the differences. The others are the texts of cases,
    by the numbers of strings, and these, each written when its number is first asked for.
    """

    def __init__(self) -> None:
        self.escaped: list[str] = []  # strings that have what nobody sees
        self.lines: list[bytes] = []
        self[""] = self.write("")  # no case has the number 0, which is none to the script

    def write(self, value: Any) -> int:
        """Add a line, and return its number."""
        self.lines.append(to_json(value))
        return len(self.lines) - 1

    def __missing__(self, text: str) -> int:
        number = self[text] = self.write(text)
        if b"\\u" in self.lines[-1]:
            self.escaped.append(text)
        return number

    def ended(self, head: dict[str, Any]) -> str:
        """Add the last line, and return all lines in base 64."""
        # In ASCII, so that nobody looks for hidden signs in a pattern of them.
        self.write({"unseen": json.dumps(unseen(*self.escaped).pattern), **head})
        return base64.b64encode(zlib.compress(b"".join(self.lines), _LEVEL)).decode()


class Page(_Lines):
    """The lines of a report of prompts; with ``all_texts``, also of cases that are the same."""

    def __init__(self, *sides: ReportSide | None, all_texts: bool) -> None:
        super().__init__()
        self.all_texts = all_texts
        self.texts: dict[tuple[str, str], int] = {}  # the number of the line of each case
        self.images = Images(*(side.image for side in sides if side is not None))

    def add(self, comparison: Comparison, texts: CaseTexts) -> None:
        """Add the texts of a case, if the page shows them."""
        if self.is_shown(comparison):
            sides = zip(("then", "now"), texts, strict=True)
            number = self.write({name: self.side(side) for name, side in sides if side})
            self.texts[comparison.case.key] = number

    def packed(self, report: Report) -> str:
        """Return the lines in base 64, with the texts that are not added yet."""
        for comparison in report.comparisons:
            if comparison.case.key not in self.texts and self.is_shown(comparison):
                self.add(comparison, report.texts(comparison))
        media = self.images.records(report.media, self.__getitem__)
        return self.ended({**self.head(report), "media": media})

    def head(self, report: Report) -> dict[str, Any]:
        """Return what the page knows without the texts."""
        at = {each.case.key: at for at, each in enumerate(report.comparisons)}
        known = [
            (c.status, *c.case.key, *(e and (e.digest, e.error) for e in (c.then, c.now)))
            for c in report.comparisons
        ]
        compared = repr((report.shown, report.against, report.pipeline, known)).encode()
        return {
            "pipeline": report.shown,
            "against": report.against,
            "sample": report.sample,
            "errors": report.errors,
            "changes": report.pipeline,
            "privileges": [
                [privilege, min(places), len(places)]
                for privilege, places in report.privileges().items()
            ],
            "most": MOST_PRIVILEGES,
            "comparison": _digest(compared),
            "differences": [
                {
                    "key": change.key,
                    "kind": change.kind,
                    "title": title,
                    "share": share,
                    "words": change.words if change.is_compared else "",
                    "path": change.path,
                    "cases": [at[case] for case in change.cases],  # the first one is shown
                    "causes": change.causes,
                    "privileges": change.privileges,
                    "growth": change.growth_in_words,
                }
                for change, title, share in titled(report.changes)
            ],
            "growth": report.growth,
            "target": report.now.pipeline.target,
            "cases": list(map(self.case, report.comparisons)),
        }

    def is_shown(self, comparison: Comparison) -> bool:
        """Return whether the texts of a case are in the page."""
        is_same = comparison.status in ("same", "renamed") and not comparison.causes
        return self.all_texts if is_same else not comparison.case.error

    def case(self, comparison: Comparison) -> dict[str, Any]:
        """Return what the page knows of a case without its texts."""
        case, was = comparison.case, comparison.was
        entry = {
            "suite": case.suite,
            "id": case.id,
            "line": case.line,
            "status": comparison.status,
            "causes": comparison.causes,
            "privileges": list(map(str, comparison.privileges)),
            "error": case.error,
            "was": was.key if was else (),
            "texts": self.texts.get(case.key),
        }
        return {key: value for key, value in entry.items() if value}

    def side(self, case: ReviewedCase) -> dict[str, Any]:
        """Return the texts of one side of a case: three numbers a span, and what is sent."""
        texts = spans_shown(case)
        sent = case.sent and (case.sent.repairs, _body(case.sent, texts))
        media: list[tuple[int, int, int]] = []
        for at, spans in enumerate(texts):
            if has_media(spans):
                # What is known of media is in their text, so that others differ.
                texts[at] = tuple(
                    replace(span, text=f"{span.text} {span.media.facts}") if span.media else span
                    for span in spans
                )
                found = ((place, span.media) for place, span in enumerate(spans))
                media += ((at, place, self.images.number(each)) for place, each in found if each)
        return {
            "roles": [message.title for message in (*case.prompt, *case.tools)],
            "lacksChat": case.sent is None and case.chat is None,
            "texts": [
                [self[text] for s in spans for text in (s.text, s.origin, s.path)]
                for spans in texts
            ],
            **({"media": media} if media else {}),
            **({"sent": sent} if sent else {}),
        }


def _body(sent: SentPrompt, texts: list[Spans]) -> dict[str, Any]:
    """Return what a target is sent, with the number of a text in place of each message's."""
    for each in sent.messages:
        if each.spans not in texts:
            texts.append(each.spans)
    messages = [
        {"role": each.role, "content": {"$": texts.index(each.spans)}, **each.data}
        for each in sent.messages
    ]
    return {"messages": messages, **sent.parameters}

"""Warnings of characters that nobody sees, in all that reaches a prompt."""

import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from msgspec import to_builtins

from multiturn.documents.input import open_regular, read_at_most
from multiturn.errors import MultiturnError, Place
from multiturn.explaining.spans import origin_of, suite_key
from multiturn.files.paths import is_below
from multiturn.hidden import MOST_HIDDEN, hidden_in
from multiturn.logs import Notice, warn
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.model.turns import Part
from multiturn.text import first_of, number_of

_LARGEST_SUITE = 1_000_000  # bytes: in a larger one, the place of a text is its first character's


def warn_of_hidden(conversion: Conversion) -> None:
    """Warn of each text of a prompt with hidden characters that are not allowed, once in a run."""
    case = conversion.case
    for part in _sent(conversion) if case.hidden_characters is None else ():
        if part.text.isascii() or not (found := hidden_in(part.text)):
            continue
        is_file = part.kind == "text" and part.resolved_path is not None and part.stage is None
        where = _place(part, found[0], case, is_file=is_file)
        if _is_allowed(where.file, case if is_file else None):
            continue
        names = Counter(unicodedata.name(part.text[at], "UNASSIGNED") for at in found)
        words = first_of([f"{name} ({count})" for name, count in names.most_common()])
        what = f"{number_of(len(found), 'hidden character')}{'+' * (len(found) == MOST_HIDDEN)}"
        key = "allow_hidden_characters of multiturn.toml" if is_file else "hidden_characters: allow"
        why = f"{what}: {words}; remove what is not meant, and say what is by {key}"
        case_id = None if is_file or part.message is None else case.id
        notice = Notice("text.hidden_characters", where, why, case_id=case_id)
        (warn if case.files is None else case.files.warn_once)(notice)


def _sent(conversion: Conversion) -> Iterator[Part]:
    """Yield each text of a prompt, of its tools and of its settings."""
    for turn in conversion.sent:
        yield from turn.parts
        if turn.is_more:
            yield from (*turn.thoughts, *turn.calls_shown)
    settings = (conversion.settings or conversion.case.settings).said()
    others = [(f"tools[{at}]", each, each.line) for at, each in enumerate(conversion.tools)]
    for key, value, line in *others, *((f"execution.{key}", settings[key], 0) for key in settings):
        text = json.dumps(to_builtins(value), ensure_ascii=False)
        yield Part("description", text, line=line, key=key)


def _place(part: Part, at: int, case: Case, *, is_file: bool) -> Place:
    """Return where a file has a character; if it is an escape there, where its text begins."""
    if is_file:
        before = part.text[:at].split("\n")
        return Place(part.resolved_path or "", len(before), len(before[-1]) + 1)
    place, key = case.place_of(part.message, part.content, part.key), suite_key(part, case)
    if not place.line and not key:
        return Place(label=origin_of(part, case))
    place = place if place.line else case.where(part.line)  # of a call, a thought or a tool
    label = key if part.message is None else case.where(key=key).label
    near = part.text[max(at - 4, 0) : at + 1].split("\n")[-1]
    start, most = max(place.column - 1, 0), at + 100 * (part.text.count("\n", 0, at) + 1)
    with (
        suppress(MultiturnError, OSError, ValueError, IndexError),
        open_regular(place.file, place.file) as file,
    ):
        whole = read_at_most(_LARGEST_SUITE, file, place.file, "suite").decode("utf-8-sig")
        rest = whole.split("\n", place.line - 1)[place.line - 1]
        before = rest[: rest.index(near, start, start + most) + len(near)].split("\n")
        return Place(place.file, place.line + len(before) - 1, len(before[-1]), label)
    return place._replace(label=label)


def _is_allowed(file: str, case: Case | None) -> bool:
    """Return whether a project allows hidden characters in a file, which a case may attach."""
    from multiturn.engine.project import find_defaults

    file = file if case is None or case.files is None else os.path.join(case.files.root, file)
    allowed = map(os.path.realpath, find_defaults()[0].allow_hidden_characters)
    return any(is_below(os.path.realpath(file), each) for each in allowed)

"""Warnings of characters that nobody sees, in all that reaches a prompt."""

import json
import os
import unicodedata
from collections import Counter
from contextlib import suppress

from msgspec import to_builtins

from multiturn.documents.input import read_small
from multiturn.errors import MultiturnError, Place
from multiturn.explaining.spans import suite_key
from multiturn.files.paths import is_below
from multiturn.hidden import MOST_HIDDEN, hidden_in
from multiturn.logs import Notice, warn
from multiturn.model.conversion import Conversion
from multiturn.model.turns import Part
from multiturn.text import first_of, number_of


def warn_of_hidden(conversion: Conversion) -> None:
    """Warn of each text of a prompt with hidden characters that are not allowed, once in a run."""
    case, files = conversion.case, conversion.case.files
    warned = set() if files is None else files.warned
    for part in _sent(conversion) if case.hidden_characters is None else ():
        if part.text.isascii() or not (found := hidden_in(part.text)):
            continue
        is_file = part.kind == "text" and part.resolved_path is not None and part.stage is None
        place, key = case.place_of(part.message, part.content, part.key), suite_key(part, case)
        label = key if key and part.message is None else case.where(key=key).label
        where = (place if place.line else case.where(part.line))._replace(label=label)
        where = Place(part.resolved_path or "") if is_file else where
        if where in warned:
            continue
        warned.add(where)
        from multiturn.engine.project import find_defaults  # which imports what imports this

        path = os.path.join(files.root if is_file and files is not None else "", where.file)
        allowed = find_defaults()[0].allow_hidden_characters
        if any(is_below(os.path.realpath(path), os.path.realpath(each)) for each in allowed):
            continue
        names = Counter(unicodedata.name(part.text[at], "UNASSIGNED") for at in found)
        words = first_of([f"{name} ({count})" for name, count in names.most_common()])
        what = "at least " * (len(found) == MOST_HIDDEN) + number_of(len(found), "hidden character")
        key = "allow_hidden_characters of multiturn.toml" if is_file else "hidden_characters: allow"
        why = f"{what}: {words}; remove what is not meant, and say what is by {key}"
        owner = None if is_file or part.message is None else case.id
        before = part.text[: found[0] + 1].split("\n")
        here = Place(where.file, len(before), len(before[-1]))
        where = here if is_file else _in_suite(where, part.text, found[0])
        warn(Notice("text.hidden_characters", where, why, case_id=owner))


def _sent(conversion: Conversion) -> list[Part]:
    """Return each text of a prompt, of its tools and of its settings."""
    found: list[Part] = []
    # Where nothing has run, as for a list of cases, no text of the case is in the prompt.
    for turn in conversion.sent if conversion.turns or conversion.stage else ():
        found += turn.parts
        if turn.calls or turn.thinking:
            found += (*turn.thoughts, *turn.calls_shown)
    for at, tool in enumerate(conversion.tools):
        text = json.dumps(to_builtins(tool), ensure_ascii=False)
        found.append(Part("description", text, line=tool.line, key=f"tools[{at}]"))
    for name, value in conversion.current_settings.said().items():
        text = json.dumps(to_builtins(value), ensure_ascii=False)
        found.append(Part("description", text, key=f"execution.{name}"))
    return found


def _in_suite(place: Place, text: str, at: int) -> Place:
    """Return where a small suite has a character; of an escape, or a large one, its text."""
    near = text[max(at - 1, 0) : at + 1].split("\n")[-1]
    start, most = max(place.column - 1, 0), at + 100 * (text.count("\n", 0, at) + 1)
    with suppress(MultiturnError, ValueError, IndexError):
        if os.path.isfile(place.file):  # and no pipe, which is read once
            suite = read_small(place.file, place.file, "suite", 200_000).decode("utf-8-sig")
            rest = suite.split("\n", place.line - 1)[place.line - 1]
            before = rest[: rest.index(near, start, start + most) + len(near)].split("\n")
            return Place(place.file, place.line + len(before) - 1, len(before[-1]), place.label)
    return place

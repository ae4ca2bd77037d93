"""What stands in captured requests for texts that change from run to run."""

import json
import os
import re
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from msgspec import Struct

from multiturn.files.paths import real_path

_UUID = r"(?i)(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])"
_PATH = r"(?:/[\w.@+%-]+)*"
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AP]M)?(?: ?(?:Z|(?:UTC|GMT)?(?:[+-]\d\d:?\d\d)?))?"
_TIME = rf"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?\b|(?<=\{{date\}})(?:[T ]|, | at ){_CLOCK}"


class Mask(Struct, frozen=True, rename={"name": "as"}, forbid_unknown_fields=True):
    """What changes from run to run, and the name that stands for it.

    Attributes:
        pattern: a regular expression.
        name: what is written in braces in its place; the key ``as`` in a file.
    """

    pattern: str
    name: str


def masks_of(own: Iterable[Mask], today: date) -> list[Mask]:
    """Return the masks of a project, and then those that always hold on a day, in this folder.

    Of dates, only yesterday, today and tomorrow change from run to run.
    """
    from tempfile import gettempdir

    folders = {"cwd": os.getcwd(), "home": os.path.expanduser("~"), "tmp": gettempdir()}
    found = [*own]
    for name, folder in folders.items():
        for path in sorted({folder, real_path(folder)}, key=len, reverse=True):
            below = _PATH if name == "tmp" else ""
            if path != os.sep:
                found.append(Mask(rf"{re.escape(path)}{below}(?![\w-])", name))
    found.append(Mask(_UUID, "uuid"))
    found += (Mask(_day(today + timedelta(days)), "date") for days in (-1, 0, 1))
    return [*found, Mask(_TIME, "time")]


def _day(day: date) -> str:
    """Return a pattern of a day, in the forms that programs write."""
    year, month, number = day.year, f"0?{day.month}", f"0?{day.day}"
    of_month, of_week = (
        f"(?:{day:{full}}|{day:{short}}\\.?)" for full, short in (("%B", "%b"), ("%A", "%a"))
    )
    first = rf"(?:{of_week},? )?"
    return (
        rf"\b(?:{year}(?P<gap>[-/.]?){day:%m}(?P=gap){day:%d}|{month}/{number}/{year}|{number}[./]{month}[./]{year}"
        rf"|{first}{of_month} {number}(?:[snrt][tdh])?,? {year}"
        rf"|{first}{number}(?:[snrt][tdh])? {of_month},? {year})(?!\d)"
    )


def advice(old: Any, new: Any) -> str:
    """Return the rule that would mask the first word that differs in two bodies, as an advice.

    A word without digits is meant to be another one.
    """
    words = (re.findall(r"[\w.:-]+", json.dumps(each)) for each in (old, new))
    pairs = (each for each in zip(*words, strict=False) if each[0] != each[1])
    one, other = next(pairs, ("", ""))
    start = os.path.commonprefix([one, other]).rstrip("0123456789")  # noqa: RUF071 - of texts
    if len(start) < 3 or not re.search(r"\d", one[len(start) :]):
        return ""
    rule = f"{{pattern = '{start}[\\w.:-]+', as = \"changes\"}}"
    return f"; if it changes with each run, write mask = [{rule}] in multiturn.toml"

"""The requests that a program has sent: masked, written one a line, and answered again."""

import json
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import Any

import msgspec
from msgspec import Struct, structs
from toolz import concat, groupby

from multiturn.capture.replies import Endpoint, GivenAnswer, Reply
from multiturn.documents.json_lines import read_value
from multiturn.documents.output import open_output
from multiturn.errors import InputError, MultiturnError, Place, cut, option
from multiturn.files.paths import real_path
from multiturn.logs import Notice, warn
from multiturn.model.turns import Call
from multiturn.providers.secrets import without_keys
from multiturn.providers.settings import TRANSPORT, Values
from multiturn.providers.trace import likeliest_form
from multiturn.suites.discovery import CAPTURED
from multiturn.text import first_of
from multiturn.traces.again import differences
from multiturn.traces.bodies import read_bodies

_MOST_BYTES = 500_000_000  # of all bodies and answers
# Keys of bodies that say who asks, which no model reads.
_WHO = {"user", "metadata", "client_metadata", "safety_identifier", "prompt_cache_key", "labels"}
_UUID = r"(?i)(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])"
# Before a path of this machine: not the rest of a URL, of a relative path, or of {a mask}.
_START = r"(?a:(?<![\w.~/)}\]-])|(?<=file://))"
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AP]M)?(?: ?(?:Z|(?:UTC|GMT)?(?:[+-]\d\d:?\d\d)?))?"
_TIME = rf"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?\b|(?<=\{{date\}})(?:[T ]|, | at ){_CLOCK}"
# A day, as programs write it. The last two may begin with its name, and have an ordinal.
_DATES = (
    r"{0:%Y}(?P<gap>[-/.]?){0:%m}(?P=gap){0:%d}",
    r"0?{0.month}/0?{0.day}/{0:%Y}|0?{0.day}[./]0?{0.month}[./]{0:%Y}",
    r"(?:{0:%A},? |{0:%a}\.?,? )?(?:{0:%B}|{0:%b}\.?) 0?{0.day}(?:[snrt][tdh])?,? {0:%Y}",
    r"(?:{0:%A},? |{0:%a}\.?,? )?0?{0.day}(?:[snrt][tdh])? (?:{0:%B}|{0:%b}\.?),? {0:%Y}",
)


def usual_masks(today: date) -> list[tuple[str, str]]:
    """Return what changes from run to run, as patterns, each with the name that stands for it.

    Of dates, only yesterday, today and tomorrow do.
    """
    folders = {"cwd": os.getcwd(), "home": os.path.expanduser("~"), "tmp": tempfile.gettempdir()}
    found = [
        (_START + re.escape(path) + r"(?:/[\w.@+%-]+)*" * (name == "tmp") + r"(?![\w-])", name)
        for name, folder in folders.items()
        for path in sorted({folder, real_path(folder)} - {os.sep}, key=len, reverse=True)
    ]
    days = [today + timedelta(days) for days in (-1, 0, 1)]
    dates = "|".join(form.format(day) for form in _DATES[1:] for day in days)
    found += [(rf"\b{_DATES[0].format(day)}(?!\d)", "date") for day in days]
    return [*found, (_UUID, "uuid"), (rf"\b(?:{dates})(?!\d)", "date"), (_TIME, "time")]


class Request(Struct, frozen=True, omit_defaults=True):
    """A request that a program has sent: a line of a file."""

    id: str  # its place in the order
    vendor: str  # whose API it was sent to
    body: dict[str, Any]  # masked; with what the address says, such as Gemini's model
    answer: str | None = None  # what the vendor answered, as text; None if it was not asked

    @property
    def key(self) -> str:
        """What is equal for the same request."""
        return f"{self.vendor} {json.dumps(self.body, sort_keys=True)}"


def request_in(value: Any, where: Place) -> Request:
    """Return the request that a line of a file is; an InputError if it is none."""
    try:
        return msgspec.convert(value, Request)
    except msgspec.ValidationError as error:
        what = f"this is not a captured request: {error}; write the file by multiturn capture"
        raise InputError(what, where=where) from None


def _read(path: str) -> Iterator[tuple[Request, GivenAnswer]]:
    """Yield each request of a file, of captured ones or of results, with what a result answers."""
    for found in read_bodies(path, as_written=True):
        if isinstance(found, MultiturnError):
            raise found
        match found.value:
            case {"wire": str(wire), "id": str(name), "response": str(text), **rest}:
                try:
                    calls = msgspec.convert(rest.get("tool_calls", ()), tuple[Call, ...])
                    body = msgspec.convert(read_value(wire), Values)
                except ValueError as error:
                    what = (
                        f"wire or tool_calls are not those of an API: {error}; leave this line out"
                    )
                    raise InputError(what, where=found.where) from None
                yield Request(name, likeliest_form(body)[0], body), GivenAnswer(text, calls)
            case {"target": _}:
                what = "this result has no answer, or no wire; add --record-wire to the run"
                raise InputError(what, where=found.where)
            case value:
                yield request_in(value, found.where), GivenAnswer()


def _nearest(request: Request, others: Iterable[Request]) -> tuple[Request | None, list[str]]:
    """Return the request of the same vendor with the fewest differences, and these in words."""
    same = [each for each in others if each.vendor == request.vendor]
    found = ((each, [*differences(each.body, request.body)]) for each in same)
    return min(found, key=lambda each: len(each[1]), default=(None, []))


class Recording:
    """Takes the requests of a program, and answers them.

    Args:
        masks: patterns of what changes from run to run, and the names that stand for it.
        redact: replace what looks like a key, which otherwise is an error.
        answers: a file with captured requests, or with results of ``run --record-wire``; a request
            that it does not have gets HTTP 404. Without a file, each gets the same text.

    Raises:
        MultiturnError: the file of answers cannot be read.
    """

    def __init__(
        self,
        masks: Iterable[tuple[str | re.Pattern[str], str]] = (),
        *,
        redact: bool = False,
        answers: str | None = None,
    ) -> None:
        self._masks = [(re.compile(pattern), name) for pattern, name in masks]
        self._redact, self._file, self._size = redact, answers, 0
        self.requests: list[Request] = []  # those that were taken
        self.masked = Counter[str]()  # how often each mask has matched
        self.errors: list[MultiturnError] = []  # what is wrong with requests
        known = () if answers is None else _read(answers)
        self._known = groupby(lambda each: self._key(each[0]), known)

    def take(self, endpoint: Endpoint, body: Values, answer: str | None) -> Reply:
        """Note a request, and return its answer; ``answer`` is the vendor's, if that was asked."""
        number, said = len(self.requests) + 1, GivenAnswer()
        if "stream" not in endpoint.form:  # it only counts tokens
            return endpoint.answer(body, said, number)
        request = self._request(Request(str(number), endpoint.vendor, body, answer))
        self._size += len(request.key) + len(answer or "")
        if self._size > _MOST_BYTES:
            return self.refuse(endpoint, 413, f"over {_MOST_BYTES:,} bytes; capture less")
        self.requests.append(request)
        if self._file is not None:
            found = self._known.get(self._key(request))
            if found is None:
                near, differ = _nearest(request, (each for each, _ in concat(self._known.values())))
                what = f"{self._file} has no answer to this request"
                like = f"; it is like {near.id}, but there {first_of(differ)}" if near else ""
                return self.refuse(endpoint, 404, what + like)
            known, said = found.pop(0) if len(found) > 1 else found[0]
            request = self.requests[-1] = structs.replace(request, answer=known.answer)
        status, kind, text = endpoint.answer(body, said, number)
        return status, kind, request.answer or text

    def write(self, path: str) -> None:
        """Write the requests to a file, whole or not at all."""
        with open_output(path) as file:
            file.writelines(msgspec.json.encode(each) + b"\n" for each in self.requests)

    def changes(self, path: str) -> Iterator[str]:
        """Yield how the requests differ from a file's, in words; their order may be another."""
        gone, added = [each for each, _ in _read(path)], []
        for request in self.requests:
            same = next((each for each in gone if each.key == request.key), None)
            gone.remove(same) if same else added.append(request)
        for request in added:
            near, found = _nearest(request, gone)
            if near is None:
                yield f"request {request.id} is new"
                continue
            gone.remove(near)
            yield f"request {near.id}: {first_of(found)}{_advice(near.body, request.body)}"
        yield from (f"request {each.id} was not sent" for each in gone)

    def refuse(self, endpoint: Endpoint, status: int, what: str) -> Reply:
        """Note what is wrong with a request, and return it as the answer."""
        self.errors.append(MultiturnError(what))
        return endpoint.refused(status, what)

    def _request(self, request: Request) -> Request:
        """Return a request as it is written: masked, and without keys."""
        asked = {key: value for key, value in request.body.items() if key not in _WHO}
        kept, keys = without_keys(structs.asdict(request) | {"body": self._masked(asked)})
        for place, kind in keys:
            what = f"request {request.id}: {place} has what looks like a key ({cut(kind)})"
            if self._redact:
                warn(Notice("capture.redacted", Place(), f"{what}; it is replaced by ***"))
            else:
                what += "; the file is committed, so leave it out, or add"
                self.errors.append(MultiturnError(f"{what} {option('redact')}"))
        return Request(**kept)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            for pattern, name in self._masks:
                value, count = pattern.subn(f"{{{name}}}", value)
                self.masked[name] += count
            return value
        if isinstance(value, list):
            return [*map(self._masked, value)]
        if isinstance(value, dict):
            return {key: self._masked(child) for key, child in value.items()}
        is_time = isinstance(value, float) and abs(value - time.time()) < 86_400
        self.masked["time"] += is_time
        return "{time}" if is_time else value

    def _key(self, request: Request) -> str:
        """Return what is equal for requests with the same answer; results are never streamed."""
        if self._file is None or self._file.endswith(CAPTURED):
            return request.key
        same = likeliest_form(request.body)[1].same(request.body)
        return json.dumps({key: same[key] for key in same if key not in TRANSPORT}, sort_keys=True)


def _advice(old: Values, new: Values) -> str:
    """Return the rule that would mask the first word that differs; one without digits is meant."""
    words = (re.findall(r"[\w.:-]+", json.dumps(each)) for each in (old, new))
    pairs = (each for each in zip(*words, strict=False) if each[0] != each[1])
    one, other = next(pairs, ("", ""))
    start = os.path.commonprefix([one, other]).rstrip("0123456789")  # noqa: RUF071 - of texts
    if len(start) < 3 or not re.search(r"\d", one[len(start) :]):
        return ""
    rule = f"{{pattern = '{start}[\\w.:-]+', as = \"changes\"}}"
    return f"; if it changes with each run, write mask = [{rule}] in multiturn.toml"

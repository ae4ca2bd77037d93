"""A file of captured requests as a suite: each request is a case, to which no pipeline applies."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

import msgspec
from msgspec import structs

from multiturn.capture.recording import request_in
from multiturn.documents.input import open_regular
from multiturn.documents.json_lines import Lines, read_json_lines
from multiturn.documents.node import Node
from multiturn.errors import AttachmentError, InputError, MultiturnError, did_you_mean, quoted
from multiturn.files.finding import Files
from multiturn.files.media import with_bytes
from multiturn.model.case import Case, TestMessage
from multiturn.model.request import PreparedRequest
from multiturn.model.turns import Part
from multiturn.providers.reading import BodyForm, Segment
from multiturn.providers.settings import Values
from multiturn.providers.trace import forms, likeliest_form, media_part
from multiturn.suites.case_files import files_below
from multiturn.suites.case_reader import CaseReader
from multiturn.suites.streaming import open_suite
from multiturn.suites.suite_reader import SuiteItem, SuiteReader

_SHORTEST_LINE, _SHORTEST_TEXT = 12, 20  # characters that are looked for in files
_LARGEST_FILE, _MOST_FILES = 1_000_000, 20_000
_QUOTES = r"""["`]+|(?<!\w)'+|'+(?!\w)"""
_TEXTS = ("text", "content", "instructions", "output")  # keys of texts, which may be joined
_SNAPSHOT = "\nchat_prompt:"


class CapturedSuite(SuiteReader):
    """Reads a file of captured requests."""

    is_captured = True

    def read(self, lines: Lines | None = None) -> Iterator[SuiteItem]:
        """Yield what the suite has, once its texts are found in the files of the root."""
        with open_suite(self.source, self.name) as file:
            nodes = (each for each in read_json_lines(file, self.name) if isinstance(each, Node))
            texts = (json.loads(each) for node in nodes for _, each in _leaves(node.value))
            written = (text.split("\n") for text in texts if isinstance(text, str))
            wanted = {line.strip() for each in written for line in each}
        self.reader = _CapturedReader(self.files, self.dialect)
        self.reader.sources = _Sources(self.files, wanted)
        yield from super().read(lines)


class _CapturedReader(CaseReader):
    sources: "_Sources"

    def case(self, node: Node, case_id: str, shared: Case, *_: str) -> Case:
        """Return the case of a request."""
        where = node.place(self.name)
        request = request_in(node.value, where)
        if request.vendor not in (known := dict(forms())):
            what = f"no vendor {request.vendor!r}; {did_you_mean(request.vendor, known)}"
            raise InputError(what, where=where)
        form = likeliest_form(request.body, request.vendor)[1]
        try:
            prepared = form.read(request.body, _media)
            msgspec.convert(msgspec.to_builtins(prepared), PreparedRequest)  # ids are texts, say
            if not prepared.spoken:
                raise ValueError("it has no messages")
        except (MultiturnError, ValueError) as error:
            what = f"this request cannot be read: {error}; leave its line out"
            where = node.place(self.name, f"case {quoted(case_id)}")
            raise InputError(what, where=where) from None
        body = {**(prepared.settings.body or {}), **_unread(form, request.body, prepared)}
        messages, turns = [], []
        for at, turn in enumerate(prepared.spoken):
            split = (piece for part in turn.parts for piece in self.sources.split(part))
            parts = tuple(
                structs.replace(part, message=at, content=number, line=node.line)
                for number, part in enumerate(split)
            )
            said = [it.text if it.media is None else {"type": it.media.kind} for it in parts]
            lines = (node.line,) * len(parts)
            called = turn.calls, turn.answers, turn.is_error, turn.thinking
            messages.append(TestMessage(turn.role, said, node.line, lines, "", *called))
            turns.append(structs.replace(turn, parts=parts, message=at))
        return structs.replace(
            shared,
            id=case_id,
            line=node.line,
            input_messages=tuple(messages),
            sent=tuple(turns),
            tools=prepared.tools,
            settings=structs.replace(prepared.settings, body={"model": prepared.model, **body}),
        )


def _media(segment: Segment) -> Part | None:
    with suppress(AttachmentError):  # what is no media is shown with all else that is not read
        return media_part(segment)
    return None


def _unread(form: BodyForm, body: Values, prepared: Any) -> Values:
    """Return what a request says of a body no more, by its path: marks for a cache, say."""
    again = msgspec.json.decode(msgspec.json.encode(form.write(prepared), enc_hook=with_bytes))
    said = Counter((path.rpartition(".")[2], leaf) for path, leaf in _leaves(form.same(again)))
    texts = "\n".join(leaf[1:-1] for _, leaf in said)
    found = {}
    for path, leaf in _leaves(form.same(body)):
        key = path.rpartition(".")[2]
        said[key, leaf] -= 1
        is_joined = key in _TEXTS and leaf[1:-1] in texts
        if said[key, leaf] < 0 and not is_joined and (key, leaf) != ("type", '"text"'):
            found[path] = json.loads(leaf)
    return found


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list) and value:
        for at, child in enumerate(value):
            yield from _leaves(child, f"{path}[{at}]")
    else:
        yield path, json.dumps(value)


class _Sources:
    """The files below a root that have lines of captured texts."""

    def __init__(self, files: Files, wanted: set[str]) -> None:
        self._files = files
        self._lines: dict[str, tuple[list[str], set[str]]] = {}  # of files: all, and those wanted
        wanted = {line for line in wanted if len(line) >= _SHORTEST_LINE}
        with suppress(MultiturnError):
            for path in islice(files_below(files.root), _MOST_FILES) if wanted else ():
                self._add(os.path.relpath(path, files.root).replace(os.sep, "/"), wanted)

    def _add(self, path: str, wanted: set[str]) -> None:
        if path.endswith(".jsonl"):
            return
        with suppress(OSError, ValueError, MultiturnError):
            with open_regular(os.path.join(self._files.root, path), path) as file:
                data = file.read(_LARGEST_FILE)
            text = data.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n")
            lines = [line.strip() for line in text.split("\n")]
            for at, line in enumerate(lines):  # code has a text in quotes
                if line not in wanted and re.search(_QUOTES, line):
                    quoted = (each.strip() for each in re.split(_QUOTES, line))
                    lines[at] = next(filter(wanted.__contains__, quoted), line)
            if (found := wanted.intersection(lines)) and _SNAPSHOT not in text:
                self._files.find(f"/{path}")  # which refuses what may hold keys
                self._lines[path] = lines, found

    def split(self, part: Part) -> Iterator[Part]:
        """Yield a part in parts: those that are lines of a file, and those between them."""
        written = part.text.split("\n")
        lines = [line.strip() for line in written]
        best = (False, _SHORTEST_TEXT - 1, "", 0, 0)
        for path, (theirs, wanted) in self._lines.items():
            if wanted.isdisjoint(lines):
                continue
            at, _, size = SequenceMatcher(None, lines, theirs, autojunk=False).find_longest_match()
            found = size == len(theirs), sum(map(len, lines[at : at + size])), path, at, at + size
            best = max(best, found if found[0] or found[1] >= _SHORTEST_TEXT else best)
        is_whole, _, path, start, end = best
        if not path:
            yield part
            return
        if is_whole:
            self._files.read(path, _LARGEST_FILE)  # so that reviews may show its name
        texts = ["\n".join(each) for each in (written[:start], written[start:end], written[end:])]
        if start:
            yield from self.split(structs.replace(part, text=texts[0]))
        yield structs.replace(part, text=texts[1], path=path, resolved_path=path)
        if end < len(written):
            yield from self.split(structs.replace(part, text=texts[2]))

"""A suite of imported cases: of request bodies, or of the answers of a run."""

import json
import re
import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import dropwhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from toolz import groupby

from multiturn.documents.dump import dump
from multiturn.documents.output import open_new, open_output
from multiturn.errors import AttachmentError, MultiturnError, Place, cut
from multiturn.files.media import EXTENSIONS, Media, no_room
from multiturn.logs import Notice
from multiturn.model.request import part_of
from multiturn.model.settings import RequestSettings
from multiturn.model.turns import Part, Turn
from multiturn.providers import trace as traces
from multiturn.providers.reading import Segment, mappings
from multiturn.providers.results import Result
from multiturn.providers.secrets import without_keys
from multiturn.providers.settings import Values
from multiturn.providers.trace import suite_media
from multiturn.text import number_of
from multiturn.traces.again import case_in, changes
from multiturn.traces.bodies import NO_MESSAGES, Body, read_bodies
from multiturn.traces.telemetry import INPUT, read_telemetry

_NAME = re.compile(r"(?!\.)[\w.() -]{1,100}(?<![. ])")
_LONGEST_NAME = 255  # bytes of UTF-8, as file systems count
_MOST_SAID = 100  # kinds of what is not kept


class Attached:
    """The media of the bodies that are imported.

    Args:
        folder: stands for the folder of the suite until that is written; None for a suite on
            standard output, which has its media in it.
        name: of the folder in it that gets the files, each named by its digest.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self.folder = folder
        self.name = name
        self.lost: list[str] = []  # what is wrong with media that were left out
        self._kept: Path | None = None  # what ``keep`` has made

    def read(self, segment: Segment) -> Part | None:
        """Return media of a body as a part, and write them as a file; None if they are none."""
        try:
            part, name = traces.media_part(segment), segment.get("name")
        except AttachmentError as error:
            self.lost.append(f"the {segment['type']} is left out, as {error}")
            return None
        media = part.media
        if media is None or media.url is not None or self.folder is None:
            return part
        path = f"{self.name}/{media.digest}"
        # Vendors are told the name of a file, so it stays: in a folder named by the digest.
        is_kept = name and _NAME.fullmatch(name) and len(name.encode()) <= _LONGEST_NAME
        path += f"/{name}" if is_kept else f".{EXTENSIONS[media.media_type]}"
        target = self.folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(media.data)
        except OSError as error:
            raise no_room(error) from None
        return part_of(media.replace(path=path))

    def piece(self, media: Media) -> Values:
        """Return media as a segment of the suite."""
        return suite_media(media, None if self.folder is None else media.path)

    def keep(self, folder: Path) -> None:
        """Copy the files to a folder beside the suite; a FileExistsError if there is one."""
        made = self.folder and self.folder / self.name
        if made is None or not made.exists():
            return
        target = folder / self.name
        target.mkdir()  # not through a link, which may lead elsewhere
        self._kept = target
        shutil.copytree(made, target, dirs_exist_ok=True)

    def remove(self) -> None:
        """Remove what ``keep`` has made."""
        if self._kept is not None:
            shutil.rmtree(self._kept, ignore_errors=True)


@contextmanager
def attached_for(output: str | None) -> Iterator[Attached]:
    """Return where the media of a suite go, until it is written; None is standard output."""
    if output is None:
        yield Attached(None, "")
        return
    with TemporaryDirectory() as folder:
        yield Attached(Path(folder), f"{_stem(output)}.media")


def _stem(output: str) -> str:
    """Return how the files beside a suite begin: ``umbrella`` for ``umbrella.eval.yaml``."""
    return re.sub(r"(?i)(\.eval)?\.\w+$", "", Path(output).name)


class Imported(NamedTuple):
    """A case of a suite, and the target that sends the body again which it was made of."""

    case: Values
    target: Values
    is_same: bool = True  # whether the body that is sent is the one that was read


def _unique(name: str, taken: dict[str, int]) -> str:
    """Return a name, or a number after it if it is taken; ``taken`` has the last ones."""
    new, number = name, taken.get(name, 1)
    while new in taken:
        number += 1
        new = f"{name}-{number}"
    taken[name] = number
    taken.setdefault(new, 1)
    return new


def imported(
    paths: Iterable[str], attached: Attached, *, answers: bool = False, redact: bool = False
) -> Iterator[Imported | MultiturnError | Notice]:
    """Yield each case that files of request bodies make, what is wrong, and what is not kept.

    With ``answers``, files have results: a case goes on from each answer, with a message to fill
    in. Media go where ``attached`` says. Each kind of what is not kept is said once, with its first
    place. What looks like a key is an error; with ``redact``, ``***`` is in its place, which a
    notice says.
    """
    ids: dict[str, int] = {}
    said, where = set[str](), Place()
    count = bodies = skipped = 0
    for found in (each for path in paths for each in read_bodies(path, as_written=answers)):
        if isinstance(found, MultiturnError):
            yield found
            continue
        where = found.where
        if found.value is NO_MESSAGES:
            skipped += 1
            continue
        bodies, written = bodies + 1, found.value
        if redact:
            name = yield from _redacted(found.id, where, "the id")
            found = found._replace(id=name, value=(yield from _redacted(found.value, where)))
        try:
            if answers:
                yield _case_of_answer(found, ids)
                continue
            case, lost = _case_of(found, _unique(found.id, ids), attached)
            if found.value != written:
                case = case._replace(is_same=False)
        except MultiturnError as error:
            label = ": ".join(filter(None, (where.label, error.where.label)))
            error.where = where._replace(label=label)
            yield error
            continue
        for what in lost:
            kind = re.sub(r"(: | is sent as ).*|\d+", "", what)
            if kind in said or len(said) >= _MOST_SAID:
                count += 1
                continue
            said.add(kind)
            yield Notice("import.not_kept", where, without_keys(what)[0])
        yield case
    what = f"{number_of(skipped, 'span')} without messages skipped"
    if skipped and bodies:
        yield Notice("import.skipped", Place(where.file), what, is_warning=False)
    elif skipped:
        hint = "let the instrumentation record them, which most do only if told to"
        yield MultiturnError(f"{what}; {hint}", where=where.file)
    if count:
        yield Notice("import.more", where, f"{number_of(count, 'more warning')} of these kinds")


def _redacted(value: Any, where: Place, path: str = "") -> Generator[Notice, None, Any]:
    """Yield what looks like a key in a value, and return the value with ``***`` in its place."""
    kept, keys = without_keys(value, path)
    for place, kind in keys:
        what = f"{place} has what looks like a key ({cut(kind)}); it is replaced by ***"
        yield Notice("import.redacted", where, what, is_warning=False)
    return kept


def _case_of(body: Body, case_id: str, attached: Attached) -> tuple[Imported, list[str]]:
    """Return the case of a body, and what of the body it does not keep."""
    if not isinstance(body.value, dict):
        raise MultiturnError("the request body is not a JSON object")
    attached.lost = []
    if INPUT in body.value:
        trace = read_telemetry(body.value, attached.read)
    else:
        kind, form = traces.likeliest_form(body.value, body.provider)
        read = form.read(body.value, attached.read)
        trace = traces.Trace(provider=kind, request=read, target=form.settings(read), form=form)
    request, lost = trace.request, attached.lost
    case = {"id": case_id, **traces.suite_case(trace, attached.piece)}
    refuse_keys(case)
    lost += changes(body.value, trace, case_in(case, attached.folder))
    target = {"provider": trace.provider, "model": request.model, **trace.target}
    if _has_variable(json.dumps(target)):
        raise MultiturnError("the model would be read as a variable; replace it in the file")
    of_provider = trace.provider.upper()
    target["model"] = target["model"] or f"${{{{ {of_provider}_MODEL }}}}"
    target["api_key"] = f"${{{{ {of_provider}_API_KEY }}}}"
    if trace.provider == "azure":
        target["endpoint"] = "${{ AZURE_ENDPOINT }}"
    if not any(turn.role == "system" for turn in request.spoken):
        target["default_system"] = "omit"
    refuse_keys(target)
    return Imported(case, target, not lost), lost


def _has_variable(written: str) -> bool:
    """Return whether the file of a target would take something in a text for a variable."""
    return "$" in written or "{{" in written


def _case_of_answer(found: Body, ids: dict[str, int]) -> Imported | Notice:
    """Return the case that goes on from an answer, with its prompt and its settings.

    After the answer the user speaks, or, after calls, each tool answers: messages to fill in.
    """
    where = found.where
    try:
        result = msgspec.convert(found.value, Result)
    except msgspec.ValidationError as error:
        what = f"no conversation can go on from this result of a run, if it is one: {error}"
        raise MultiturnError(what) from None
    said, asked, calls = result.response or "", result.raw_request, result.tool_calls or ()
    if asked is None or not (said.strip() or calls):
        what = f"case {result.id!r} has no answer; it is left out"
        return Notice("import.no_answer", where, what)
    unread = {file.path for file in asked.input_files or () if not file.resolved_path}
    turns = [*asked.turns]
    parts = (Part("text", said),) if said.strip() else ()
    blocks = [(form, block) for block in mappings(result.thinking) for _, form in traces.forms()]
    thinking = tuple(thought for form, block in blocks for thought in form.thoughts(block))
    turns.append(Turn("assistant", parts, None, thinking, calls))
    number = sum(turn.role == "user" for turn in turns) + 1
    given = {
        "id": _unique(f"{re.sub('-turn-[0-9]+$', '', result.id)}-turn-{number}", ids),
        "conversation_id": result.conversation_id,
        "tools": [*map(traces.suite_tool, asked.tools or ())],
        "execution": msgspec.to_builtins(asked.settings or RequestSettings()),
    }
    case: Values = {key: value for key, value in given.items() if value}
    fill_in = (Part("text", "(to fill in)"),)
    waiting = [Turn("tool", fill_in, answers=call.id) for call in calls] or [Turn("user", fill_in)]

    def piece(media: Media) -> Values:
        """Return media as a segment: results have only their path or address."""
        value = media.url or media.path
        if value is None or (media.url is None and value in unread):
            what = "results do not have the bytes of media that were no file"
            raise MultiturnError(f"{what}; attach them as a file, and run the suite again")
        return suite_media(media, value)

    messages = [traces.suite_message(turn, piece) for turn in (*turns, *waiting)]
    case["input_messages"] = messages
    refuse_keys(case)
    case_in(case)
    for each in messages[len(turns) :]:
        each["content"] = None
    return Imported(case, {})


def refuse_keys(case: Values) -> None:
    """Refuse a case with what looks like a key: suites are committed."""
    for where, kind in without_keys(case)[1]:
        what = f"{where} has what looks like a key ({cut(kind)})"
        raise MultiturnError(f"{what}; suites are committed, so replace it in the file")


def write_suite(cases: list[Imported], output: str | None, attached: Attached) -> None:
    """Write a suite to a new file, and targets and media beside it; None is standard output."""
    if output is None:
        with open_output(None) as file:
            file.write(suite_text(cases).encode())
        return
    path = Path(output)
    targets = _with_shared_settings(cases)
    beside = path.with_name(f"{_stem(output)}.targets.yaml")
    current = path
    try:
        with open_new(path) as file:
            file.write(suite_text(cases, beside.name).encode())
            current = beside
            with open_new(beside) if targets else nullcontext() as others:
                if others is not None:
                    others.write(dump({"targets": targets}).removeprefix("---\n").encode())
                current = path.with_name(attached.name)
                attached.keep(path.parent)
    except BaseException as error:
        attached.remove()
        if isinstance(error, FileExistsError):
            what = f"{str(current)!r} exists; name another file, or remove it"
            raise MultiturnError(what) from None
        raise


def _with_shared_settings(cases: list[Imported]) -> list[Values]:
    """Return the targets with the settings that all of their cases have, which lose these."""
    targets = named_targets(cases)
    for target, of_cases in targets:
        given = [each.get("execution", {}) for each in of_cases]
        for name, value in given[0].items():
            written = {json.dumps(each.get(name)) for each in given}
            if len(written) == 1 and not _has_variable(*written):
                target[name] = value
        for case, execution in zip(of_cases, given, strict=True):
            case["execution"] = {name: execution[name] for name in execution if name not in target}
            if not case["execution"]:
                del case["execution"]
    return [target for target, _ in targets]


def named_targets(cases: list[Imported]) -> list[tuple[Values, list[Values]]]:
    """Return the targets that send the bodies again, and the cases of each."""
    names: dict[str, int] = {}
    found = []
    for group in groupby(lambda each: json.dumps(each.target), cases).values():
        if target := group[0].target:
            name = _unique(target["provider"], names)
            found.append(({"name": name, **target}, [each.case for each in group]))
    return found


def suite_text(cases: list[Imported], targets_file: str = "") -> str:
    """Return the suite in YAML; tools that all cases have are the suite's.

    A comment at the top names what sends the bodies again: the file of the targets, or these.
    """
    tools = cases[0].case.get("tools")
    found: Values = {"evalcases": [each.case for each in cases]}
    if len(cases) > 1 and tools and all(each.case.get("tools") == tools for each in cases):
        listed = [{k: v for k, v in each.case.items() if k != "tools"} for each in cases]
        found = {"tools": tools, "evalcases": listed}
    return _comment(cases, targets_file) + dump(found).removeprefix("---\n")


def _comment(cases: list[Imported], targets_file: str) -> str:
    """Return what sends the bodies again, as a comment."""
    if not any(each.target for each in cases):
        return "# Write each content that is null.\n"
    pipeline = "spec"
    roles = [[message["role"] for message in each.case["input_messages"]] for each in cases]
    if any("system" in [*dropwhile(lambda role: role == "system", each)] for each in roles):
        pipeline = "extends: spec, configure: {consolidate_system: {later_system: keep}}"
    is_same = all(each.is_same for each in cases)
    what = "The same requests again" if is_same else "These requests, but for what import warned of"
    where = f"the targets of {targets_file}" if targets_file else "these targets"
    lines = [f"{what}: the pipeline {pipeline}, and {where}"]
    if not targets_file:
        targets = [target for target, _ in named_targets(cases)]
        lines += [f"  {line}" for line in dump(targets).removeprefix("---\n").splitlines()]
    return "".join(f"# {line}\n" for line in lines)

"""The causes of a changed prompt: files, keys, messages, patterns and the pipeline.

What may be a cause is one if the case, converted without this one change, is another case. What
alone is different is the cause, unless a stage of one's own may have other code.
"""

from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from os.path import join
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import MultiturnError
from multiturn.explaining.spans import file_of
from multiturn.files.finding import Files, Texts
from multiturn.files.media import Media
from multiturn.logs import warnings_to
from multiturn.model.case import PROMPT_KEY, Case
from multiturn.model.conversion import Conversion
from multiturn.model.turns import without_lines
from multiturn.pipelines.pipeline import Pipeline
from multiturn.pipelines.registry import find_stage
from multiturn.pipelines.step import SHIPPED, Step
from multiturn.providers.base import TargetProvider
from multiturn.report.sides import CaseSummary, SidePipeline, SideStage, digest_of, spans_shown
from multiturn.snapshots.attached_files import change_in_words
from multiturn.snapshots.reviewed_case import ReviewedCase, reviewed_case
from multiturn.snapshots.text_diff import changed_lines
from multiturn.text import first_of

SEVERAL = "one or several of "
UNKNOWN_CODE = "the code of a stage"  # of a module that a stage imports
_MOST = 4  # possible causes of a case that are undone one by one
_FAILS = b""  # in place of a digest: the case cannot be converted so

Steps = tuple[Step, ...]
_said = attrgetter("role", "content", "answers", "is_error")


class Cause(Struct, frozen=True):
    """A change that may have changed a case; nothing can undo it unless it says how."""

    words: str
    file: str = ""  # the attached file that has changed, from the root; its old text undoes it
    stage: str = ""  # whose option has changed; empty for anything else
    edit: Callable[[Case], Case] | None = None  # gives the case without this change
    undo: Callable[[Steps], Steps] | None = None  # gives the stages without this change


class Undoing:
    """Converts cases as they are, with some changes undone.

    Args:
        changes: what is different in the pipeline; they are undone if that makes a legal pipeline.
        provider: of the target whose prompts are compared; None for those of the pipeline.
    """

    def __init__(
        self, pipeline: Pipeline, changes: Iterable[Cause], provider: TargetProvider | None = None
    ) -> None:
        self._pipeline, self._provider = pipeline, provider
        self.target = "" if provider is None else provider.name
        self._pipelines: dict[tuple[str, ...], Pipeline | None] = {(): pipeline}
        # Whether the code of all stages is the same as before: each ships.
        self._is_known = all(step.stage.__module__.startswith(SHIPPED) for step in pipeline.steps)
        self._texts = Texts()  # of the attached files as they are on disk
        self._finders: dict[tuple[str, ...], Files] = {}  # of these, by root, folder and suite
        self.changes = [
            change if self._without((change,)) else replace(change, undo=None) for change in changes
        ]

    def causes(
        self, entry: CaseSummary, was: CaseSummary, new: ReviewedCase, old: ReviewedCase | None
    ) -> Iterator[Cause]:
        """Yield the causes of a changed prompt; ``old`` is None if it could not be converted."""
        if old is None:
            yield Cause(f"{entry.suite}: it could not be converted before")
            return
        found: list[Cause] = []
        sides = [side.files.keys() - {side.case.settings.schema_path} for side in (new, old)]
        if sides[0] != sides[1] and _messages(new) == _messages(old):
            found += (Cause(f"{path} is found now") for path in sorted(sides[0] - sides[1]))
            found += (Cause(f"{path} is no longer found") for path in sorted(sides[1] - sides[0]))
        possible = list(_of_suite(entry, new, old))
        if new.sent and old.sent:
            now, then = ((each.messages, each.input_files) for each in (new, old))
            if new.sent.parameters != old.sent.parameters or now == then:
                possible.append(Cause(f"settings of the target {self.target}"))
        possible += self.changes
        if len(possible) == 1 and not found and self._is_known:
            yield from possible  # nothing else can have changed the prompt
            return
        undoing = partial(self.digest, new, old)
        for group in causes_with_effect(possible, undoing, entry.digest, was.digest):
            words = SEVERAL + first_of([each.words for each in group])
            found.append(group[0] if len(group) == 1 else Cause(words))
        yield from found or [Cause(UNKNOWN_CODE)]

    def digest(self, new: ReviewedCase, old: ReviewedCase, undone: Iterable[Cause]) -> bytes | None:
        """Return the digest of a case with changes undone; None if that makes no legal pipeline."""
        undone = list(undone)
        pipeline = self._without(tuple(each for each in undone if each.undo))
        if pipeline is None:
            return None
        case = replace(new.case, files=self._files(new, old, [c.file for c in undone if c.file]))
        for cause in undone:
            case = cause.edit(case) if cause.edit else case
        if case.settings.schema_path in [cause.file for cause in undone]:
            case = replace(case, settings=case.settings.with_schema_of(old.case.settings))
        try:
            with warnings_to(lambda _: None):  # the first conversion has given them
                return digest_of(reviewed_case(pipeline(Conversion(case)), self._provider))
        except MultiturnError:
            return _FAILS

    def _files(self, new: ReviewedCase, old: ReviewedCase, paths: list[str]) -> Files | None:
        """Return what finds the files of a case; some have their old texts."""
        if new.folder is None:
            return None
        root, texts = new.root, Texts(self._texts) if paths else self._texts
        known = self._finders if not paths else {}
        files = known.get(suite := (root, new.folder, new.suite))
        if files is None:
            files = known[suite] = Files(Path(root, new.folder), Path(root), texts)
            files.suite = new.suite
        # Media are compared by their digests, so their bytes are read only for a target.
        for path, now in new.files.items():
            file, place = old.files[path] if path in paths else now, join(root, *path.split("/"))
            if isinstance(file, str) and path in paths:
                texts[place] = len(file), file, "\n"
            elif isinstance(file, Media) and (path in paths or self._provider is None):
                texts[place] = file
        return files

    def _without(self, changes: tuple[Cause, ...]) -> Pipeline | None:
        key = tuple(change.words for change in changes)
        if key not in self._pipelines:
            steps: Steps | None = self._pipeline.steps
            self._pipelines[key] = None
            with suppress(MultiturnError, ValueError, LookupError):
                for change in changes:
                    steps = steps and change.undo and change.undo(steps)
                if steps:
                    self._pipelines[key] = Pipeline(steps, name=self._pipeline.name)
        return self._pipelines[key]


def causes_with_effect(
    possible: Sequence[Cause],
    digest: Callable[[Sequence[Cause]], bytes | None],
    now: bytes,
    then: bytes,
) -> Iterator[Sequence[Cause]]:
    """Yield the causes that have changed a case, each alone, or several as a group.

    Args:
        possible: the first four are tried one by one.
        digest: returns that of the case without some of them; None if that is not legal.
        now: the digest of the case as it is.
        then: the digest before.
    """
    undoable = [each for each in possible if each.file or each.edit or each.undo]
    fixed = [each for each in possible if each not in undoable]
    alone, others = undoable[:_MOST], undoable[_MOST:]
    found = [each for each in alone if digest([each]) != now]
    yield from ([each] for each in found)
    idle = [each for each in alone if each not in found]
    # Two changes that each suffice hide each other: without either one, the case stays the same.
    group = others or (idle if len(idle) > 1 else [])
    if group and digest(group) == now:
        group = []
    if fixed and undoable and digest(undoable) == then:
        fixed = []  # the others explain the whole difference
    if group or fixed:
        yield [*group, *fixed]


def _of_suite(entry: CaseSummary, new: ReviewedCase, old: ReviewedCase) -> Iterator[Cause]:
    """Yield what has changed in the suite and in the attached files."""
    for path in sorted(new.files.keys() & old.files.keys()):
        if new.files[path] != old.files[path] and _sent(path, new) != _sent(path, old):
            words = change_in_words(path, old.files[path], new.files[path], has_lines=True)
            yield Cause(words, file=path)
    keys, before = new.case.keyed_texts, old.case.keyed_texts
    for key in sorted(new.shown | old.shown):
        if keys.get(key) != before.get(key):
            yield Cause(
                f"{key} of {entry.suite}", edit=partial(_key_as_it_was, key, before.get(key))
            )
    messages, known = _messages(new), _messages(old)
    if messages != known:
        lines = zip(messages, new.case.input_messages, strict=True)
        line = next((each.line for written, each in lines if written not in known), entry.line)
        words = f"{entry.suite} line {line}: the messages of {entry.id!r}"
        yield Cause(words, edit=lambda case: replace(case, input_messages=old.case.input_messages))
    if new.tool_data != old.tool_data:
        tools = old.case.tools
        yield Cause(f"tools of {entry.suite}", edit=lambda case: replace(case, tools=tools))
    asked = old.case.settings.with_schema_of(new.case.settings)
    if new.case.settings != asked:
        yield Cause(f"settings of {entry.suite}", edit=lambda case: replace(case, settings=asked))
    globs, were = new.case.guideline_patterns, old.case.guideline_patterns
    if globs != were:
        words = f"guideline patterns: {', '.join(were) or 'none'} → {', '.join(globs) or 'none'}"
        yield Cause(words, edit=lambda case: replace(case, guideline_patterns=were))


def _key_as_it_was(key: str, text: str | None, case: Case) -> Case:
    if key == PROMPT_KEY:
        return replace(case, system_prompt=text)
    texts = {**case.keyed_texts, key: text}
    texts.pop(PROMPT_KEY, None)
    return replace(case, guidelines=tuple(each for each in texts.values() if each is not None))


def _messages(case: ReviewedCase) -> list[object]:
    """Return the messages as they were written, without lines."""
    messages = case.case.input_messages
    return [(_said(m), without_lines(m.calls), without_lines(m.thinking)) for m in messages]


def _sent(path: str, case: ReviewedCase) -> object:
    """Return what a file is in the prompt, in the transcript, to an agent, and as a schema."""
    spans = (span for text in spans_shown(case) for span in text)
    files = (file for file in case.input_files if file.resolved_path == path)
    return (
        [(span.text, span.media) for span in spans if file_of(span) == path],
        [(file.text, file.media) for file in files],
        case.files[path] if path == case.case.settings.schema_path else None,
    )


def pipeline_changes(then: SidePipeline, now: SidePipeline) -> list[Cause]:
    """Return what is different in a pipeline: an option, a stage, their order, a stage's code."""
    pipeline = now.name
    old, new = ({stage.name: stage for stage in side.stages} for side in (then, now))
    found: list[Cause] = []
    for name, stage in new.items():
        if name not in old:
            words = f"the stage {name} in {stage.places[''] or pipeline}"
            found.append(Cause(words, undo=partial(_remove, name)))
            continue
        for option in sorted(stage.options.keys() | old[name].options.keys()):
            if stage.options.get(option) != old[name].options.get(option):
                place = stage.places.get(option) or stage.places[""] or pipeline
                words = f"{name}.{option} in {place}"
                undo = partial(_configure, name, option, old[name].options.get(option))
                found.append(Cause(words, stage=name, undo=undo))
    for before, stage in zip([None, *then.stages], then.stages, strict=False):
        if stage.name not in new:
            words = f"{stage.name} is no longer in {pipeline}"
            # The code of a stage that does not ship is that of another revision.
            again = None if stage.code else partial(_insert, stage, before)
            found.append(Cause(words, undo=again))
    common = [name for name in old if name in new]
    if [name for name in new if name in old] != common:
        words = f"the order of the stages in {pipeline}"
        found.append(Cause(words, undo=partial(_reorder, common)))
    for name, stage in new.items():
        if name in old and old[name].code != stage.code:
            words = f"{stage.path} {changed_lines(old[name].code, stage.code)}"
            found.append(Cause(words))
    return found


def _configure(name: str, option: str, value: str | None, steps: Steps) -> Steps:
    old = {} if value is None else {option: literal_eval(value)}
    return tuple(
        Step(step.stage, {**{k: v for k, v in step.options.items() if k != option}, **old})
        if step.name == name
        else step
        for step in steps
    )


def _remove(name: str, steps: Steps) -> Steps:
    return tuple(step for step in steps if step.name != name)


def _insert(stage: SideStage, before: SideStage | None, steps: Steps) -> Steps:
    options = {option: literal_eval(value) for option, value in stage.options.items()}
    at = [step.name for step in steps].index(before.name) + 1 if before else 0
    return (*steps[:at], Step(find_stage(stage.name), options), *steps[at:])


def _reorder(names: list[str], steps: Steps) -> Steps:
    found = {step.name: step for step in steps}
    ordered = iter(names)
    return tuple(found[next(ordered)] if step.name in names else step for step in steps)

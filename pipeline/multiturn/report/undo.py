"""Converting a case again with some of its changes undone: what that changes has acted."""

from ast import literal_eval
from collections.abc import Callable, Iterable
from contextlib import suppress
from os.path import join
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import MultiturnError
from multiturn.files.finding import Files, Texts
from multiturn.files.media import Media
from multiturn.logs import warnings_to
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.pipelines.registry import find_stage
from multiturn.pipelines.step import Step
from multiturn.providers.base import TargetProvider
from multiturn.report.sides import Stage, Stages, digest_of
from multiturn.snapshots.attached import media_in
from multiturn.snapshots.reviewed_case import ReviewedCase, review
from multiturn.snapshots.text_diff import changed_lines

FAILS = b""  # in place of a digest: the case cannot be converted so

Steps = tuple[Step, ...]


class PipelineChange(Struct, frozen=True):
    """What is different in a pipeline."""

    words: str
    stage: str = ""  # whose option it is; empty for any other change
    # gives the steps without this change; None where nothing can, as for the code of a stage
    undo: Callable[[Steps], Steps] | None = None


class Candidate(Struct, frozen=True):
    """What may have changed a case."""

    words: str
    edit: Callable[[Case], Case] | None = None  # gives the case without this change
    file: str = ""  # the attached file that has changed
    change: PipelineChange | None = None
    can_be_undone: bool = True  # the case can be converted without this change


class Undoing:
    """Converts cases as they are, with some changes undone.

    Args:
        pipeline: as it is.
        changes: what is different in it; one whose undoing makes no legal pipeline cannot be
            undone.
        provider: of the target whose prompts are compared; None for those of the pipeline.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        changes: Iterable[PipelineChange],
        provider: TargetProvider | None = None,
    ) -> None:
        self._pipeline, self._provider = pipeline, provider
        self._pipelines: dict[tuple[str, ...], Pipeline | None] = {(): pipeline}
        self._texts = Texts()  # of the attached files as they are on disk
        self.changes = [
            change if self._without((change,)) else replace(change, undo=None) for change in changes
        ]

    def digest(
        self, new: ReviewedCase, old: ReviewedCase, undone: Iterable[Candidate]
    ) -> bytes | None:
        """Return the digest of a case with some changes undone; FAILS if it has an error then.

        None if the changes together make no legal pipeline.
        """
        undone = list(undone)
        pipeline = self._without(tuple(each.change for each in undone if each.change))
        if pipeline is None:
            return None
        case = replace(new.case, files=self._files(new, old, [c.file for c in undone if c.file]))
        for candidate in undone:
            case = candidate.edit(case) if candidate.edit else case
        try:
            with warnings_to(lambda _: None):  # the first conversion has given them
                return digest_of(review(pipeline(Conversion(case)), self._provider))
        except MultiturnError:
            return FAILS

    def _files(self, new: ReviewedCase, old: ReviewedCase, paths: list[str]) -> Files | None:
        """Return what finds the files of a case; some have their old texts."""
        if new.folder is None:
            return None
        root = new.request.root
        texts = Texts(self._texts) if paths else self._texts
        files = Files(Path(root, new.folder), Path(root), texts)
        files.suite = new.suite
        # Media are compared by their digests, so their bytes are read only for a target.
        media = media_in(new.files) if self._provider is None else {}
        for path, file in {**media, **{path: old.files[path] for path in paths}}.items():
            place = join(files.root, *path.split("/"))
            if isinstance(file, Media):
                texts.media[place] = file
            else:
                texts[place] = len(file), file, "\n"
        return files

    def _without(self, changes: tuple[PipelineChange, ...]) -> Pipeline | None:
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


def pipeline_changes(then: Stages, now: Stages) -> list[PipelineChange]:
    """Return what is different in a pipeline: an option, a stage, their order, a stage's code."""
    pipeline = now.pipeline
    old, new = ({stage.name: stage for stage in side.stages} for side in (then, now))
    found: list[PipelineChange] = []
    for name, stage in new.items():
        if name not in old:
            words = f"the stage {name} in {stage.places[''] or pipeline}"
            found.append(PipelineChange(words, undo=_remove(name)))
            continue
        for option in sorted(stage.options.keys() | old[name].options.keys()):
            if stage.options.get(option) != old[name].options.get(option):
                place = stage.places.get(option) or stage.places[""] or pipeline
                words = f"{name}.{option} in {place}"
                undo = _configure(name, option, old[name].options.get(option))
                found.append(PipelineChange(words, name, undo))
    for before, stage in zip([None, *then.stages], then.stages, strict=False):
        if stage.name not in new:
            words = f"{stage.name} is no longer in {pipeline}"
            # The code of a stage that does not ship is that of another revision.
            again = None if stage.code else _insert(stage, before)
            found.append(PipelineChange(words, undo=again))
    common = [name for name in old if name in new]
    if [name for name in new if name in old] != common:
        words = f"the order of the stages in {pipeline}"
        found.append(PipelineChange(words, undo=_reorder(common)))
    for name, stage in new.items():
        if name in old and old[name].code != stage.code:
            words = f"{stage.path} {changed_lines(old[name].code, stage.code)}"
            found.append(PipelineChange(words))
    return found


def _configure(name: str, option: str, value: str | None) -> Callable[[Steps], Steps]:
    def undo(steps: Steps) -> Steps:
        old = {} if value is None else {option: literal_eval(value)}
        return tuple(
            Step(step.stage, {**{k: v for k, v in step.options.items() if k != option}, **old})
            if step.name == name
            else step
            for step in steps
        )

    return undo


def _remove(name: str) -> Callable[[Steps], Steps]:
    return lambda steps: tuple(step for step in steps if step.name != name)


def _insert(stage: Stage, before: Stage | None) -> Callable[[Steps], Steps]:
    def undo(steps: Steps) -> Steps:
        options = {option: literal_eval(value) for option, value in stage.options.items()}
        names = [step.name for step in steps]
        at = names.index(before.name) + 1 if before else 0
        return (*steps[:at], Step(find_stage(stage.name), options), *steps[at:])

    return undo


def _reorder(names: list[str]) -> Callable[[Steps], Steps]:
    def undo(steps: Steps) -> Steps:
        found = {step.name: step for step in steps}
        ordered = iter(names)
        return tuple(found[next(ordered)] if step.name in names else step for step in steps)

    return undo

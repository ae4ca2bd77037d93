"""The causes of a changed prompt: files, keys, messages, patterns and the pipeline."""

from collections.abc import Iterator, Mapping

from multiturn.review.diff import changed_lines
from multiturn.review.report.suites import Entry, Stages, texts_of
from multiturn.review.reviewed import ReviewedCase
from multiturn.text import first_of

SEVERAL = "one or several of "
UNKNOWN_CODE = "the code of a stage"  # of a module that a stage imports
TARGET = "the settings of the target, or the rules of its API"

# What is different in a pipeline, in words, and the stage whose option it is, or empty.
PipelineChanges = Mapping[str, str]


def causes(
    case: Entry, new: ReviewedCase, old: ReviewedCase | None, pipeline: PipelineChanges
) -> Iterator[str]:
    """Yield the causes of a changed prompt, in words.

    Args:
        case: as it is.
        new: its texts.
        old: the texts before; None if it could not be converted.
        pipeline: what has changed in the pipeline.
    """
    if old is None:
        yield f"{case.suite}: it could not be converted before"
        return
    found = [*_own_causes(case, new, old), *_causes_of_target(case, new, old)]
    yield from found
    if touching := _touching(pipeline, new, old):
        yield SEVERAL * (len(touching) > 1) + first_of(touching)
    elif not found:
        yield UNKNOWN_CODE


def _touching(pipeline: PipelineChanges, new: ReviewedCase, old: ReviewedCase) -> list[str]:
    """Return the changes of a pipeline that could be the cause.

    Where it is known which stages added each text that differs, the options of others are not.
    """
    sides = ({(s.stage, s.text) for t in texts_of(side) for s in t} for side in (new, old))
    stages = {stage for stage, _ in set.symmetric_difference(*sides)}
    if not stages or not stages <= set(filter(None, pipeline.values())):
        return list(pipeline)
    return [change for change, stage in pipeline.items() if not stage or stage in stages]


def _own_causes(case: Entry, new: ReviewedCase, old: ReviewedCase) -> Iterator[str]:
    for path in sorted(new.files.keys() & old.files.keys()):
        if new.files[path] != old.files[path]:
            yield f"{path} {changed_lines(old.files[path], new.files[path])}"
    keys, before = new.case.keyed_texts, old.case.keyed_texts
    for key in sorted(new.shown | old.shown):
        if keys.get(key) != before.get(key):
            yield f"{key} of {case.suite}"
    messages, known = _messages(new), [message for message, _ in _messages(old)]
    if [message for message, _ in messages] != known:
        line = next((line for message, line in messages if message not in known), case.line)
        yield f"{case.suite} line {line}: the messages of {case.id!r}"
    else:
        # The same words can find another file: one was put nearer, or is gone.
        yield from (f"{path} is there" for path in sorted(new.files.keys() - old.files.keys()))
        yield from (f"{path} is gone" for path in sorted(old.files.keys() - new.files.keys()))
    globs, were = new.case.guideline_patterns, old.case.guideline_patterns
    if globs != were and _guidelines(new) & old.files.keys() != _guidelines(old) & new.files.keys():
        yield f"guideline patterns: {', '.join(were) or 'none'} → {', '.join(globs) or 'none'}"


def _causes_of_target(case: Entry, new: ReviewedCase, old: ReviewedCase) -> Iterator[str]:
    """Yield what changed the prompt that a target gets, but not the pipeline's."""
    if new.sent is None or old.sent is None:
        return
    asked, before = (
        (side.request.temperature, side.request.max_output_tokens) for side in (new, old)
    )
    prompt, was = ((side.messages, side.request.input_files) for side in (new, old))
    if asked != before:
        yield f"execution of {case.suite}"
    elif new.sent.parameters != old.sent.parameters or prompt == was:
        yield TARGET


def _messages(side: ReviewedCase) -> list[tuple[object, int]]:
    """Return the messages as they were written, each with its line."""
    return [((message.role, message.content), message.line) for message in side.case.input_messages]


def _guidelines(side: ReviewedCase) -> set[str]:
    return {file.resolved_path for file in side.request.input_files if file.guideline}


def pipeline_changes(then: Stages, now: Stages) -> PipelineChanges:
    """Return what is different in a pipeline: an option, a stage, a stage's code."""
    pipeline, found = now.pipeline, dict[str, str]()
    old, new = ({stage.name: stage for stage in side.stages} for side in (then, now))
    for name, stage in new.items():
        if name not in old:
            found[f"the stage {name} in {stage.places[''] or pipeline}"] = ""
            continue
        for option in sorted(stage.options.keys() | old[name].options.keys()):
            if stage.options.get(option) != old[name].options.get(option):
                place = stage.places.get(option) or stage.places[""] or pipeline
                found[f"{name}.{option} in {place}"] = name
    found |= {f"{name} is no longer in {pipeline}": "" for name in old if name not in new}
    if [name for name in new if name in old] != [name for name in old if name in new]:
        found[f"the order of the stages in {pipeline}"] = ""
    for name, stage in new.items():
        if name in old and old[name].code != stage.code:
            found[f"{stage.path} {changed_lines(old[name].code, stage.code)}"] = ""
    return found

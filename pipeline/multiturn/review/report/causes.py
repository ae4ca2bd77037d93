"""The causes of a changed prompt: files, keys, messages, patterns and the pipeline."""

import re
from collections.abc import Iterator

from multiturn.review.diff import changed_lines
from multiturn.review.report.side import Entry, Reviewed

SEVERAL = "one or several of "
UNKNOWN_CODE = "the code of a stage"  # of a module that a stage imports


def causes(
    case: Entry, new: Reviewed, old: Reviewed | None, pipeline: tuple[str, ...]
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
    found = list(_own_causes(case, new, old))
    yield from found
    if touching := _touching(pipeline, new, old):
        yield SEVERAL * (len(touching) > 1) + first_of(touching)
    elif not found:
        yield UNKNOWN_CODE


def first_of(names: list[str]) -> str:
    """Return up to three names, and the number of the others.

    >>> first_of(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _touching(pipeline: tuple[str, ...], new: Reviewed, old: Reviewed) -> list[str]:
    """Return the changes of a pipeline that could be the cause.

    Where it is known which stages added each text that differs, the options of others are not.
    """
    sides = ({(s.stage, s.text) for t in side.texts for s in t} for side in (new, old))
    stages = {stage for stage, _ in set.symmetric_difference(*sides)}
    options = [re.match(r"(\w+)\.\w+ in ", change) for change in pipeline]
    if not stages or not stages <= {match[1] for match in options if match}:
        return list(pipeline)
    found = zip(pipeline, options, strict=True)
    return [change for change, match in found if match is None or match[1] in stages]


def _own_causes(case: Entry, new: Reviewed, old: Reviewed) -> Iterator[str]:
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


def _messages(side: Reviewed) -> list[tuple[object, int]]:
    """Return the messages as they were written, each with its line."""
    return [((message.role, message.content), message.line) for message in side.case.input_messages]


def _guidelines(side: Reviewed) -> set[str]:
    return {file.resolved_path for file in side.request.input_files if file.guideline}

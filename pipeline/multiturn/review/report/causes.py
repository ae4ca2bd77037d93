"""The causes of a changed prompt: files, keys, messages, patterns and the pipeline."""

import re
from collections.abc import Iterator

from multiturn.review.diff import changed_lines
from multiturn.review.report.side import Entry, Reviewed

SEVERAL = "one or several of "
UNKNOWN_CODE = "the code of a stage"  # of a module that a stage imports


def causes(
    now: Entry, new: Reviewed, then: Entry, old: Reviewed, pipeline: tuple[str, ...]
) -> Iterator[str]:
    """Yield the causes of a changed prompt, in words.

    Args:
        now: the case as it is.
        new: its texts.
        then: the case as it was.
        old: its texts.
        pipeline: what has changed in the pipeline.
    """
    if then.error:
        yield f"{now.suite}: it could not be converted before"
        return
    found = list(_own_causes(now, new, old))
    yield from found
    if touching := _touching(pipeline, new, old):
        more = f" and {len(touching) - 3} more" if len(touching) > 3 else ""
        yield SEVERAL * (len(touching) > 1) + ", ".join(touching[:3]) + more
    elif not found:
        yield UNKNOWN_CODE


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


def _own_causes(now: Entry, new: Reviewed, old: Reviewed) -> Iterator[str]:
    for path in sorted(new.files.keys() & old.files.keys()):
        if new.files[path] != old.files[path]:
            yield f"{path} {changed_lines(old.files[path], new.files[path])}"
    for key in sorted(new.shown | old.shown):
        if new.keys.get(key) != old.keys.get(key):
            yield f"{key} of {now.suite}"
    if [message for message, _ in new.messages] != [message for message, _ in old.messages]:
        yield f"{now.suite} line {_line(now, new, old)}: the messages of {now.id!r}"
    else:
        # The same words can find another file: one was put nearer, or is gone.
        yield from (f"{path} is there" for path in sorted(new.files.keys() - old.files.keys()))
        yield from (f"{path} is gone" for path in sorted(old.files.keys() - new.files.keys()))
    others = new.guidelines & old.files.keys() != old.guidelines & new.files.keys()
    if others and new.patterns != old.patterns:
        patterns = (", ".join(patterns) or "none" for patterns in (old.patterns, new.patterns))
        yield f"guideline patterns: {' → '.join(patterns)}"


def _line(now: Entry, new: Reviewed, old: Reviewed) -> int:
    """Return the line of the first message that is new, or else of the case."""
    known = [message for message, _ in old.messages]
    return next((line for message, line in new.messages if message not in known), now.line)

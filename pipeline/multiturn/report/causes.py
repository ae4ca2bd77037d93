"""The causes of a changed prompt: files, keys, messages, patterns and the pipeline.

A candidate is a cause if the case, converted without this one change, is another case.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from multiturn.model.calls import without_lines
from multiturn.model.case import PROMPT_KEY, Case, TestMessage
from multiturn.report.sides import Entry, texts_of
from multiturn.report.undo import Candidate, PipelineChange, Undoing
from multiturn.snapshots.attached import cause_in_words
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.text import first_of

SEVERAL = "one or several of "
UNKNOWN_CODE = "the code of a stage"  # of a module that a stage imports
TARGET = "the settings of the target, or the rules of its API"
_ASKED = ("temperature", "max_output_tokens", "tool_choice")  # by ``execution``
_MOST = 4  # candidates of a case that are undone one by one


class Cause(NamedTuple):
    """What has changed a prompt."""

    words: str
    file: str = ""  # the attached file that has changed, from the root


def causes(
    entry: Entry, was: Entry, new: ReviewedCase, old: ReviewedCase | None, undoing: Undoing
) -> Iterator[Cause]:
    """Yield the causes of a changed prompt.

    Args:
        entry: the case as it is.
        was: the case before.
        new: its texts.
        old: the texts before; None if it could not be converted.
        undoing: converts it again.
    """
    if old is None:
        yield Cause(f"{entry.suite}: it could not be converted before")
        return
    found = list(map(Cause, _files_found(new, old)))
    candidates = [
        *_own_candidates(entry, new, old),
        *_of_target(new, old),
        *_of_pipeline(undoing.changes, new, old),
    ]
    groups = acting(
        candidates, lambda undone: undoing.digest(new, old, undone), entry.digest, was.digest
    )
    for group in groups:
        words, is_one = [candidate.words for candidate in group], len(group) == 1
        found.append(Cause(SEVERAL * (not is_one) + first_of(words), group[0].file * is_one))
    yield from found or [Cause(UNKNOWN_CODE)]


def acting(
    candidates: Sequence[Candidate],
    digest: Callable[[Sequence[Candidate]], bytes | None],
    now: bytes,
    then: bytes,
) -> Iterator[Sequence[Candidate]]:
    """Yield the candidates that have changed a case, each alone, or several as a group.

    Args:
        candidates: the likeliest first.
        digest: returns that of the case without some candidates; None if that is not legal.
        now: the digest of the case as it is.
        then: that of the case before.
    """
    undoable = [each for each in candidates if each.can_be_undone]
    fixed = [each for each in candidates if not each.can_be_undone]
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


def _of_pipeline(
    changes: Sequence[PipelineChange], new: ReviewedCase, old: ReviewedCase
) -> list[Candidate]:
    """Return the changes of the pipeline; first those of stages that wrote what differs."""
    if not changes:
        return []
    sides = ({(s.stage, s.text) for t in texts_of(case) for s in t} for case in (new, old))
    stages = {stage for stage, _ in set.symmetric_difference(*sides)}
    ordered = sorted(changes, key=lambda change: change.stage not in stages)
    return [
        Candidate(change.words, change=change, can_be_undone=change.undo is not None)
        for change in ordered
    ]


def _own_candidates(entry: Entry, new: ReviewedCase, old: ReviewedCase) -> Iterator[Candidate]:
    """Yield what has changed in the suite and in the attached files."""
    for path in sorted(new.files.keys() & old.files.keys()):
        if new.files[path] != old.files[path] and _sent(path, new) != _sent(path, old):
            words = cause_in_words(path, old.files[path], new.files[path])
            yield Candidate(words, file=path)
    keys, before = new.case.keyed_texts, old.case.keyed_texts
    for key in sorted(new.shown | old.shown):
        if keys.get(key) != before.get(key):
            yield Candidate(f"{key} of {entry.suite}", _key_as_it_was(key, before.get(key)))
    messages, known = _messages(new), [message for message, _ in _messages(old)]
    if [message for message, _ in messages] != known:
        line = next((line for message, line in messages if message not in known), entry.line)
        words = f"{entry.suite} line {line}: the messages of {entry.id!r}"
        yield Candidate(words, lambda case: replace(case, input_messages=old.case.input_messages))
    if new.request.tools != old.request.tools:
        yield Candidate(f"tools of {entry.suite}", lambda case: replace(case, tools=old.case.tools))
    asked = {name: getattr(old.case, name) for name in _ASKED}
    if {name: getattr(new.case, name) for name in _ASKED} != asked:
        yield Candidate(f"execution of {entry.suite}", lambda case: replace(case, **asked))
    globs, were = new.case.guideline_patterns, old.case.guideline_patterns
    if globs != were:
        words = f"guideline patterns: {', '.join(were) or 'none'} → {', '.join(globs) or 'none'}"
        yield Candidate(words, lambda case: replace(case, guideline_patterns=were))


def _of_target(new: ReviewedCase, old: ReviewedCase) -> Iterator[Candidate]:
    """Yield what may have changed what a target gets, but not the pipeline's prompt."""
    if new.sent is None or old.sent is None:
        return
    is_same = (new.messages, new.request.input_files) == (old.messages, old.request.input_files)
    if new.sent.parameters != old.sent.parameters or is_same:
        yield Candidate(TARGET, can_be_undone=False)


def _files_found(new: ReviewedCase, old: ReviewedCase) -> Iterator[str]:
    """Yield the files that the same words of the suite find now, or found before."""
    if [message for message, _ in _messages(new)] == [message for message, _ in _messages(old)]:
        yield from (f"{path} is found now" for path in sorted(new.files.keys() - old.files.keys()))
        gone = sorted(old.files.keys() - new.files.keys())
        yield from (f"{path} is no longer found" for path in gone)


def _key_as_it_was(key: str, text: str | None) -> Callable[[Case], Case]:
    def edit(case: Case) -> Case:
        if key == PROMPT_KEY:
            return replace(case, system_prompt=text)
        texts = {**case.keyed_texts, key: text}
        texts.pop(PROMPT_KEY, None)
        return replace(case, guidelines=tuple(each for each in texts.values() if each is not None))

    return edit


def _messages(case: ReviewedCase) -> list[tuple[object, int]]:
    """Return the messages as they were written, each with its line."""
    return [(_as_written(message), message.line) for message in case.case.input_messages]


def _as_written(message: TestMessage) -> object:
    beside = without_lines(message.calls), without_lines(message.thinking)
    return message.role, message.content, *beside, message.answers, message.is_error


def _sent(path: str, case: ReviewedCase) -> object:
    """Return what a file is in the prompt, in the transcript and to an agent."""
    spans = (span for text in texts_of(case) for span in text)
    files = (file for file in case.request.input_files if file.resolved_path == path)
    return (
        [(span.text, span.media) for span in spans if span.path == path and span.stage is None],
        [(file.text, file.media) for file in files],
    )

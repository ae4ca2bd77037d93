"""The cases of suites, for programs."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from multiturn.engine.outcomes import cases
from multiturn.engine.selection import Selection, select
from multiturn.errors import MultiturnError
from multiturn.model import Case


def load_suite(
    source: str | Path,
    *,
    case: str | Iterable[str] = (),
    root: str | Path | None = None,
    guideline_patterns: Iterable[str] | None = None,
    on_error: Callable[[MultiturnError], object] | None = None,
) -> Iterator[Case]:
    """Find a suite, or the suites in a folder, and return an iterator over the cases.

    Each case is read when the iterator comes to it.

    Args:
        source: path of a YAML file, of a ``.jsonl`` file with one case a line, or of a folder:
            all ``*.eval.yaml``, ``*.eval.yml``, ``*.eval.json`` and ``*.eval.jsonl`` below, but
            for hidden folders and ``node_modules``. ``-`` is YAML on standard input.
        case: only the cases with this id, or one of these; an id may have wildcards.
        root: attached files are read inside it only; by default the nearest folder above each
            suite that holds ``.git``, else the suite's own.
        guideline_patterns: used instead of those of the suites and of ``.agentv/config.yaml``.
        on_error: called with each error of a suite or a case, and the next case follows; without
            it the iterator raises the first error.

    Raises:
        MultiturnError: there is no such suite or root, or a pattern is not one. The iterator
            raises it for a suite or a case that is not as the format wants it, with its place,
            and at the end if no case has a selected id.
    """
    selection = select(
        [str(source)],
        root=root,
        guideline_patterns=guideline_patterns,
        case_ids=(case,) if isinstance(case, str) else case,
    )
    return _cases(selection, on_error)


def _cases(
    selection: Selection, on_error: Callable[[MultiturnError], object] | None
) -> Iterator[Case]:
    for outcome in cases(selection):
        if outcome.error is None:
            if outcome.case is not None:
                yield outcome.case
        elif on_error is None:
            raise outcome.error
        else:
            on_error(outcome.error)

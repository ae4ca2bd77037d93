"""Converting the suites that a command names: each mistake is reported, the others go on."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from multiturn.errors import MultiturnError, did_you_mean
from multiturn.files import Texts
from multiturn.logs import logger
from multiturn.model import Case, Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.prompts.provenance import explain
from multiturn.suites.discovery import find_suites, stay_inside
from multiturn.suites.loading import load_suite
from multiturn.suites.patterns import guideline_matcher
from multiturn.text import indented, visible

if TYPE_CHECKING:
    from multiturn.documents.json_lines import Lines
    from multiturn.engine.ids import Ids

_A_CASE = re.compile(rb"""input_messages["']?\s*:""")


class UnusableError(click.ClickException):
    """What was asked for cannot be done at all: exit code 2, as for a wrong option."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


def unwritable(output: str | None, error: OSError) -> UnusableError:
    """Return the error for an output that cannot be written; a closed pipe is no error."""
    if error.errno == errno.EPIPE:
        raise error
    if output is None:  # what is still in the buffer must not fail once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UnusableError(f"cannot write {output or '-'!r}: {error.strerror}")


class Batch:
    """The cases that a command works on, and how many of them failed.

    Args:
        suites: files, folders, or ``-``.
        root: attached files are read inside it only; None for each suite's own.
        guidelines: patterns that replace those of the suites, if there are any.
        case_ids: the cases wanted; all, if there are none.
        debug: show tracebacks.
        may_be_gone: as for ``find_suites``.

    Raises:
        UnusableError: there is no such suite, or a pattern is not one.
    """

    def __init__(
        self,
        suites: tuple[str, ...],
        root: str | None,
        guidelines: tuple[str, ...],
        case_ids: tuple[str, ...],
        debug: bool,
        *,
        may_be_gone: bool = False,
    ) -> None:
        try:
            self.paths = list(find_suites(suites, may_be_gone=may_be_gone))
            guideline_matcher(guidelines)
        except MultiturnError as error:
            raise UnusableError(str(error)) from error
        self.named = frozenset(suites)  # else they were found in a folder
        self.root = root
        self.guidelines = guidelines or None
        self.case_ids = frozenset(case_ids)
        self.debug = debug
        self.ids: set[str] = set()
        self.failures = 0
        self.path = ""  # of the suite that is being read

    def refuse_output(self, output: str | None) -> None:
        """Make sure that an output replaces no suite.

        Raises:
            UnusableError: it would.
        """
        if output is not None and os.path.realpath(output) in map(os.path.realpath, self.paths):
            raise UnusableError(f"--output {output!r} is a suite; name another file")

    def lines(self) -> "Lines | None":
        """Return which lines of a JSON Lines suite are read; None for all."""
        return None

    def known_ids(self) -> "Ids | None":
        """Return the ids that stand in other lines of the suite; None for none."""
        return None

    def name_of(self, path: str) -> str | None:
        """Return what errors and results call a suite; None for its path."""
        return None

    def cases(self) -> Iterator[Case]:
        """Yield the cases that are wanted.

        Raises:
            UnusableError: at the end, if a case was asked for that no suite has.
        """
        texts = Texts()
        for path in self.paths:
            self.path = path
            try:
                if path not in self.named:
                    stay_inside(path, self.root)
            except MultiturnError as error:
                self.report(error)
                continue
            for case in load_suite(
                path,
                root=self.root,
                guideline_patterns=self.guidelines,
                texts=texts,
                on_error=self.report,
                lines=self.lines(),
                ids=self.known_ids(),
                name=self.name_of(path),
            ):
                if self.wants(case.id):
                    yield case
        self.check_ids()

    def check_ids(self) -> None:
        """Make sure that there was a case of each id that was asked for.

        Raises:
            UnusableError: there was not.
        """
        for case_id in sorted(self.case_ids - self.ids):
            raise UnusableError(f"no case {case_id!r}; {did_you_mean(case_id, sorted(self.ids))}")

    def conversions(
        self, pipeline: Pipeline, *, strict: bool = False, verbose: bool = False
    ) -> Iterator[Conversion]:
        """Yield the conversion of each case that can be converted.

        Args:
            pipeline: what converts them.
            strict: take it for a failure if a segment is lost and no rule explains it.
            verbose: log each stage, and text that poses as a marker.
        """
        if verbose:
            pipeline = pipeline.logged()
        for case in self.cases():
            conversion = self.convert(case, pipeline, strict=strict)
            if conversion is not None:
                if verbose:
                    _warn_of_markers(conversion)
                yield conversion

    def convert(self, case: Case, pipeline: Pipeline, *, strict: bool = False) -> Conversion | None:
        """Return the conversion of a case; None if it failed, which is then reported."""
        try:
            conversion = pipeline(Conversion(case))
            if strict:
                for fate in explain(conversion).fates:
                    if fate.fate == "lost":
                        raise MultiturnError(f"lost: {fate.why}", where=fate.where)
        except MultiturnError as error:
            self.report(error)
            return None
        return conversion

    def wants(self, case_id: str | None) -> bool:
        """Tell whether a case was asked for; what belongs to no case always counts."""
        if case_id is None or not self.case_ids:
            return True
        self.ids.add(case_id)
        return case_id in self.case_ids

    def report(self, error: MultiturnError) -> None:
        """Say on standard error why a case, or the rest of a suite, was skipped."""
        if not self.wants(error.case_id):
            return
        if self.debug:
            import traceback

            self.fail("".join(traceback.format_exception(error)).rstrip())
        else:
            self.fail(str(error))

    def fail(self, message: str) -> None:
        """Count a failure, and say why on standard error."""
        self.failures += 1
        click.echo(indented(message), err=True)

    def estimate(self) -> int | None:
        """Return about how many cases there are, without loading them; None if unknown."""
        if self.case_ids:
            return len(self.case_ids)
        if "-" in self.paths:
            return None
        try:
            return sum(map(_count_cases, self.paths))
        except OSError:  # whoever loads it says so
            return None

    def finish(self) -> None:
        """End the process with exit code 1 if anything failed."""
        if self.failures:
            sys.exit(1)


def _count_cases(path: str) -> int:
    with open(path, "rb") as lines:  # one by one: a suite may be larger than memory
        return sum(len(_A_CASE.findall(line)) for line in lines)


def _warn_of_markers(conversion: Conversion) -> None:
    from multiturn_stages.guard_markers import guard_markers

    for notice in guard_markers(conversion).notices:
        if notice not in conversion.notices:
            logger().warning(notice.event, where=notice.where, why=notice.why)

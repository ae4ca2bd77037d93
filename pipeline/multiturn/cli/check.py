"""The command that checks suites and pipelines, and sends nothing."""

import os
from collections import Counter
from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import Failures, echo, say_summary, show_progress
from multiturn.errors import MultiturnError, PipelineError, Place, StageError, nearest
from multiturn.text import in_line, number_of, visible

if TYPE_CHECKING:
    from multiturn.cli.lines import Severity
    from multiturn.engine.selection import Selection
    from multiturn.logs import Notice
    from multiturn.pipelines.pipeline import Pipeline
    from multiturn.providers.base import TargetProvider
    from multiturn.snapshots.locations import Key

_WITHOUT = {  # what it means that a pipeline does not give a fact
    "chat": "LLM APIs get no chat prompt, but the question as one user message; add"
    " consolidate_system",
    "question": "agents get no question, and so nothing to read; add render_question",
}


@shared.suite_command()
@shared.target_options("Also check every prompt against the rules of this target's API.")
@shared.format_option(
    *("text", "json", "github"),
    words="Text on standard error, JSON lines, or annotations that GitHub shows in a pull request.",
)
@shared.flag("--stages", help="Also run each stage twice, and name those that are not idempotent.")
@shared.quiet_option
def check(options: shared.SuiteOptions, stages: bool) -> None:
    """Check suites and pipelines; nothing is sent or written.

    SUITE is a suite or a folder of suites, or a pipeline: its name, or a file with stages or
    extends. Suites are read and converted, by the one pipeline that is named, if any; with
    --target each prompt is also checked against the rules of the target's API, and each repair
    that they require is noted; no key is needed. All errors are listed, and the exit code is
    then 1. With -v, texts that a rule drops are logged, such as a system prompt that a system
    message replaces. A pipeline without a chat prompt, or without a question, is legal, and
    what that means is said; one without both is an error. Each pipeline converts a built-in
    case, so that a stage that fails, or does not do what it declares, is an error, too.
    """
    from multiturn.logs import warnings_to
    from multiturn.pipelines.pipeline_file import is_pipeline, pipeline_names

    if options.format_ == "github":
        from multiturn.cli.annotations import protect_runner

        protect_runner()
    findings = _Findings(options.format_, is_strict=options.strict, debug=options.failures.debug)
    suites, named = [], []
    for path in options.suites:
        is_typo = not os.path.exists(path) and nearest(path, pipeline_names()) is not None
        if is_pipeline(path) or is_typo:
            named += _check_pipeline(path, findings)
        else:
            suites.append(path)
    if stages and not suites:
        raise click.UsageError("--stages runs stages on the cases of suites; name a suite, too")
    if suites:
        selection = options._replace(suites=tuple(suites)).select()
        is_chosen = len(named) == 1 and shared.is_default("pipeline")
        chosen = named[0] if is_chosen else options.read_pipeline()
        provider = options.provider()
        with warnings_to(findings.warn):
            try:
                tried = named or [chosen] if stages else []
                _check_cases(selection, chosen, provider, findings, tried)
            except MultiturnError as error:  # there is no case of an id that was asked for
                findings.add(error)
    findings.finish()


class _Findings(Failures):
    """Prints what is wrong, one line for each error or warning, and counts the errors."""

    def __init__(self, format_: str, *, is_strict: bool, debug: bool) -> None:
        super().__init__(debug=debug)
        self.format = format_
        self.is_text = format_ == "text"
        self.is_strict = is_strict
        self.refused: set[str] = set()  # pipelines, and files whose warnings are errors

    def add(self, error: MultiturnError, trace: str = "") -> None:
        """Print and count an error."""
        if self.is_text:
            super().add(error, trace)
        else:
            self.count += 1
            self._print(error, "error")

    def warn(self, notice: "Notice") -> None:
        """Print a warning; with --strict it is an error."""
        error = MultiturnError(notice.why, where=notice.where, case_id=notice.case_id)
        if self.is_strict:
            self.refused.add(notice.where.file)
            self.add(error)
        elif self.is_text:
            super().warn(notice)
        else:
            self._print(error, "warning")

    def note(self, where: Place, what: str) -> None:
        """Print what is worth knowing, and no error."""
        if self.is_text:
            click.echo(in_line(f"note: {where}: {what}"), err=True)
        else:
            self._print(MultiturnError(what, where=where), "note")

    def approve(self, name: str, what: str) -> None:
        """Print what was found to be right."""
        if self.is_text:
            say_summary(f"{name}: {what}")

    def _print(self, error: MultiturnError, severity: "Severity") -> None:
        from multiturn.cli.annotations import annotation
        from multiturn.cli.lines import CheckLine, message_without_place
        from multiturn.explaining.record import to_json

        where, what = error.where, message_without_place(error)
        if self.format == "json":
            place = where.file or None, where.line or None, where.column or None
            echo(to_json(CheckLine(severity, *place, error.case_id, what)), nl=False)
        elif self.is_example(severity, error.what):
            echo(annotation(where, what, title="multiturn check", severity=severity))


def _check_pipeline(path: str, findings: _Findings) -> "list[Pipeline]":
    """Add what is wrong with a pipeline; return it if nothing is."""
    from multiturn.pipelines.ordering import facts_along
    from multiturn.pipelines.pipeline import try_out
    from multiturn.pipelines.pipeline_file import read_pipeline

    try:
        pipeline = read_pipeline(path)
        missing = {"chat", "question"} - facts_along([step.stage for step in pipeline.steps])[-1]
        if len(missing) == 2:
            what = "the pipeline gives neither a chat prompt nor a question; add"
            what += " consolidate_system or render_question"
            raise MultiturnError(what, where=path)
        refusal = try_out(pipeline)
    except PipelineError as error:
        for each in error.errors:
            findings.add(MultiturnError(each.what, where=each.where))
        if error.advice and findings.is_text:
            click.echo(visible(error.advice), err=True)
    except StageError as error:
        findings.add(error.at(Place(path, label="built-in case"), ""))
    except MultiturnError as error:
        findings.add(error)
    else:
        findings.approve(path, f"{number_of(len(pipeline.steps), 'stage')}, in a legal order")
        if refusal:
            findings.approve(path, f"a stage refuses the built-in case: {refusal}")
        for fact in missing:
            findings.approve(path, _WITHOUT[fact])
        return [pipeline]
    findings.refused.add(path)
    return []


def _check_cases(
    selection: "Selection",
    pipeline: "Pipeline",
    provider: "TargetProvider | None",
    findings: _Findings,
    tried: "list[Pipeline]",
) -> None:
    """Add what is wrong with cases, and with stages ``tried`` on them; say how many are right."""
    from multiturn.engine.converting import convert_cases
    from multiturn.engine.project import PromptLimit
    from multiturn.explaining.explanation import explain, preview_of
    from multiturn.logs import TEXT_AS_MEDIA, debug, is_debugging
    from multiturn.snapshots.changes import name_cases

    right: Counter[str] = Counter()
    limit = PromptLimit(provider)
    wrong: set[str] = set()
    noted: dict[str, tuple[Place, list[Key]]] = {}  # the first place and all cases of each note
    unsteady: dict[str, tuple[Place, list[Key]]] = {}  # of each stage that changes its own result
    for outcome in show_progress(convert_cases(selection, pipeline), prints=not findings.is_text):
        error = outcome.error
        conversion = outcome.conversion
        if error is None and conversion is not None:
            notes = [each.why for each in conversion.notices if each.event == TEXT_AS_MEDIA]
            try:
                if provider is not None and conversion.case.sent is None:
                    preview = preview_of(conversion, provider)
                    provider.warn_once(preview.doubts)
                    notes += preview.repairs
                error = limit.error_of(conversion)
            except MultiturnError as refusal:
                error = refusal
            case = conversion.case
            try:
                names = {name: unsteady for each in tried for name in each.unsteady(case)}
            except MultiturnError as failure:
                error, names = failure, {}
            for note, kept in {**dict.fromkeys(notes, noted), **names}.items():
                where = Place(case.file or case.suite, case.line)
                kept.setdefault(note, (where, []))[1].append((case.suite, case.id))
        if conversion is not None and is_debugging():
            for fate in explain(conversion).fates:
                if fate.fate == "dropped":
                    debug("text.dropped", where=str(fate.where), why=fate.why)
        if error is None:
            right[outcome.suite] += 1
        else:
            wrong.add(outcome.suite)
            findings.add(error)
    for note, (where, cases) in noted.items():
        every, some = name_cases(cases, len(cases)), name_cases(cases)
        shown = every if every == some or findings.debug else f"{some}; --debug names each"
        findings.note(where, f"{note} ({shown})")
    for name, (where, cases) in unsteady.items():
        what = f"the stage {name} changes its own result when it runs twice ({name_cases(cases)});"
        what += " let it leave alone what it has made: a stage knows its own text by part.stage"
        findings.add(MultiturnError(what, where=where))
        wrong.update(suite for suite, _ in cases)
    wrong |= findings.refused
    for suite in selection.suites if wrong <= {*selection.suites} else ():
        if suite not in wrong:
            findings.approve(suite, f"{number_of(right[suite], 'case')}, without errors")

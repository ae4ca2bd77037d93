"""The command that makes a suite of request bodies, or of the answers of a run."""

import re

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import Failures, say, say_written, writing
from multiturn.errors import MultiturnError, OptionError
from multiturn.text import indented


@click.command("import", cls=shared.MultiturnCommand)
@click.argument("files", metavar="FILE...", type=shared.PATH, nargs=-1, required=True)
@shared.flag(
    "--answers",
    help="FILE has results of multiturn run: make cases that go on after the recorded answers,"
    " each with a message to fill in.",
)
@shared.output_option("Write to this new file, whole or not at all.  [default: standard output]")
@shared.flag(
    "--redact",
    help="Replace what looks like a key by ***, and say where; without it, it is an error.",
)
@shared.flag(
    "--strict", help="Treat what cannot be kept as an error, and write nothing after an error."
)
@shared.debug_option
@shared.verbose_option
def import_(
    files: tuple[str, ...],
    answers: bool,
    output: str | None,
    redact: bool,
    strict: bool,
    debug: bool,
    verbose: bool,
) -> None:
    """Make a suite from request bodies.

    FILE has bodies of OpenAI (Chat Completions, Responses), Anthropic or Gemini, messages of
    OpenTelemetry, or results of run --record-wire: a JSON object a line, or one in the file; -
    is standard input. A body that cannot be imported is reported and skipped; the exit code is
    then 1. What a suite cannot keep is a warning. With --output a.eval.yaml, the targets that send
    the requests again are written to a.targets.yaml, with the settings that all of them share.
    """
    from multiturn.documents.json_lines import is_json_lines
    from multiturn.logs import Notice, fail, warn, warnings_to
    from multiturn.traces.suite import attached_for, imported, write_suite

    shared.start_log(verbose)
    if output is not None and is_json_lines(output):
        name = re.sub(r"(?i)(\.eval)?\.jsonl$", ".eval.yaml", output)
        raise OptionError(f"{output!r} would be read as JSON Lines; name it {name}")
    failures = Failures(debug=debug)
    cases = []
    with warnings_to(fail if strict else None), attached_for(output) as attached:
        for each in imported(files, attached, answers=answers, redact=redact):
            try:
                if isinstance(each, MultiturnError):
                    raise each
                if isinstance(each, Notice):
                    warn(each) if each.is_warning else say(indented(f"{each.where}: {each.why}"))
                else:
                    cases.append(each)
            except MultiturnError as error:
                failures.add(error)
        if cases and not (strict and failures.count):
            with writing(output):
                write_suite(cases, output, attached)
            say_written(output, len(cases))
    failures.finish()

"""The command that captures the requests of a program."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import Failures, say_line, writing
from multiturn.errors import MultiturnError, OptionError
from multiturn.text import number_of

if TYPE_CHECKING:
    from multiturn.capture.server import CaptureServer


@click.command("capture", cls=shared.MultiturnCommand)
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@shared.output_option("Write the requests to this file, whose name ends in .requests.jsonl.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    help="Listen on this port; 0 is a free one. Without COMMAND, wait for programs until Ctrl-C.",
)
@shared.file_option(
    "--answers",
    help="Answer as in these results of run --record-wire, or captured requests; a request that is"
    " not among them gets HTTP 404, and is an error.",
)
@shared.flag("--forward", help="Send the requests on to the vendors, and record the answers.")
@shared.flag("--check", help="Write nothing; compare the requests with those of --output.")
@shared.flag("--redact", help="Replace what looks like a key by ***; without it, it is an error.")
def capture_requests(
    command: tuple[str, ...],
    output: str | None,
    port: int | None,
    answers: str | None,
    forward: bool,
    check: bool,
    redact: bool,
) -> None:
    """Capture what any program sends to LLM APIs.

    COMMAND runs with a server on 127.0.0.1 in the place of OpenAI (Chat Completions, Responses),
    Azure OpenAI, Anthropic and Gemini; it needs no key, and gets the text "(captured)" as each
    answer. Each request becomes a line of FILE, which check, snapshot, explain, report and list
    take as a suite. What changes from run to run is masked, such as dates and the current folder.
    The exit code is that of COMMAND, or 1 after an error.
    """
    from multiturn.capture.recording import Recording
    from multiturn.capture.server import CaptureServer
    from multiturn.engine.project import project_masks
    from multiturn.suites.discovery import CAPTURED

    shared.start_log(verbose=False)
    if not command and port is None:
        raise click.UsageError("name a COMMAND after --, or a --port")
    if output is None and (answers is None or check):
        raise click.UsageError("name the file of the requests with --output")
    if output is not None and not output.endswith(CAPTURED):
        raise OptionError(f"--output must end in {CAPTURED}, so that it is read as a suite")
    if forward and answers is not None:
        raise click.UsageError("--forward and --answers are two sources of answers; leave out one")
    recording = Recording(project_masks(), redact=redact, answers=answers)
    failures = Failures()
    with CaptureServer(recording, port=port or 0, forward=forward) as server:
        code = _run(command, server) if command else 0
        if not command:
            say_line(f"capturing at {server.url}; Ctrl-C ends")
            with suppress(KeyboardInterrupt, SystemExit):
                Event().wait()
    if not code and not recording.requests and not recording.errors:
        what = "the program sent no request here; docs/capture.md says which are not seen"
        failures.add(MultiturnError(what))
    for error in recording.errors:
        failures.add(error)
    if check and output is not None:
        for what in recording.changes(output):
            failures.add(MultiturnError(what, where=output))
    is_written = bool(recording.requests) and not failures.count and not check
    if is_written and output is not None:
        with writing(output):
            recording.write(output)
    masked = ", ".join(f"{name} {count}" for name, count in recording.masked.items() if count)
    what = f"{number_of(len(recording.requests), 'request')}{masked and f', masked: {masked}'}"
    what += "" if is_written or check or not output else "; the file is not written"
    say_line(f"{output or answers}: {what}")
    if code:
        sys.exit(code)
    failures.finish()


def _run(command: Sequence[str], server: "CaptureServer") -> int:
    """Run a program under a guard, which ends all that it has started; return its exit code."""
    from multiturn.providers.agents import guard

    process = subprocess.Popen(  # noqa: S603 - the user's own
        [sys.executable, "-IS", guard.__file__, str(os.getpid()), "END", *command],
        env=server.environment(os.environ),
        start_new_session=True,
    )
    try:
        return process.wait()
    finally:
        process.terminate()
        process.wait()

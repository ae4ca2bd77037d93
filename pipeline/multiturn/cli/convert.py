"""The command that converts suites."""

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import Failures, say_written, show_progress, writing
from multiturn.errors import MultiturnError

if TYPE_CHECKING:
    from multiturn.engine.converting import RenderedCase
    from multiturn.pipelines.pipeline import Pipeline

TOOL_FORMATS = {  # and what each is for; written by the function to_NAME of engine/formats.py
    "openai": "OpenAI's fine-tuning",
    "evals": "its evals",
    "inspect": "inspect_ai",
    "promptfoo": "promptfoo",
}


@shared.suite_command("convert")
@shared.preview_options
@shared.format_option(
    *("json", "yaml", "text", *TOOL_FORMATS),
    words="JSON lines, YAML for diffs, text for reading, or JSON lines for another tool:"
    f" {', '.join(TOOL_FORMATS.values())}.",
    by_output=True,
)
@shared.output_option("Write to this file, whole or not at all.  [default: standard output]")
@shared.defaulted(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 256),
    default=1,
    help="Number of processes that convert suites, and parts of JSON Lines suites.",
)
@click.option(
    "--scheduler",
    metavar="URL",
    help="Convert on the Dask cluster of this scheduler, as tcp://HOST:PORT; SUITE may be any URL"
    " that fsspec reads. --output names an empty folder, which gets one file a suite, or a part of"
    " a large JSON Lines suite, and at last the file _SUCCESS.",
)
@shared.defaulted(
    "--log-format",
    type=click.Choice(["console", "json"]),
    default="console",
    help="Format of the log on standard error.",
)
def convert_suites(
    options: shared.SuiteOptions, output: str | None, workers: int, scheduler: str | None
) -> None:
    """Convert eval suites to chat prompts.

    SUITE is a YAML file, a JSON Lines file (*.jsonl, one case a line), a folder (every *.eval.yaml,
    *.eval.yml, *.eval.json and *.eval.jsonl below it, except in hidden folders and node_modules),
    or - for YAML on standard input. Its messages may attach text, images, PDFs and audio. A case
    that cannot be converted is reported and skipped; the exit code is then 1. With --strict,
    nothing is written after an error. With -v, text that poses as a marker is logged, too.
    """
    from multiturn.cli.rendering import render
    from multiturn.documents.output import open_output
    from multiturn.engine.converting import ConversionJob, convert_cases, render_case

    provider, format_ = options.provider(), options.format_
    if provider is not None and (scheduler or format_ in TOOL_FORMATS):
        raise click.UsageError("--target is for the formats json, yaml, text, without --scheduler")
    chosen, failures = options.read_pipeline(), options.failures
    if scheduler is not None:
        if output is None or format_ != "json" or workers > 1 or options.sample is not None:
            what = "--scheduler writes JSON lines into the folder that --output names, without"
            raise click.UsageError(f"{what} --workers and --sample")
        _convert_on_cluster(scheduler, options, chosen, output)
        return
    selection = options.select()
    shared.refuse_output(output, selection)
    in_color = format_ == "text" and output is None and shared.on_terminal()
    warns = options.log.level == "debug"
    to_bytes = partial(render, format_=format_, in_color=in_color, warns=warns, provider=provider)
    job = ConversionJob(selection, chosen, to_bytes, failures.debug)
    if workers > 1 and "-" not in selection.suites:
        from multiturn.engine.processes import on_processes

        items = on_processes(job, workers, options.log)
    else:
        items = (render_case(job, each) for each in convert_cases(selection, chosen))
    with writing(output), open_output(output, whole=options.strict) as file, closing(items):
        count = 0
        for item in show_progress(items, prints=output is None):
            _say(item, failures)
            if item.text is not None:
                count += 1
                file.write(item.text)
        if options.strict:
            failures.finish()
    say_written(output, count)


def _convert_on_cluster(
    scheduler: str, options: shared.SuiteOptions, pipeline: "Pipeline", folder: str
) -> None:
    from multiturn.engine.converting import ConversionJob

    try:
        from multiturn.distributed import convert_on_cluster, slices_at, to_line
    except ImportError as error:  # it says what to install
        raise MultiturnError(str(error)) from None
    root = options.root and os.path.abspath(options.root)
    selection = options._replace(suites=(), root=root).select()
    job = ConversionJob(selection, pipeline, to_line, options.failures.debug)
    with writing(folder):
        for item in convert_on_cluster(scheduler, job, list(slices_at(options.suites)), folder):
            _say(item, options.failures)


def _say(item: "RenderedCase", failures: Failures) -> None:
    """Show an error, or a warning that another process has met."""
    if item.error is not None:
        failures.add(item.error, item.traceback)
    if item.notice is not None:
        from multiturn.logs import warn

        try:
            warn(item.notice)
        except MultiturnError as error:
            failures.add(error)

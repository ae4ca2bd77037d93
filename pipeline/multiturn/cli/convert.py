"""The command that converts suites."""

from typing import TYPE_CHECKING, Any, Literal

import click

from multiturn.cli.options import PATH, load, on_terminal, pipeline_option, suite_options

if TYPE_CHECKING:
    from multiturn.pipelines.pipeline import Pipeline


@click.command()
@suite_options
@pipeline_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "yaml", "text"]),
    default="json",
    show_default=True,
    help="JSON lines, YAML for diffs, or text for reading.",
)
@click.option(
    "--output",
    metavar="FILE",
    type=PATH,
    help="Write here, whole or not at all.  [default: standard output]",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="How many processes convert; suites, and parts of JSON Lines suites, go to each.",
)
@click.option(
    "--scheduler",
    metavar="URL",
    help="Convert on the Dask cluster of this scheduler, as tcp://HOST:PORT; SUITE may be any URL"
    " that fsspec reads. --output names an empty folder, which gets one file a suite, or a part of"
    " a large JSON Lines suite, and at last the file _SUCCESS.",
)
@click.option("--strict", is_flag=True, help="Fail if text is lost and no rule explains it.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Log each stage with its case and time, and text that poses as a marker.",
)
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="How the log on standard error looks.",
)
def convert(
    pipeline: str,
    format_: str,
    output: str | None,
    workers: int,
    scheduler: str | None,
    strict: bool,
    verbose: bool,
    log_format: Literal["console", "json"],
    **which: Any,
) -> None:
    """Convert eval suites to chat prompts.

    SUITE is a YAML file, a JSON Lines file (*.jsonl, one case a line), a folder (every
    *.eval.yaml, *.eval.yml and *.eval.jsonl below it, but for hidden folders and node_modules),
    or - for YAML on standard input.
    A case that cannot be converted is reported and skipped; the exit code
    is then 1.
    """
    from multiturn.cli.progress import show_progress
    from multiturn.engine.batch import Batch, unwritable
    from multiturn.logs import Settings, configure
    from multiturn.output import open_output
    from multiturn.pipelines.pipeline import request_of
    from multiturn.prompts.record import RENDERERS, record_of, to_colored_text

    log = Settings("debug" if verbose else "warning", log_format)
    configure(log)
    chosen = load(pipeline)
    if scheduler is not None:
        if output is None or format_ != "json" or workers > 1:
            raise click.UsageError(
                "--scheduler writes JSON lines into the folder that --output names,"
                " without --workers"
            )
        _convert_on_cluster(scheduler, which, chosen, output, strict)
        return
    batch = Batch(**which)
    batch.refuse_output(output)
    try:
        with open_output(output) as file:
            colored = format_ == "text" and output is None and on_terminal()
            render = to_colored_text if colored else RENDERERS[format_]
            if workers > 1 and "-" not in batch.paths:
                from multiturn.engine.workers import Work, convert_on_workers

                del which["suites"]
                work = Work(chosen, render, strict, verbose, batch.named, which, log)
                for text in show_progress(convert_on_workers(batch, work, workers), "parts"):
                    file.write(text)
            else:
                conversions = batch.conversions(chosen, strict=strict, verbose=verbose)
                for conversion in show_progress(conversions, "cases"):
                    file.write(render(record_of(conversion.case.suite, request_of(conversion))))
    except OSError as error:
        raise unwritable(output, error) from error
    batch.finish()


def _convert_on_cluster(
    scheduler: str, which: dict[str, Any], pipeline: "Pipeline", output: str, strict: bool
) -> None:
    from multiturn.engine.batch import Batch, UnusableError, unwritable

    try:
        from multiturn.distributed import convert_on_cluster
    except ImportError as error:
        what = f"--scheduler needs the package {error.name}; pip install 'multiturn[dask]'"
        raise UnusableError(what) from None
    urls = which.pop("suites")
    batch = Batch((), **which)
    try:
        convert_on_cluster(scheduler, batch, urls, pipeline, output, strict)
    except OSError as error:
        raise unwritable(output, error) from error
    batch.finish()

"""What the commands share: the options that say which cases and which pipeline."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from click.core import ParameterSource

from multiturn.cli.completion import complete_case, complete_pipeline

if TYPE_CHECKING:
    from multiturn.engine.selection import Selection
    from multiturn.output import Settings
    from multiturn.pipelines.pipeline import Pipeline

Renderer = Literal["console", "json"]
Command = Callable[..., None]
PATH = click.Path()  # shells complete it
_QUIET = "multiturn.quiet"


def pipeline_option(function: Command) -> Command:
    """Add ``--pipeline``."""
    return click.option(
        "--pipeline",
        metavar="NAME|FILE",
        default="spec",
        show_default=True,
        shell_complete=complete_pipeline,
        help="spec, design, shipped, agentv, or a YAML file that lists stages.",
    )(function)


def is_default(option: str) -> bool:
    """Return whether the command line does not say the value of an option."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not ParameterSource.COMMANDLINE


def targets_option(function: Command) -> Command:
    """Add ``--targets``; the command gets it as ``targets_file``."""
    return click.option(
        "--targets",
        "targets_file",
        metavar="FILE",
        type=PATH,
        help="File that describes the targets.  [default: the nearest targets.yaml or"
        " .agentv/targets.yaml, here or above]",
    )(function)


def quiet_option(function: Command) -> Command:
    """Add ``--quiet``, for ``say_summary``."""

    def note(context: click.Context, _: click.Parameter, is_quiet: bool) -> None:
        context.meta[_QUIET] = is_quiet

    return click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=note, help="Print no summary."
    )(function)


def say_summary(text: str, *, err: bool = False) -> None:
    """Print how a command has gone as a whole, unless --quiet is given."""
    if not click.get_current_context().meta[_QUIET]:
        click.echo(text, err=err)


class Asked(NamedTuple):
    """The options that say which cases a command is about, as they were given."""

    suites: tuple[str, ...]
    root: str | None
    guidelines: tuple[str, ...]
    case_ids: tuple[str, ...]
    strict: bool
    debug: bool
    log: "Settings"

    def select(self, *, may_be_gone: bool = False) -> "Selection":
        """Find the suites, and return the selection.

        Raises:
            MultiturnError: there is no such suite, or a pattern is not one.
        """
        from multiturn.engine.selection import select

        return select(
            self.suites,
            root=self.root,
            guideline_patterns=self.guidelines or None,
            case_ids=self.case_ids,
            strict=self.strict,
            may_be_gone=may_be_gone,
        )


def check_strictly(asked: Asked, selection: "Selection", pipeline: "Pipeline") -> None:
    """With --strict, convert all cases and drop the result; end the process on an error.

    Raises:
        MultiturnError: a suite is a pipe, which can be read only once.
    """
    from multiturn.cli.failures import Failures
    from multiturn.engine.outcomes import outcomes
    from multiturn.errors import MultiturnError

    if not asked.strict:
        return
    for path in selection.suites:
        if not os.path.isfile(path):
            what = f"--strict reads a suite twice, and {path!r} can be read only once"
            raise MultiturnError(f"{what}; write it to a file")
    failures = Failures(debug=asked.debug)
    for outcome in outcomes(selection, pipeline):
        if outcome.error is not None:
            failures.add(outcome.error)
    failures.finish()


def verbose_option(function: Command) -> Command:
    """Add ``--verbose``, for ``start_log``."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Log each stage with its case and time, and the options that the project's defaults"
        " set; convert also logs text that poses as a marker.",
    )(function)


def start_log(verbose: bool, renderer: Renderer = "console") -> "Settings":
    """Set how a command logs, and with -v log which values are the project's defaults."""
    from multiturn.output import Settings, configure, debug

    settings = Settings("debug" if verbose else "warning", renderer)
    configure(settings)
    context = click.get_current_context()
    values = {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
    }
    if values:
        debug("defaults.used", file=context.obj, **values)
    return settings


def refuse_output(output: str | None, selection: "Selection") -> None:
    """Make sure that an output replaces no suite.

    Raises:
        MultiturnError: it would.
    """
    from multiturn.errors import MultiturnError

    if output is not None and os.path.realpath(output) in map(os.path.realpath, selection.suites):
        raise MultiturnError(f"--output {output!r} is a suite; name another file")


def suite_options(function: Command) -> Command:
    """Add the arguments that say which cases a command is about; it gets them as Asked."""

    @wraps(function)
    def command(
        *,
        suites: tuple[str, ...],
        root: str | None,
        guidelines: tuple[str, ...],
        case_ids: tuple[str, ...],
        strict: bool,
        debug: bool,
        verbose: bool,
        **options: Any,
    ) -> None:
        if not suites:
            raise click.UsageError("name a SUITE, or set suites in multiturn.toml")
        from multiturn.output import fail, warnings_to

        log = start_log(verbose, options.pop("log_format", "console"))
        with warnings_to(fail if strict else None):
            function(Asked(suites, root, guidelines, case_ids, strict, debug, log), **options)

    decorators: list[Callable[[Command], Command]] = [
        click.argument("suites", metavar="[SUITE]...", type=PATH, nargs=-1),
        click.option(
            "--case",
            "case_ids",
            metavar="ID",
            multiple=True,
            shell_complete=complete_case,
            help="Only this case; ID may be a glob, as in 'refund-*'. Repeatable.",
        ),
        click.option(
            "--root",
            metavar="DIR",
            type=click.Path(exists=True, file_okay=False),
            help="Read attached files inside DIR only.  [default: the nearest folder above the"
            " suite with .git, else the suite's own]",
        ),
        click.option(
            "--guidelines",
            metavar="GLOB",
            multiple=True,
            help="Treat attached files that match as guidelines, in place of the suites' own"
            " patterns. Repeatable.",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Treat warnings as errors, and text that is lost without a rule that explains it."
            " After an error, convert, run and snapshot write and send nothing.",
        ),
        click.option("--debug", is_flag=True, help="Show tracebacks of errors."),
        verbose_option,
    ]
    decorated: Command = command
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    return decorated


def default_format(output: str | None) -> str:
    """Return the format where none is named: text for a person, else JSON lines."""
    return "text" if output is None and sys.stdout is not None and sys.stdout.isatty() else "json"


def on_terminal() -> bool:
    """Whether standard output is a terminal that wants color."""
    return sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ

"""What the commands share: the options that say which cases and which pipeline.

Shells run multiturn to complete them, as they do for every program of click: quickly, and silent
about errors. Ids are completed, too, although that reads suites: nobody knows them by heart.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from click.core import ParameterSource

from multiturn.cli.printing import Failures
from multiturn.documents.output import redirect_others, standard_output
from multiturn.errors import MultiturnError, OptionError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from multiturn.engine.selection import Selection
    from multiturn.logs import LogSettings
    from multiturn.model.conversion import Conversion
    from multiturn.pipelines.pipeline import Pipeline
    from multiturn.providers.base import TargetProvider

_MOST_CASES = 2_000  # are read for a completion: nobody waits for more
_SAFE = re.compile(r"[\w./+-]+")  # a shell takes it as text; a suite may hold anything else


def complete_pipeline(
    context: click.Context, _: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the pipelines that ship; the shell adds files."""
    from click.shell_completion import CompletionItem

    from multiturn.pipelines.pipeline_file import pipeline_names

    names = _offered(pipeline_names(), incomplete)
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]


def complete_case(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids in the suites that the line names so far."""
    # click leaves arguments unread while the option after them has no value.
    suites = context.params.get("suites") or context.args
    return _offered(islice(_case_ids(suites), _MOST_CASES), incomplete)


def complete_target(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names in the targets file; nothing else in it is looked at."""
    from multiturn.providers.targets import target_names

    try:
        return _offered(target_names(context.params.get("targets_file")), incomplete)
    except MultiturnError:
        return []


def _offered(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and _SAFE.fullmatch(name)]


def _case_ids(paths: Iterable[str]) -> Iterator[str]:
    """Yield the ids of the cases that can be read."""
    from multiturn.engine.project import load_suite
    from multiturn.logs import LogSettings, configure

    configure(LogSettings("error"))
    for path in paths:
        if path == "-":  # the shell's own
            continue
        with suppress(MultiturnError):
            cases = load_suite(path, guideline_patterns=(), on_error=lambda _: None)
            yield from (case.id for case in cases)


Renderer = Literal["console", "json"]
CommandFunction = Callable[..., None]
# The names of standard output; that of its descriptor leads elsewhere while a command runs.
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
PATH = click.Path()  # shells complete it
flag = partial(click.option, is_flag=True)
file_option = partial(click.option, metavar="FILE", type=PATH)
defaulted = partial(click.option, show_default=True)


# The options that are not of every day, by the heading below which help has them.
_HEADINGS = {
    "Sampling": ("sample", "seed"),
    "Files": ("root", "guidelines", "targets_file"),
    "Results": ("record_wire", "record_thinking"),
    "Costs": ("count_tokens", "prices", "max_cost", "max_tokens"),
    "Batches": ("batch", "no_wait", "poll"),
    "Scale": ("workers", "scheduler", "concurrency", "rate", "order"),
    "Logging": ("quiet", "debug", "verbose", "log_format"),
}
_HEADING = {name: heading for heading, names in _HEADINGS.items() for name in names}


_ONCE = ("--target", "--pipeline", "--output")


class MultiturnCommand(click.Command):
    """A command whose help has the options of every day first, and the others below headings."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options."""
        rows: dict[str, list[tuple[str, str]]] = {each: [] for each in ("Options", *_HEADINGS)}
        for param in self.get_params(context):
            row = param.get_help_record(context) if isinstance(param, click.Option) else None
            if row is not None:
                rows[_HEADING.get(param.name or "", "Options")].append(row)
        for heading, found in rows.items():
            if found:
                with formatter.section(heading):
                    formatter.write_dl(found)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Read the options; of most, the last one counts, but some name what a command is for."""
        found = self.make_parser(context).parse_args([*args])[2]
        for param, count in Counter(found).items():
            name = param.opts[0]
            if name in _ONCE and count > 1 and not getattr(param, "multiple", False):
                raise click.UsageError(f"{name} is given twice; give it once", context)
        return super().parse_args(context, args)

    def invoke(self, context: click.Context) -> None:
        """Run the command; what stages and providers print goes to standard error.

        An error says which of the project's defaults it names, unless the command line says it.
        """
        redirect_others()
        try:
            super().invoke(context)
        except MultiturnError as error:
            from multiturn.engine.project import named_in

            written = _values_from(ParameterSource.COMMANDLINE, context).values()
            known = {each for value in written for each in _each(value)}
            values = {
                option: tuple(each for each in _each(value) if each not in known)
                for option, value in _values_from(ParameterSource.DEFAULT_MAP, context).items()
            }
            error.what += named_in(error.what, context.obj, values)
            raise


pipeline_option = defaulted(
    "--pipeline",
    metavar="NAME|FILE",
    default="spec",
    shell_complete=complete_pipeline,
    help="spec, design, shipped, agentv, or a YAML file that lists stages.",
)
targets_option = file_option(  # the command gets it as targets_file
    "--targets",
    "targets_file",
    help="File that describes the targets.  [default: the nearest targets.yaml or"
    " .agentv/targets.yaml, here or above]",
)

prices_option = file_option(
    "--prices",
    help="YAML file with prices: for each model, dollars for a million tokens."
    "  [default: those of the package genai-prices]",
)


def target_options(
    words: str, name: str = "target", *, several: tuple[str, ...] = ()
) -> Callable[[CommandFunction], CommandFunction]:
    """Add ``--target``, by a name for the command, with a help text; and ``--targets``.

    A command that takes several targets says which are the default.
    """
    option = click.option(
        "--target",
        name,
        metavar="NAME",
        default=several or None,
        show_default=bool(several),
        multiple=bool(several),
        shell_complete=complete_target,
        help=words,
    )
    return lambda command: option(targets_option(command))


_SHOWS = (
    "Show the prompts as this target gets them, with each repair that its API requires; nothing is"
    " sent, and no key is needed."
)
# Their names are not target: the project's default of that is the one to send to.
preview_options = target_options(_SHOWS, "preview_target")
review_options = target_options(_SHOWS, "snapshot_target")  # that of the project's snapshots


quiet_option = flag("-q", "--quiet", help="Print no summary.")
debug_option = flag("--debug", help="Show tracebacks, and each of many errors and warnings.")
verbose_option = flag(  # for start_log
    "-v",
    "--verbose",
    help="Log each stage with its case and time, and the options that the project's defaults set.",
)
_SUITE_OPTIONS = (
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
        "--sample",
        metavar="N",
        type=click.IntRange(1),
        help="Only N of these cases, chosen by a hash of suite and id: always the same ones, and a"
        " case that is added replaces one of them at most.",
    ),
    click.option(
        "--seed",
        metavar="S",
        type=int,
        help="With --sample: a number that chooses other cases.  [default: 1]",
    ),
    click.option(
        "--root",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Read attached files (text, images, PDFs, audio) inside DIR only.  [default: the"
        " nearest folder above the suite with .git, else the suite's own]",
    ),
    click.option(
        "--guidelines",
        metavar="GLOB",
        multiple=True,
        help="Treat attached files that match as guidelines, in place of the suites' own"
        " patterns. Repeatable.",
    ),
    flag(
        "--strict",
        help="Treat as errors: warnings, and text that is lost without a rule that explains it.",
    ),
    debug_option,
    verbose_option,
)


def suite_command(
    name: str | None = None, *, has_pipeline: bool = True
) -> Callable[[CommandFunction], click.Command]:
    """Make a command about suites; its function gets the arguments that say which as SuiteOptions.

    The command exits with 1 if the function has added something to their failures.
    """

    def made(function: CommandFunction) -> click.Command:
        @wraps(function)
        def command(
            *, verbose: bool, debug: bool, log_format: Renderer = "console", **others: Any
        ) -> None:
            others.pop("quiet", None)  # for say_summary, which asks click
            from multiturn.logs import fail, warnings_to

            for name in {"preview_target", "snapshot_target"} & others.keys():
                others["target"] = others.pop(name)
            if isinstance(others.get("target"), tuple):
                others["targets"] = others.pop("target")
            given = {name: others.pop(name) for name in SuiteOptions._fields if name in others}
            log, failures = start_log(verbose, log_format), Failures(debug=debug)
            options = SuiteOptions(**given, log=log, failures=failures)
            if not options.suites and others.get("results") is None:
                raise click.UsageError("name a SUITE, or set suites in multiturn.toml")
            if options.seed is not None and options.sample is None:
                raise click.UsageError("--seed is for --sample; add --sample N")
            to_log = None if log_format == "json" else failures.warn  # programs read all of them
            with closing(failures), warnings_to(fail if options.strict else to_log):
                function(options, **others)
            failures.finish()

        for add in reversed([*_SUITE_OPTIONS, *[pipeline_option] * has_pipeline]):
            add(command)
        return click.command(name, cls=MultiturnCommand)(command)

    return made


def format_option(
    *formats: str, words: str, by_output: bool = False
) -> Callable[[CommandFunction], CommandFunction]:
    """Add ``--format``, with a help text.

    The first format is the default; ``by_output``, text for a person is, else lines of JSON.
    """

    def chosen(context: click.Context, _: click.Parameter, name: str | None) -> str:
        prints = context.params.get("output") is None or context.params.get("dry_run")
        return name or ("text" if prints and standard_output().isatty() else "json")

    return click.option(
        "--format",
        "format_",
        type=click.Choice(formats),
        default=None if by_output else formats[0],
        show_default=not by_output,
        callback=chosen,
        help=f"{words}  [default: text on a terminal, else json]" if by_output else words,
    )


case_format_option = format_option(
    "text", "json", words="Text for reading, or a line of JSON for each case."
)


class SuiteOptions(NamedTuple):
    """The options that say which cases a command is about, and how they are shown, as given."""

    suites: tuple[str, ...]
    root: str | None
    guidelines: tuple[str, ...]
    case_ids: tuple[str, ...]
    sample: int | None
    seed: int | None
    strict: bool
    log: "LogSettings"
    failures: Failures
    pipeline: str = ""
    target: str | None = None
    targets: tuple[str, ...] = ()  # of a command that takes several
    targets_file: str | None = None
    format_: str = ""

    def read_pipeline(self) -> "Pipeline":
        """Return the pipeline."""
        from multiturn.pipelines.pipeline_file import read_pipeline

        return read_pipeline(self.pipeline)

    def conversions(self, *, only_files: bool = False) -> "Iterator[Conversion]":
        """Yield the cases as the pipeline converts them; ``failures`` gets the errors of others.

        ``only_files`` finds the files of cases, and does no more, unless a pipeline is named, or
        all that is wrong is an error.
        """
        from multiturn.engine.converting import convert_cases, with_files
        from multiturn.pipelines.pipeline_file import DEFAULT_PIPELINE

        pipeline = self.read_pipeline()
        is_short = only_files and self.pipeline == DEFAULT_PIPELINE and not self.strict
        for outcome in convert_cases(self.select(), with_files if is_short else pipeline):
            if outcome.error is not None:
                self.failures.add(outcome.error)
            elif outcome.conversion is not None:
                yield outcome.conversion

    def provider(self) -> "TargetProvider | None":
        """Return the provider of the target that is shown; None if none is named."""
        if self.target is None:
            if self.targets_file is not None:
                raise click.UsageError("--targets is for --target; add it")
            return None
        from multiturn.engine.target import load_target

        return load_target(self.target, file=self.targets_file, sends=False)

    def select(self, *, may_be_gone: bool = False) -> "Selection":
        """Find the suites, and return the selection."""
        from multiturn.engine.selection import select

        selection = select(
            self.suites,
            root=self.root,
            guideline_patterns=self.guidelines or None,
            case_ids=self.case_ids,
            strict=self.strict,
            may_be_gone=may_be_gone,
        )
        if self.sample is None:
            return selection
        from multiturn.engine.converting import sampled

        return sampled(selection, self.sample, 1 if self.seed is None else self.seed)


def start_log(verbose: bool, renderer: Renderer = "console") -> "LogSettings":
    """Set how a command logs, and with -v log which values are the project's defaults."""
    from multiturn.logs import LogSettings, configure, debug

    settings = LogSettings("debug" if verbose else "warning", renderer)
    configure(settings)
    context = click.get_current_context()
    if values := _values_from(ParameterSource.DEFAULT_MAP, context):
        debug("defaults.used", file=context.obj, **values)
    return settings


def _values_from(source: ParameterSource, context: click.Context) -> dict[str, Any]:
    """Return the options of a command whose values come from a source."""
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is source
    }


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def is_default(option: str) -> bool:
    """Return whether the command line does not say the value of an option."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not ParameterSource.COMMANDLINE


def output_option(words: str) -> Callable[[CommandFunction], CommandFunction]:
    """Add ``--output``; standard output is None, by whatever name."""

    def chosen(_context: click.Context, _param: click.Parameter, path: str | None) -> str | None:
        return None if path is not None and os.path.normpath(path) in _STDOUT else path

    return file_option("--output", callback=chosen, help=words)


def refuse_output(output: str | None, selection: "Selection") -> None:
    """Make sure that an output replaces no suite."""
    if output is not None and os.path.realpath(output) in map(os.path.realpath, selection.suites):
        raise OptionError(f"--output {output!r} is a suite; name another file")


def on_terminal() -> bool:
    """Whether standard output is a terminal that wants color."""
    return standard_output().isatty() and click.get_current_context().color is None

"""The command that converts again whenever a file changes."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from multiturn.cli.options import SuiteOptions, suite_command
from multiturn.cli.printing import echo
from multiturn.documents.output import standard_output
from multiturn.errors import AccessError, MultiturnError, OptionError
from multiturn.text import first_of, in_line, number_of

_WAIT = 100  # milliseconds for which the first conversion waits until all folders are watched

Prompts = dict[tuple[str, str], bytes]  # the JSON line of each case, by suite and id


@suite_command()
def watch(options: SuiteOptions) -> None:
    """Convert whenever a file changes; show what differs.

    SUITE is what convert takes. The roots of the suites, the folder of the pipeline and the
    current folder are watched; a change of a suite, an attached file, a stage or the pipeline
    shows the prompts that it changes. Errors are shown, and watching continues until Ctrl-C.
    """
    if "-" in options.suites:
        raise OptionError("watch reads suites again, and - can be read only once; name files")
    options.select()  # an error in the command ends it; one in a file does not
    prompts: Prompts | None = None
    for paths in _changes(_folders(options)):
        found, is_whole = _converted(sys.argv[2:])
        if prompts is None:
            prompts = found
            echo(f"watching {number_of(len(found), 'prompt')}; Ctrl-C ends")
        else:
            new = found if is_whole else {**prompts, **found}
            _show(prompts, new, paths, None if is_whole else len(new) - len(found))
            prompts = new


def _changes(folders: set[Path]) -> Iterator[set[str]]:
    """Yield the files that have changed, once all folders are watched: at first none."""
    try:
        import watchfiles
    except ImportError:
        what = "watch needs the package watchfiles; pip install 'multiturn[watch]'"
        raise MultiturnError(what) from None
    is_first = True
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # watchfiles would take it for Ctrl-C
    try:
        for changes in watchfiles.watch(
            *folders, yield_on_timeout=True, rust_timeout=_WAIT, ignore_permission_denied=True
        ):
            paths = {path for _, path in changes if not _is_output(path)}
            if paths or is_first:
                # A file that is gone, such as an editor's, says nothing beside others.
                yield set(filter(os.path.exists, paths)) or paths
            is_first = False
    except (OSError, RuntimeError) as error:  # too many folders, or a name that is not UTF-8
        raise AccessError(f"cannot watch: {error}; name a smaller --root") from None


def _is_output(path: str) -> bool:
    """Tell whether this command prints into the file: each line would be the next change."""
    streams = (standard_output(), sys.stderr)
    with suppress(OSError, ValueError):  # a file that is gone; a stream that is closed
        return any(os.path.samestat(os.stat(path), os.fstat(stream.fileno())) for stream in streams)
    return False


def _folders(options: SuiteOptions) -> set[Path]:
    """Return the folders in which a change may change a prompt."""
    from multiturn.files.paths import root_of

    folders = {Path.cwd(), Path(os.path.realpath(options.pipeline)).parent}
    folders |= {Path(root_of(suite)) for suite in options.suites}
    if options.root is not None:
        folders.add(Path(os.path.realpath(options.root)))
    return {folder for folder in folders if folder.is_dir() and folders.isdisjoint(folder.parents)}


def _converted(words: list[str]) -> tuple[Prompts, bool]:
    """Return the prompts, and whether they are all; ``convert`` takes the words of this command.

    A process of its own loads stages anew, and writes errors itself.
    """
    import subprocess

    done = subprocess.run(  # noqa: S603 - this program
        [sys.executable, "-P", "-m", "multiturn", "convert", *words],
        stdout=subprocess.PIPE,
        # Compiled stages are found stale by their second, and may be saved twice in one.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    prompts = {}
    for line in done.stdout.split(b"\n")[:-1]:  # a process that was killed ends within a line
        record = json.loads(line)
        prompts[record["suite"], record["id"]] = line
    return prompts, done.returncode == 0


def _show(old: Prompts, new: Prompts, paths: set[str], failed: int | None) -> None:
    """Print how the prompts differ, and how many ``failed``, if there was an error."""
    from multiturn.cli.rendering import as_text_diff
    from multiturn.explaining.record import to_yaml

    def as_yaml(line: bytes | None) -> str:
        return "" if line is None else to_yaml(json.loads(line)).decode()

    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    for key in changed:
        name = " · ".join(key)
        before, after = as_yaml(old.get(key)), as_yaml(new.get(key))
        echo(as_text_diff(before, after, f"{name} · before", f"{name} · now"), nl=False)
    names = sorted(os.path.relpath(path) for path in paths)
    same = len(new) - len(new.keys() & changed) - (failed or 0)
    more = f", {failed:,} failed" if failed else ""
    more += "" if failed is None else "; with errors, see above"
    echo(in_line(f"{first_of(names)}: {len(changed):,} changed, {same:,} same{more}"))

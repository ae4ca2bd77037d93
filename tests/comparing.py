"""Reports: by the command, or of files as they were and as they are, without Git."""

import base64
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Mapping
from contextlib import chdir
from io import BytesIO
from pathlib import Path
from typing import Any

import commands
from layout import laid_out
from multiturn import Pipeline, load_pipeline, load_target
from multiturn.engine.converting import convert_cases
from multiturn.engine.selection import select
from multiturn.report.comparison import Report, compare
from multiturn.report.sides import ReportSide, side_items


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)


def pipeline_named(pipeline: str) -> Pipeline:
    is_file = pipeline.endswith(".yaml")  # then the report names lines of it
    return load_pipeline(pipeline) if is_file else laid_out(pipeline)


Target = Mapping[str, object] | None


def side(folder: Path, pipeline: str = "spec", target: Target = None) -> ReportSide:
    """Convert the suites of ``evals`` as they are."""
    with chdir(folder):
        chosen = pipeline_named(pipeline)
        selection = select(["evals"], root=".", may_be_gone=True)
        found = convert_cases(selection, chosen)
        provider = load_target(target, sends=False) if target else None
        items = side_items(found, selection, chosen, lambda _: None, provider, has_images=True)
        return ReportSide(items, BytesIO())


def report_of(
    folder: Path,
    *states: Mapping[str, str | bytes],
    pipeline: str = "spec",
    target: Target = None,
) -> Report:
    """Report what is different between two states of all files, or what one state gives."""
    sides = []
    for files in states:
        shutil.rmtree(folder)
        write(folder, files)
        sides.append(side(folder, pipeline, target))
    *then, now = sides
    with chdir(folder):
        return compare(now, then[0], "HEAD", pipeline_named(pipeline)) if then else compare(now)


def run(
    folder: Path, *arguments: str, given: str = "", env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return commands.run("report", *arguments, folder=folder, given=given, env=env)


def run_process(
    folder: Path, *arguments: str, **options: Any
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "multiturn", "report", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, **options)


def summary(folder: Path, *arguments: str) -> str:
    done = run(folder, "evals", "--format", "markdown", "--against", "HEAD", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def data_of(page: str) -> str:
    """Return what the script of a page reads."""
    packed = page.partition('id="data">')[2].partition("</script>")[0]
    return zlib.decompress(base64.b64decode(packed)).decode()


def title(folder: Path, *arguments: str) -> str:
    """Return the first line, but for the number of tokens."""
    return without_growth(summary(folder, *arguments)).partition("\n")[0]


def without_growth(text: str) -> str:
    """Return Markdown whose first line does not say by how many tokens the prompts grow."""
    return re.sub(r"\A(.*); about [+-][\d,]+ tokens?\n", r"\1\n", text)

"""Reports of files as they were and as they are, made in this process and without Git."""

import shutil
from contextlib import chdir
from io import BytesIO
from pathlib import Path

from multiturn import load_pipeline
from multiturn.engine.outcomes import outcomes
from multiturn.engine.selection import select
from multiturn.review.report.comparison import Report, compare
from multiturn.review.report.side import Side, items


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def side(folder: Path, pipeline: str = "spec") -> Side:
    """Convert the suites of ``evals`` as they are."""
    with chdir(folder):
        chosen, selection = load_pipeline(pipeline), select(["evals"], root=".", may_be_gone=True)
        found = outcomes(selection, chosen)
        return Side(items(found, selection, chosen, lambda _: None), BytesIO())


def report_of(folder: Path, *states: dict[str, str], pipeline: str = "spec") -> Report:
    """Report what is different between two states of all files, or what one state gives."""
    sides = []
    for files in states:
        shutil.rmtree(folder)
        write(folder, files)
        sides.append(side(folder, pipeline))
    *then, now = sides
    return compare(now, then[0], "HEAD") if then else compare(now)

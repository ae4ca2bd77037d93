"""Conversion on the machines of a Dask cluster; imported only where one is wanted."""

import logging
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from multiturn.documents.output import open_output
from multiturn.engine import converting
from multiturn.engine.project import chosen_pipeline, chosen_suites, from_project
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.explaining.record import record_for, to_json
from multiturn.files.paths import StrPath
from multiturn.logs import warn
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.suites.discovery import find_suites

try:
    import distributed
    import fsspec
    from dask.bag import from_delayed
    from dask.delayed import delayed
except ImportError as error:
    what = f"a Dask cluster or bag needs the package {error.name}; pip install 'multiturn[dask]'"
    raise ImportError(what) from None

__all__ = ["convert_bag"]
PARTITION_SIZE = 16 * 2**20  # bytes of a JSON Lines suite that are one partition
_AHEAD = 4  # slices under way for each thread of the cluster
_TIMEOUT = "5s"
_WORKER_TIMEOUT = 10  # seconds


def convert_bag(
    urls: StrPath | Iterable[StrPath] | None = None,
    pipeline: StrPath | Pipeline | None = None,
    *,
    root: StrPath | None = None,
    guideline_patterns: Iterable[str] = (),
    partition_size: int = PARTITION_SIZE,
) -> Any:
    """Return a ``dask.bag.Bag`` of what ``multiturn convert`` writes: a line of JSON a case.

    Args:
        urls: one or several: of suites, as fsspec has them, or paths of files and folders; by
            default those of the project's ``multiturn.toml`` or ``pyproject.toml``.
        pipeline: a name, a file, or a pipeline; by default the project's, else ``spec``. Its stages
            must be importable on the workers.
        root: attached files are read inside it only; by default the project's, else each suite's
            own.
        guideline_patterns: used instead of those of the suites, if there are any.
        partition_size: bytes of a JSON Lines suite that are one partition; duplicate ids are found
            in each one, and by ``multiturn check`` in the whole suite.

    Raises:
        TypeError: there is no suite.
        MultiturnError: there is no such suite or pipeline; or, in computing, the first error.
    """
    patterns = tuple(guideline_patterns) or None
    named = (urls,) if isinstance(urls, str | os.PathLike) else urls and tuple(urls)
    with from_project(suites=named, pipeline=pipeline, root=root) as project:
        suites, chosen = chosen_suites(project, 'convert_bag("evals/")'), chosen_pipeline(project)
        top = None if project.root is None else os.path.abspath(project.root)
        job = converting.ConversionJob(
            Selection(root=top, guideline_patterns=patterns), chosen, to_line
        )
        parts = list(slices_at(suites, partition_size))
    lines = delayed(_lines_of, pure=False)
    return from_delayed([lines(job, part) for part in parts])


def slices_at(urls: Iterable[str], size: int = PARTITION_SIZE) -> Iterator[converting.Slice]:
    """Yield the slices of suites, wherever they are, in their order."""
    for given in urls:
        for name in [given] if "://" in given else find_suites([given]):
            url = name if "://" in name else os.path.abspath(name)
            yield from converting.slices_of(name, url, size, fsspec.open)


def to_line(conversion: Conversion) -> bytes:
    """Return a conversion as one line of JSON."""
    return to_json(record_for(conversion))


def convert_on_cluster(
    scheduler: str, job: converting.ConversionJob, parts: Iterable[converting.Slice], folder: str
) -> Iterator[converting.RenderedCase]:
    """Convert suites on a cluster, into one file a slice, and yield the errors.

    The folder, which must be empty, gets ``part-00000.jsonl`` and so on, and at the end
    ``_SUCCESS``; after an error only if the selection is not strict.
    """
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise MultiturnError(f"{folder!r} is not empty; name a new folder for the parts")
    busy = Path(folder, "_temporary")  # keeps out any other command until the end
    busy.mkdir()
    has_failed = False
    try:
        results = _on_cluster(scheduler, job, parts)
        for number, items in enumerate(converting.checked_slices(job.selection, results)):
            with open_output(os.path.join(folder, f"part-{number:05}.jsonl")) as file:
                for item in items:
                    if item.text is None:
                        has_failed = True
                        yield item
                    else:
                        file.write(item.text)
        if not (has_failed and job.selection.strict):
            Path(folder, "_SUCCESS").touch()
    finally:
        busy.rmdir()


def _on_cluster(
    scheduler: str, job: converting.ConversionJob, parts: Iterable[converting.Slice]
) -> Iterator[tuple[converting.Slice, list[converting.RenderedCase]]]:
    """Yield each slice with what became of its cases, in order."""
    for name in ("distributed", "distributed.client"):  # what matters is raised
        logging.getLogger(name).setLevel(logging.CRITICAL)
    ours = distributed.__version__
    try:
        with distributed.Client(scheduler, timeout=_TIMEOUT, set_as_default=False) as client:
            theirs = client.get_versions()["scheduler"]["packages"]["distributed"]
            if theirs != ours:
                raise ValueError(f"it has distributed {theirs}")
            client.wait_for_workers(1, timeout=_WORKER_TIMEOUT)
            threads = sum(client.nthreads().values())
            submit = partial(client.get_executor(pure=False).submit, converting.convert_slice, job)
            yield from converting.results_in_order(submit, parts, _AHEAD * max(1, threads))
    except distributed.scheduler.KilledWorker:
        raise MultiturnError("the workers that converted a suite died, one after another") from None
    except MultiturnError:
        raise
    except Exception as error:  # a scheduler of another version may answer with any
        why = str(error).partition("\n")[0] or type(error).__name__
        need = f"it needs a worker (dask worker {scheduler}), and distributed {ours}, as here"
        raise MultiturnError(f"cannot use the scheduler {scheduler!r}: {why}; {need}") from None


def _lines_of(job: converting.ConversionJob, part: converting.Slice) -> list[str]:
    """Return a slice's lines of JSON."""
    lines = []
    (items,) = converting.checked_slices(
        job.selection, [(part, converting.convert_slice(job, part))]
    )
    for item in items:
        if item.error is not None:
            raise item.error
        if item.notice is not None:
            warn(item.notice)
        if item.text is not None:
            lines.append(item.text.decode().rstrip("\n"))
    return lines

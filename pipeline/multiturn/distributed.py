"""Conversion on the machines of a Dask cluster; imported only where one is wanted."""

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from msgspec import Struct

from multiturn.documents.json_lines import Lines, split_lines
from multiturn.engine.batch import Batch, UnusableError
from multiturn.engine.parts import Part
from multiturn.errors import MultiturnError
from multiturn.output import open_output
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.prompts.record import record_of, to_json
from multiturn.suites.discovery import find_suites

PARTITION_SIZE = 16 * 2**20  # bytes of a JSON Lines suite that are one partition
_TIMEOUT = "5s"


class Partition(Struct, frozen=True):
    """A suite, or some lines of one.

    Attributes:
        name: what errors and results call the suite: its URL or path, as it was given.
        url: where a worker finds it.
        lines: None for all.
    """

    name: str
    url: str
    lines: Lines | None = None


class _RemotePart(Part):
    """The cases of a partition; a suite that is no local file is copied here first."""

    def __init__(self, path: str, partition: Partition, which: dict[str, Any]) -> None:
        lines = partition.lines
        if path != _local(partition.url) and lines is not None:
            lines = Lines(0, None, lines.before)  # only they have been copied
        self.mistakes: list[str] = []
        super().__init__(path, lines, which, self.mistakes.append)
        self._name = partition.name

    def name_of(self, path: str) -> str:
        return self._name


def convert_bag(
    urls: Iterable[str],
    pipeline: Pipeline,
    *,
    root: str | None = None,
    guideline_patterns: Iterable[str] = (),
    partition_size: int = PARTITION_SIZE,
) -> Any:
    """Return a ``dask.bag.Bag`` of what ``multiturn convert`` writes: a line of JSON a case.

    Args:
        urls: of suites, as fsspec has them, or paths of files and folders.
        pipeline: converts the cases; its stages must be importable on the workers.
        root: attached files are read inside it only; None for each suite's own.
        guideline_patterns: used instead of those of the suites, if there are any.
        partition_size: bytes of a JSON Lines suite that are one partition.

    Raises:
        MultiturnError: there is no such suite; or, when the bag is computed, the first mistake.
    """
    from dask.bag import from_delayed
    from dask.delayed import delayed

    which = _which(root, tuple(guideline_patterns))
    lines = delayed(_lines_of, pure=False)
    parts = partitions(urls, partition_size)
    return from_delayed([lines(part, pipeline, which) for part in parts])


def partitions(urls: Iterable[str], size: int = PARTITION_SIZE) -> Iterator[Partition]:
    """Yield the partitions of suites, in their order.

    Raises:
        MultiturnError: there is no such suite.
    """
    for given in urls:
        for name in [given] if "://" in given else find_suites([given]):
            url = name if "://" in name else os.path.abspath(name)
            if not url.endswith(".jsonl"):
                yield Partition(name, url)
                continue
            try:
                with fsspec.open(url, "rb") as file:
                    for lines in split_lines(file, size):
                        yield Partition(name, url, lines)
            except (OSError, ValueError, ImportError) as error:
                raise MultiturnError(f"cannot read it: {error}", where=name) from None


def convert_on_cluster(
    scheduler: str, batch: Batch, urls: Iterable[str], pipeline: Pipeline, folder: str, strict: bool
) -> None:
    """Convert suites on a cluster, into one file a partition.

    Args:
        scheduler: address of the cluster's scheduler.
        batch: mistakes are reported to it, in the order of the suites.
        urls: of the suites.
        pipeline: converts the cases.
        folder: for ``part-00000.jsonl`` and so on; seen by all workers, and empty. When all parts
            are there, it gets the file ``_SUCCESS``.
        strict: as for ``Batch.conversions``.

    Raises:
        UnusableError: there is no such cluster, suite, or empty folder.
    """
    import distributed

    for name in ("distributed", "distributed.client"):  # what matters is raised
        logging.getLogger(name).setLevel(logging.CRITICAL)
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise UnusableError(f"{folder!r} is not empty; name a new folder for the parts")
    which = _which(batch.root, tuple(batch.guidelines or ()), tuple(batch.case_ids), batch.debug)
    try:
        parts = list(partitions(urls))
        with distributed.Client(scheduler, timeout=_TIMEOUT, set_as_default=False) as client:
            names = [os.path.join(folder, f"part-{at:05}.jsonl") for at in range(len(parts))]
            futures = [
                client.submit(_write, part, pipeline, which, strict, name, pure=False)
                for part, name in zip(parts, names, strict=True)
            ]
            for future in futures:
                mistakes, ids = future.result()
                for mistake in mistakes:
                    batch.fail(mistake)
                batch.ids |= ids
    except (OSError, ValueError, TimeoutError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise UnusableError(f"cannot use the scheduler {scheduler!r}: {why}") from None
    except MultiturnError as error:
        raise UnusableError(str(error)) from None
    except distributed.scheduler.KilledWorker:
        raise UnusableError("the workers that converted a suite died, one after another") from None
    batch.check_ids()
    with open(os.path.join(folder, "_SUCCESS"), "wb"):
        pass


def _which(
    root: str | None,
    guidelines: tuple[str, ...],
    case_ids: tuple[str, ...] = (),
    debug: bool = False,
) -> dict[str, Any]:
    root = None if root is None else os.path.abspath(root)
    return {"root": root, "guidelines": guidelines, "case_ids": case_ids, "debug": debug}


def _local(url: str) -> str | None:
    """Return the path of a local file; None for one that is elsewhere."""
    if "://" not in url:
        return url
    return url.removeprefix("file://") if url.startswith("file://") else None


@contextmanager
def _opened(partition: Partition, which: dict[str, Any]) -> Iterator[_RemotePart]:
    """Give a partition's cases; of a suite that is elsewhere, its lines are copied here.

    Raises:
        MultiturnError: it cannot be read.
    """
    path = _local(partition.url)
    if path is not None:
        yield _RemotePart(path, partition, which)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(partition.url))
        start, end, _ = partition.lines or Lines()
        try:
            with fsspec.open(partition.url, "rb") as source, open(path, "wb") as copy:
                source.seek(start)
                while chunk := source.read(2**20 if end is None else min(2**20, end - start)):
                    copy.write(chunk)
                    start += len(chunk)
        except (OSError, ValueError, ImportError) as error:
            raise MultiturnError(f"cannot read it: {error}", where=partition.name) from None
        yield _RemotePart(path, partition, which)


def _lines(part: Part, pipeline: Pipeline, strict: bool = False) -> Iterator[bytes]:
    """Yield what is written of each case."""
    for conversion in part.conversions(pipeline, strict=strict):
        yield to_json(record_of(conversion.case.suite, request_of(conversion)))


def _lines_of(partition: Partition, pipeline: Pipeline, which: dict[str, Any]) -> list[str]:
    """Return a partition's lines of JSON."""
    with _opened(partition, which) as part:
        lines = [line.decode().rstrip("\n") for line in _lines(part, pipeline)]
    if part.mistakes:
        raise MultiturnError(part.mistakes[0])
    return lines


def _write(
    partition: Partition, pipeline: Pipeline, which: dict[str, Any], strict: bool, name: str
) -> tuple[list[str], set[str]]:
    """Write a partition's lines, whole or not at all; return the mistakes and the ids found."""
    try:
        with _opened(partition, which) as part, open_output(name) as file:
            file.writelines(_lines(part, pipeline, strict))
    except MultiturnError as error:
        return [str(error)], set()
    return part.mistakes, part.ids

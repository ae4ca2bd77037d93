"""What does a second worker save: of --workers, by hand in a shell, and on a Dask cluster?"""

import os
import statistics
import tempfile
from functools import partial
from pathlib import Path

import distributed

from measuring import MULTITURN, medians, process, seconds, show, write_suite
from multiturn import load_pipeline
from multiturn.distributed import convert_on_cluster, slices_at, to_line
from multiturn.engine.converting import ConversionJob
from multiturn.engine.selection import Selection


def on_dask(workers: int, suites: Path, folder: Path) -> float:
    """Return the median seconds of a cluster with so many workers; the first run only imports."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:

        def convert(output: Path) -> None:
            job = ConversionJob(Selection(), load_pipeline("spec"), to_line)
            slices = slices_at([str(suites)])
            found = convert_on_cluster(cluster.scheduler_address, job, slices, str(output))
            assert not list(found), "every case converts"

        outputs = [folder / f"{workers}-{attempt}" for attempt in range(4)]
        times = [seconds(partial(convert, output)) for output in outputs]
        return statistics.median(times[1:])


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suites, halves = folder / "suites", [folder / "half-0", folder / "half-1"]
        for each in (suites, *halves):
            each.mkdir()
        for number in range(50):
            path = suites / f"{number:02}.eval.yaml"
            write_suite(path, 100)
            os.link(path, halves[number % 2] / path.name)
        by_hand = " & ".join(f"{MULTITURN} convert {half}" for half in halves) + " & wait"
        convert = (MULTITURN, "convert", str(suites))
        subjects = {
            "one process": process(*convert),
            "two workers": process(*convert, "--workers", "2"),
            "two processes by hand, half the suites each": process("sh", "-c", by_hand),
        }
        title = "fifty suites of 100 cases"
        show(f"{title}: 1/1.6 = 0.62 of the time with two", medians(5, subjects))
        figures = {f"{workers} on Dask": on_dask(workers, suites, folder) for workers in (1, 2)}
        show(f"{title} on Dask", figures)


if __name__ == "__main__":
    main()

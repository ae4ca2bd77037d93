"""Measure conversion on a Dask cluster: one worker process against two, on this machine."""

import statistics
import tempfile
from pathlib import Path
from time import perf_counter

import distributed

import bench
from multiturn import load_pipeline
from multiturn.distributed import convert_on_cluster, selection_of, slices_at, to_line
from multiturn.engine.executors import Work

ROUNDS = 3


def measure(workers: int, suites: str, folder: Path) -> float:
    """Return the median seconds of converting the suites on some workers."""
    times = []
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        for attempt in range(ROUNDS + 1):
            work = Work(selection_of(None, ()), load_pipeline("spec"), to_line)
            output = str(folder / f"{workers}-{attempt}")
            start = perf_counter()
            slices = slices_at([suites])
            assert not list(convert_on_cluster(cluster.scheduler_address, work, slices, output))
            times.append(perf_counter() - start)
    return statistics.median(times[1:])  # the first imports what the others use


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "suites").mkdir()
        bench.CASES = 100
        for number in range(50):
            bench.generate(folder / f"suites/{number:02}.eval.yaml")
        one, two = (measure(workers, str(folder / "suites"), folder) for workers in (1, 2))
    print("\nfifty suites of 100 cases on Dask")
    print(f"  {'one worker':<44}{one * 1000:>9,.0f} ms {1:>7.2f} x")
    print(f"  {'two workers':<44}{two * 1000:>9,.0f} ms {one / two:>7.2f} x")


if __name__ == "__main__":
    main()

"""What do the time and the memory of submitting a batch come to, against converting alone?"""

import json
import os
import tempfile
from pathlib import Path

from batch_server import BatchServer
from loopback import KEY
from measuring import MULTITURN, show, usage, write_suite

CASES = 10_000
MODELS = {"openai": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "m"}


def main(url: str, folder: Path) -> None:
    """Print the tables."""
    targets = []
    for vendor, model in MODELS.items():
        address = f"{url}/v1" if vendor == "openai" else url
        named = {"name": vendor, "provider": vendor, "model": model, "base_url": address}
        targets.append({**named, "api_key": KEY})
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}))
    suite = str(folder / "a.eval.yaml")
    write_suite(Path(suite), CASES)
    command = (MULTITURN, "run", "--targets", str(folder / "targets.yaml"), "--batch", "--no-wait")
    first = f"convert {CASES} cases"
    time, peak = usage(MULTITURN, "convert", suite)
    times, peaks = {first: time}, {first: peak}
    for vendor in MODELS:
        output = str(folder / f"{vendor}.jsonl")
        found = usage(*command, suite, "--target", vendor, "--output", output)
        times[f"{vendor}: submit them"], peaks[f"{vendor}: submit them"] = found
    show("CPU time", times, "s", **{f"{vendor}:": 2.5 for vendor in MODELS})
    show("peak memory", peaks, "MiB", **{f"{vendor}:": 1.6 for vendor in MODELS})


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    with BatchServer() as server, tempfile.TemporaryDirectory() as name:
        server.lag = 9  # else results would be there at the first look, and be collected
        main(server.url, Path(name))

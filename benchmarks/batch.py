"""What does submitting a batch take, against converting alone; and how much memory do many take?"""

import json
import os
import tempfile
from pathlib import Path

from batch_server import BatchServer
from loopback import KEY
from measuring import MULTITURN, show, usage, write_suite

CASES, FEW = 10_000, 1_000
MODELS = {"openai": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "m"}


def main(url: str, folder: Path) -> None:
    """Print the tables."""
    targets = []
    for vendor, model in MODELS.items():
        address = f"{url}/v1" if vendor == "openai" else url
        named = {"name": vendor, "provider": vendor, "model": model, "base_url": address}
        targets.append({**named, "api_key": KEY})
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}))
    for count in (FEW, CASES):
        write_suite(folder / f"{count}.eval.yaml", count)
    command = (MULTITURN, "run", "--targets", str(folder / "targets.yaml"), "--batch", "--no-wait")
    time, _ = usage(MULTITURN, "convert", str(folder / f"{CASES}.eval.yaml"))
    times, peaks = {f"convert {CASES} cases": time}, {}
    for vendor in MODELS:
        for count in (FEW, CASES):
            output = str(folder / f"{vendor}-{count}.jsonl")
            given = (str(folder / f"{count}.eval.yaml"), "--target", vendor, "--output", output)
            time, peaks[f"{vendor}, {count} cases"] = usage(*command, *given)
        times[f"{vendor}: submit them"] = time
    show("CPU time", times, "s", **{f"{vendor}:": 1.5 for vendor in MODELS})
    for vendor in MODELS:
        rows = {name: peak for name, peak in peaks.items() if name.startswith(vendor)}
        show(f"peak memory, {vendor}", rows, "MiB", **{f"{vendor},": 1.2})


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    with BatchServer() as server, tempfile.TemporaryDirectory() as name:
        server.lag = 9  # else results would be there at the first look, and be collected
        main(server.url, Path(name))

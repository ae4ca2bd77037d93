"""What does counting cost: of much text in MB/s, and of 100,000 tiny cases against not counting?"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from unittest.mock import patch

from measuring import seconds, usage
from multiturn import Estimate, dry_run, load_target
from multiturn.engine.costs import SharedPrefixes, price_for
from multiturn.model.tokens import Tokenizer, Tokens
from multiturn.providers.http import HttpProvider

CASES = 100_000
MODELS = {"claude": ("anthropic", "claude-haiku-4-5"), "gpt": ("openai", "gpt-4o")}
SLOWEST = {"o200k_base": 2.0, "": 10.0}  # MB/s
MOST_TIME = 2.0


def speeds() -> None:
    """Print how much text a second is counted."""
    docs = Path(__file__).parents[1].glob("docs/*.md")
    text = "".join(path.read_text(encoding="utf-8") for path in docs) * 20
    size = len(text.encode()) / 1_000_000
    for encoding, slowest in SLOWEST.items():
        tokenizer = Tokenizer(encoding)
        tokenizer.count("")  # loads the tables
        speed = size / min(seconds(partial(tokenizer.count, text)) for _ in range(3))
        print(f"{encoding or 'the estimate'}: {speed:.0f} MB/s")
        assert speed > slowest


def look(folder: str, name: str, *, counts: bool) -> None:
    """Do a dry run, with or without counting."""
    if not counts:
        HttpProvider.tokens = lambda self, wire: Tokens()  # type: ignore[method-assign]
        patch("multiturn.engine.costs.price_for", return_value=None).start()
    target = load_target(name, file=f"{folder}/targets.yaml")
    found = Estimate(price_for(target), SharedPrefixes(target)) if counts else None
    for delivery in dry_run(f"{folder}/tiny.jsonl", "spec", target):
        if found is not None:
            found.add(delivery)


def main() -> None:
    """Print the figures."""
    if len(sys.argv) > 1:
        look(sys.argv[1], sys.argv[2], counts=sys.argv[3] == "counts")
        return
    speeds()
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "tiny.jsonl").open("w", encoding="utf-8") as suite:
            for number in range(CASES):
                asked = [{"role": "user", "content": f"What is {number} plus one?"}]
                suite.write(json.dumps({"id": f"c{number}", "input_messages": asked}) + "\n")
        targets = [
            {"name": name, "provider": provider, "model": model, "api_key": "none"}
            for name, (provider, model) in MODELS.items()
        ]
        Path(folder, "targets.yaml").write_text(json.dumps(targets), encoding="utf-8")
        for name in MODELS:
            command = (sys.executable, __file__, folder, name)
            (time, peak), (plain_time, plain_peak) = (
                usage(*command, what) for what in ("counts", "plain")
            )
            print(
                f"{CASES:,} tiny cases for {name}: {time / plain_time:.2f} times the time without"
                f" counting ({time:.1f} s), {peak - plain_peak:.0f} MB more than {plain_peak:.0f}"
            )
            assert time < MOST_TIME * plain_time


if __name__ == "__main__":
    main()

"""How much memory do images take, of which many cases attach each, and how often are they read?"""

import json
import random
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, Popen

from measuring import MULTITURN, usage
from run import served

CASES, IMAGES, SIZE, CONCURRENCY = 2_000, 20, 1_000_000, 8
# The targets of runs: the path of the server, and MB at eight requests at a time. An SDK of Google
# or Anthropic takes 5 or 27 MB more than that of OpenAI before anything is sent.
SDKS = {"openai": ("/openai", 105), "gemini": ("", 115), "anthropic": ("", 125)}
MOST_OF_CONVERT = 50
HEAD = b"\x89PNG\r\n\x1a\n"
_COUNTS = """
import sys
opened = []
sys.addaudithook(
    lambda event, about: event == "open" and str(about[0]).endswith(".png") and opened.append(about)
)
from multiturn.cli.group import command_line
try:
    command_line(sys.argv[1:])
finally:
    print(f"images were opened {len(opened)} times", file=sys.stderr)
"""


def write_suite(path: Path, *, with_images: bool) -> None:
    """Write a suite whose cases have one image each, or none."""
    cases = []
    for number in range(CASES):
        image = {"type": "image", "value": f"{number % IMAGES}.png"}
        content = ["What is wrong on this page?", *([image] if with_images else [])]
        message = {"role": "user", "content": content}
        cases.append({"id": f"c{number}", "input_messages": [message]})
    path.write_text(json.dumps({"evalcases": cases}))


def main(url: str, folder: Path) -> None:
    """Print the peaks and the CPU seconds of commands."""
    rng = random.Random(7)
    for number in range(IMAGES):
        (folder / f"{number}.png").write_bytes(HEAD + rng.randbytes(SIZE - len(HEAD)))
    suites = {"text only": folder / "text.eval.yaml", "with images": folder / "images.eval.yaml"}
    for name, path in suites.items():
        write_suite(path, with_images=name == "with images")
    targets = folder / "targets.yaml"
    given = {"api_key": "key-of-nobody", "model": "m"}
    targets.write_text(
        json.dumps(
            [
                {"name": sdk, "provider": sdk, "base_url": url + path, **given}
                for sdk, (path, _) in SDKS.items()
            ]
        )
    )
    sends = ("--targets", str(targets), "--concurrency", str(CONCURRENCY))
    print(f"\n{CASES} cases, of {IMAGES} images of {SIZE / 1_000_000:g} MB; peak, and CPU seconds")
    commands: list[tuple[str, tuple[str, ...], int]] = [
        (f"run with {sdk}", ("run", *sends, "--target", sdk), most)
        for sdk, (_, most) in SDKS.items()
    ]
    commands.append(("convert", ("convert", "--format", "json"), MOST_OF_CONVERT))
    for title, command, most in commands:
        for name, suite in suites.items():
            output = ("--output", str(folder / f"{title} {name}.jsonl"))
            taken, peak = usage(MULTITURN, *command, str(suite), *output)
            limit = f"   at most {most}" if name == "with images" else ""
            peak *= 2**20 / 1_000_000
            print(f"  {f'{title}, {name}':<32}{peak:>8.0f} MB{taken:>8.1f} s{limit}")
    again = (*sends, "--target", "openai", "--output", str(folder / "again.jsonl"))
    run = (sys.executable, "-c", _COUNTS, "run", str(suites["with images"]), *again)
    with Popen(run, stderr=PIPE, text=True) as counted:
        print(f"  in a run, {counted.communicate()[1].splitlines()[-1]}")


if __name__ == "__main__":
    with served() as url, tempfile.TemporaryDirectory() as name:
        main(url, Path(name))

"""How much memory do 2,000 cases with an image take in a review, against the same with a text?"""

import os
import random
import tempfile
from pathlib import Path

from measuring import MULTITURN, usage
from repositories import commit, git

_CASES, _IMAGES, _SIZE = 2_000, 20, 1_000_000
_MOST = 120  # MB more than for texts
_PNG = b"\x89PNG\r\n\x1a\n" + bytes.fromhex("0000000d494844520000000100000001")
_RECORD = ("snapshot", "s.eval.yaml", "--quiet")
_REPORT = ("report", "s.eval.yaml", "--against", "HEAD", "--quiet", "--output")


def write(word: str, extension: str, seed: int) -> None:
    """Write the suite, and 20 images or texts that it attaches."""
    rng = random.Random(seed)
    lines = ["evalcases:"]
    for case in range(_CASES):
        file = f"{{type: file, value: {case % _IMAGES}.{extension}}}"
        said = f"{{role: user, content: ['{word} {case}', {file}]}}"
        lines.append(f"  - {{id: case-{case}, input_messages: [{said}]}}")
    Path("s.eval.yaml").write_text("\n".join(lines))
    for number in range(_IMAGES):
        data = _PNG + rng.randbytes(_SIZE - len(_PNG))
        text = data[-4:].hex().encode()
        Path(f"{number}.{extension}").write_bytes(data if extension == "png" else text)


def peaks(extension: str) -> dict[str, float]:
    """Return the peak MiB of each command, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("Look", extension, 1)
        found = {"snapshot": usage(MULTITURN, *_RECORD)[1]}
        git(Path(), "init", "-q")
        commit(Path())
        found["snapshot --check"] = usage(MULTITURN, *_RECORD, "--check")[1]
        write("See", extension, 2)
        found["report --against"] = usage(MULTITURN, *_REPORT, "r.html")[1]
        markdown = ("r.md", "--format", "markdown")
        found["the same as Markdown"] = usage(MULTITURN, *_REPORT, *markdown)[1]
        os.chdir("/")
    return found


def main() -> None:
    """Print the table."""
    texts, images = peaks("txt"), peaks("png")
    print(f"{_CASES:,} cases, each with one of {_IMAGES} images of 1 MB; peak memory")
    for name, peak in images.items():
        more = peak - texts[name]
        print(f"  {name:<24}{peak:>8,.0f} MiB, {more:,.0f} more than with texts  (at most {_MOST})")


if __name__ == "__main__":
    main()

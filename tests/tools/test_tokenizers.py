"""Texts have as many tokens as tiktoken counts, and estimates are as good as docs/costs.md says.

LiteLLM brings the tables of tiktoken's encodings and of Anthropic's tokenizer of 2023. It is in an
environment of its own, and counts in a process of its own.
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from multiturn.model.tokens import Tokenizer
from vendors import anthropic

ROOT = Path(__file__).parents[2]
COUNT = """
import json, os, sys
import litellm
import tiktoken
from tokenizers import Tokenizer

tables = os.path.join(os.path.dirname(litellm.__file__), "litellm_core_utils", "tokenizers")
os.environ["TIKTOKEN_CACHE_DIR"] = tables
encodings = [tiktoken.get_encoding(name) for name in ("o200k_base", "cl100k_base")]
claude = Tokenizer.from_file(os.path.join(tables, "anthropic_tokenizer.json"))
counts = []
for text in json.load(sys.stdin):
    counts.append([
        *(len(encoding.encode_ordinary(text)) for encoding in encodings),
        len(claude.encode(text, add_special_tokens=False).ids),
        litellm.token_counter(model="claude-haiku-4-5", text=text),
        litellm.token_counter(model="gemini/gemini-2.5-flash", text=text),
    ])
json.dump(counts, sys.stdout)
"""
Reference = Callable[[list[str]], list[list[int]]]


@pytest.fixture(scope="module")
def reference() -> Reference:
    """Return a function from texts to their counts.

    With o200k_base, cl100k_base, Anthropic's, and as LiteLLM counts for Claude and Gemini.
    """
    program = os.environ.get("LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("there is no LiteLLM; make test-tools installs it")
    python = str(Path(program).absolute().with_name("python"))

    def counts(texts: list[str]) -> list[list[int]]:
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        given = json.dumps(texts).encode()
        done = subprocess.run(
            [python, "-c", COUNT], input=given, env=environment, capture_output=True, check=True
        )
        found: list[list[int]] = json.loads(done.stdout)
        return found

    return counts


def pieces(pattern: str, chooser: random.Random) -> Iterator[str]:
    """Yield pieces of files of ours, of up to 2,000 characters."""
    files = sorted(ROOT.glob(pattern))
    for _ in count():
        text = chooser.choice(files).read_text(encoding="utf-8")
        start = chooser.randrange(len(text))
        yield text[start : start + chooser.randrange(200, 2000)]


def made_up(chooser: random.Random) -> Iterator[str]:
    """Yield random characters of every plane, with runs of spaces and line breaks."""
    ranges = [(32, 127), (160, 0x250), (0x370, 0x500), (0x900, 0xE00), (0x4E00, 0x9FFF)]
    ranges += [(0xAC00, 0xD7A0), (0x1F300, 0x1F700), (9, 14)]
    for _ in count():
        text = ""
        for _ in range(chooser.randrange(40)):
            low, high = chooser.choice(ranges)
            run = chooser.randrange(1, 12)
            text += chr(chooser.randrange(low, high)) * chooser.choice([1, 1, run])
            text += " " * chooser.choice([0, 0, 1, run])
        yield text


def test_2000_random_texts_have_the_tokens_of_the_reference(reference: Reference) -> None:
    chooser = random.Random(36)
    sources = [pieces("docs/*.md", chooser), pieces("pipeline/**/*.py", chooser)]
    sources += [pieces("tests/**/*.yaml", chooser), made_up(chooser)]
    texts = [next(source) for _ in range(500) for source in sources]
    expected = [(o200k, cl100k) for o200k, cl100k, *_ in reference(texts)]
    ours = Tokenizer("o200k_base"), Tokenizer("cl100k_base")
    assert all(tokenizer.is_exact for tokenizer in ours)
    assert [tuple(tokenizer.count(text) for tokenizer in ours) for text in texts] == expected


@pytest.mark.parametrize("pattern", ["docs/*.md", "pipeline/**/*.py", "tests/**/*.yaml"])
def test_estimates_are_within_the_documented_error(reference: Reference, pattern: str) -> None:
    chooser = random.Random(36)
    source = pieces(pattern, chooser)
    texts = [next(source) for _ in range(300)]
    counts = reference(texts)
    o200k, _, claude_2023, claude, gemini = (sum(column) for column in zip(*counts, strict=True))
    estimate = sum(map(Tokenizer().count, texts))
    assert estimate == pytest.approx(o200k, rel=0.1)
    assert estimate == pytest.approx(gemini, rel=0.1)
    ours = sum(map(anthropic(model="claude-haiku-4-5").tokenizer.count, texts))
    assert ours == pytest.approx(claude_2023, rel=0.15)
    assert ours == pytest.approx(claude, rel=0.15)
    errors = sorted(
        abs(Tokenizer().count(t) / n[0] - 1) for t, n in zip(texts, counts, strict=True)
    )
    assert errors[285] < 0.3  # 95 of 100

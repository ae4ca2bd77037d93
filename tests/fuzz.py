"""Coverage-guided fuzzing: ``python tests/fuzz.py KIND [options of libFuzzer]``.

Whatever is no result and no error with a place, takes over five seconds or over 500 MB ends the
run, and leaves its input beside the corpus.
"""

import json
import logging
import sys
from pathlib import Path

import atheris
import structlog

with atheris.instrument_imports(include=["multiturn", "multiturn_stages", "yaml", "tomllib"]):
    import tomllib  # noqa: F401 - find_defaults would import it too late

    from anything import KINDS
    from bodies import BODIES, chat_body, in_telemetry

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / ".fuzz"
LIMITS = ("-timeout=5", "-rss_limit_mb=500", "-max_len=4096")
PATTERNS = ("**/*.instructions.md", "!vendor/**", "[!a-c]?{x,y{z,}}*.md", "../a/./b", "a\\b")
TARGETS = (
    "targets: [{name: t, provider: echo}, {name: u, provider: azure, api_key: ${{ NO_NAME }}}]"
)
RESULT = (
    b'{"suite": "a.yaml", "id": "a", "target": "t", "digest": "d", "output": "x", "error": null}\n'
)
DEFAULTS = b"""\
pipeline = "design"
root = '.'
suites = ["evals", "a\\u0001b"]
snapshots = "kept"
inline_snapshots = true
allow_hidden_characters = ["a", "b"]
target = "t"
"""
STATE = (
    b'{"is": "target", "name": "t", "provider": "openai", "model": "m", "address": ["u"]}\n'
    b'{"is": "part", "token": "p", "requests": 1, "size": 9, "file": "f", "batch": "b"}\n'
    b'{"is": "asked", "part": "p", "where": "a.yaml:1", "result": {"suite": "a.yaml", "id": "a",'
    b' "target": "t", "digest": "00ff"}}\n{"is": "canceled"}\n'
)
ANSWER = (
    b'{"suite": "a.yaml", "id": "a", "target": "t", "response": "Hi", "raw_request": {"question":'
    b' "Hi", "chat_prompt": [{"role": "user", "content": "Hi"}]}, "tool_calls": [{"id": "c",'
    b' "name": "f", "arguments": {"a": 1}}], "thinking": [{"type": "reasoning", "id": "r"}]}\n'
)
JSON_LINE = b'{"id": "a", "input_messages": [{"role": "user", "content": ["x"]}]}\n'


def seeds(kind: str) -> list[bytes]:
    """Return what a kind's corpus begins with."""

    def files(*globs: str) -> list[bytes]:
        return [path.read_bytes() for each in globs for path in sorted(ROOT.glob(each))]

    match kind:
        case "dialects":  # each byte is a choice
            return [bytes(range(start, start + 64)) for start in range(0, 192, 16)]
        case "tables":
            return [
                b"id,input\na,Hi\n",
                b'a,__prefix,id\n"x\n""y",{{ b }},c\n',
                *files("examples/**/*.csv"),
            ]
        case "settings":  # the name of each, and its value
            return [bytes([name, value]) * 2 for name in range(16) for value in range(31)]
        case "patterns":
            return [f"{pattern}\na/b.instructions.md".encode() for pattern in PATTERNS]
        case "pipelines":
            return files("pipeline/multiturn/pipelines/*.yaml", "examples/terse.yaml")
        case "targets":
            return [*files("examples/targets.yaml"), TARGETS.encode()]
        case "defaults":
            table = b"[tool.multiturn]\n"
            return [DEFAULTS, table + DEFAULTS, b"[[tool.multiturn]]\n", *files("pyproject.toml")]
        case "states":
            return [STATE, STATE[:-9], STATE + STATE]
        case "results":
            return [RESULT, RESULT * 2, RESULT[:-9]]
        case "locks":
            return files("snapshots/**/promoted.lock")
        case "traces":
            made = [make(number) for make in BODIES.values() for number in range(20)]
            made += [in_telemetry(chat_body(number, has_media=False)) for number in range(20)]
            return [ANSWER, *(json.dumps(each).encode() for each in made)]
        case "reports":
            suites = files("examples/*.yaml")
            return [before + b"\0" + after for before in suites for after in suites]
    return [JSON_LINE, *files("tests/scenarios/*.yaml", "examples/**/*.yaml")]


def main() -> None:
    """Fuzz the kind that the first argument names; libFuzzer takes the others."""
    if len(sys.argv) < 2 or sys.argv[1] not in KINDS:
        sys.exit(f"usage: fuzz.py {'|'.join(KINDS)} [-max_total_time=SECONDS] [-runs=N]")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    kind = sys.argv[1]
    corpus = CORPUS / kind
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(kind)):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [f"-artifact_prefix={CORPUS}/{kind}-", *LIMITS, *sys.argv[2:], str(corpus)]
    atheris.Setup([sys.argv[0], *options], KINDS[kind])
    atheris.Fuzz()


if __name__ == "__main__":
    main()

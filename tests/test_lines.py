"""What commands print for programs: lines of JSON as their schemas say, and annotations."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from commands import run
from multiturn.cli.schemas import SCHEMAS
from test_report import FILES, SUITE, replace, repository, write

__all__ = ["repository"]

SHOP = "evals/shop.eval.yaml"
WRONG = SUITE.replace("role: system", "role: usr") + "mood: good\n"


def lines(
    folder: Path, command: str, *arguments: str, code: int = 0, said: str = ""
) -> list[dict[str, Any]]:
    """Run a command, and return its lines, of which each is as its schema says."""
    done = run(command, *arguments, "--format=json", folder=folder)
    assert (done.returncode, said in done.stderr, bool(done.stderr)) == (code, True, bool(said))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    schema = SCHEMAS[command]()
    validator = Draft202012Validator(schema)
    for line in found:
        validator.validate(line)
        for definition, part in parts(schema, schema, line):
            assert list(part) == list(definition["properties"])
    return found


def parts(schema: Any, part: Any, value: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each object of a line, with the definition that it has in the schema."""
    part = schema["$defs"].get(part.get("$ref", "").rpartition("/")[2], part)
    for choice in part.get("anyOf", ()):
        yield from parts(schema, choice, value)
    if isinstance(value, dict) and "properties" in part:
        yield part, value
        for key, each in value.items():
            yield from parts(schema, part["properties"][key], each)
    for each in value if isinstance(value, list) and "items" in part else ():
        yield from parts(schema, part["items"], each)


def test_check(repository: Path) -> None:
    write(repository, {SHOP: WRONG})
    warning, error = lines(repository, "check", "evals", code=1)
    assert error == {
        "severity": "error",
        "file": SHOP,
        "line": 12,
        "column": 16,
        "id": "bye",
        "message": "case 'bye': input_messages[0]: there is no role 'usr'; did you mean \"user\"?",
    }
    assert (warning["severity"], warning["line"], warning["id"]) == ("warning", 14, None)


def test_diff(repository: Path) -> None:
    same, other, changed = lines(repository, "diff", "evals", "--to=design", code=1)
    assert same == {"suite": SHOP, "id": "hours", "diff": None}
    assert other == {"suite": SHOP, "id": "price", "diff": None}
    assert (changed["suite"], changed["id"]) == (SHOP, "bye")
    assert changed["diff"].startswith(f"--- {SHOP} · bye · spec\n+++ {SHOP} · bye · design\n@@ ")
    for line in ("-    content: Be kind.", "+      You sell books.", "+      Be kind."):
        assert line in changed["diff"].split("\n")


def test_explain(repository: Path) -> None:
    (line,) = lines(repository, "explain", "evals", "--case=hours")
    origin = f"evals/tone.rules.md, attached at {SHOP}:6, moved by extract_guidelines"
    assert (line["suite"], line["id"]) == (SHOP, "hours")
    system, user = line["chat_prompt"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["spans"][0] == {
        "text": "You sell books.",
        "origin": f"metadata.systemPrompt of {SHOP}",
        "path": None,
    }
    assert system["spans"][-1] == {
        "text": FILES["evals/tone.rules.md"].rstrip(),
        "origin": origin,
        "path": "evals/tone.rules.md",
    }
    assert [segment["fate"] for segment in line["segments"]] == ["moved", "shown"]
    assert line["segments"][1] == {
        "file": SHOP,
        "line": 6,
        "segment": "case 'hours': input_messages[0].content[1]",
        "fate": "shown",
        "why": "",
    }
    (line,) = lines(repository, "explain", "evals", "--case=price", "--pipeline=shipped")
    assert line["chat_prompt"] is None


def test_report(repository: Path) -> None:
    replace(repository, SHOP, "user, content: Bye", "system, content: Bye")
    replace(repository, SHOP, "id: hours", "id: opening")
    replace(repository, "evals/list.txt", "10", "12")
    arguments = ("report", "evals", "--against=HEAD")
    failed, changed, renamed = lines(repository, *arguments, code=1, said="nothing to answer")
    nothing: dict[str, Any] = {
        "was_suite": None,
        "was_id": None,
        "causes": [],
        "dangers": [],
        "diff": None,
    }
    assert failed.pop("error").startswith(f"{SHOP}:10: case 'bye': there is nothing to answer")
    assert failed == {"suite": SHOP, "id": "bye", "line": None, "status": "failed", **nothing}
    assert changed == {
        **nothing,
        "suite": SHOP,
        "id": "price",
        "line": 7,
        "status": "changed",
        "causes": ["evals/list.txt line 1"],
        "diff": """\
@@
 user:
   <Attached: tone.rules.md>
   === list.txt ===
-  A book: 10
+  A book: 12""",
        "error": None,
    }
    assert renamed == {
        **nothing,
        "suite": SHOP,
        "id": "opening",
        "line": 4,
        "status": "renamed",
        "was_suite": SHOP,
        "was_id": "hours",
        "error": None,
    }


def test_report_of_one_side_and_of_what_is_in_no_case(repository: Path) -> None:
    (line,) = lines(repository, "report", "evals", "--case=hours")
    assert (line["status"], line["error"]) == (None, None)
    replace(repository, "house/pipeline.yaml", "insert", "configure: {}\ninsert")
    replace(repository, "house/pipeline.yaml", "extends: spec", "extends: design")
    pipeline = ("--pipeline=house/pipeline.yaml", "--against=HEAD", "--case=hours")
    first, line = lines(repository, "report", "evals", *pipeline)
    assert (first["suite"], first["id"], first["status"]) == (None, None, "changed")
    assert line["status"] == "same"
    write(repository, {"evals/late.eval.yaml": "a: ["})
    first, line = lines(repository, "report", "evals", "--case=hours", code=1, said="late.eval")
    assert (first["suite"], first["status"]) == (None, "failed")


@pytest.mark.parametrize("command", ["check", "diff", "explain", "report"])
def test_each_key_is_described(command: str) -> None:
    schema = SCHEMAS[command]()
    described = [
        details.get("description")
        for definition in (schema, *schema["$defs"].values())
        for details in definition.get("properties", {}).values()
    ]
    assert described
    assert all(described)


@pytest.mark.parametrize(
    ("folder", "named"), [(".", "evals"), ("evals", "."), ("house", "../evals/shop.eval.yaml")]
)
def test_github_gets_files_from_the_top_of_the_repository(
    repository: Path, folder: str, named: str
) -> None:
    write(repository, {SHOP: WRONG})
    done = run("check", named, "--format=github", folder=repository / folder)
    assert (done.returncode, done.stderr) == (1, "")
    warning, error = done.stdout.splitlines()
    assert error == (
        f"::error title=multiturn check,file={SHOP},line=12,col=16::case 'bye': input_messages[0]:"
        " there is no role 'usr'; did you mean \"user\"?"
    )
    assert warning.startswith(f"::warning title=multiturn check,file={SHOP},line=14,col=1::")


def test_github_obeys_nothing_that_a_suite_says(repository: Path) -> None:
    name = "evals/50%, a:b\n\r::error::.eval.yaml"
    case = '- {id: "a\\r\\n::error::x%0A", input_messages: 3}\n'
    write(repository, {name: f"evalcases:\n{case}"})
    done = run("check", name, "--format=github", folder=repository)
    (line,) = done.stdout.splitlines()
    head = (
        "::error title=multiturn check,file=evals/50%25%2C a%3Ab%0A\\x0d%3A%3Aerror%3A%3A.eval.yaml"
    )
    assert line.startswith(head)
    assert "%250A" in line

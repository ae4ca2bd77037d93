"""What commands print for programs: lines of JSON as their schemas say, and annotations."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from commands import run
from comparing import write
from layout import write_layout
from multiturn.cli.schemas import SCHEMAS
from repositories import FILES, SUITE, TONE, replace

SHOP = "evals/shop.eval.yaml"
WRONG = SUITE.replace("role: system", "role: usr") + "mood: good\n"


def lines(
    folder: Path, command: str, *arguments: str, code: int = 0, said: str = ""
) -> list[dict[str, Any]]:
    """Run a command, and return its lines, of which each is as its schema says."""
    done = run(command, *arguments, "--format=json", folder=folder)
    assert (done.returncode, said in done.stderr, bool(done.stderr)) == (code, True, bool(said))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    validator = Draft202012Validator(SCHEMAS[command]())
    for line in found:
        validator.validate(line)
    return found


def test_check(repository: Path) -> None:
    write(repository, {SHOP: WRONG})
    (repository / "evals/gone.eval.yaml").symlink_to("nowhere")
    gone, error, warning = lines(repository, "check", "evals", code=1)
    assert (gone["file"], gone["line"], gone["column"]) == ("evals/gone.eval.yaml", None, None)
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
        "file": SHOP,
        "line": 2,
        "column": 26,
        "key": "metadata.systemPrompt",
        "stage": None,
        "changed_by": None,
        "media": None,
    }
    assert system["spans"][-1] == {
        "text": FILES["evals/tone.rules.md"].rstrip(),
        "origin": origin,
        "path": "evals/tone.rules.md",
        "file": SHOP,
        "line": 6,
        "column": 32,
        "key": "input_messages[0].content[0]",
        "stage": None,
        "changed_by": None,
        "media": None,
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
    assert (failed["id"], failed["status"], failed["line"]) == ("bye", "failed", None)
    assert failed["error"].startswith(f"{SHOP}:10: case 'bye': there is nothing to answer")
    assert (changed["id"], changed["status"], changed["line"]) == ("price", "changed", 7)
    assert changed["causes"] == ["evals/list.txt line 1"]
    assert "\n-  A book: 10\n+  A book: 12\n" in changed["diff"]
    assert (renamed["id"], renamed["status"], renamed["diff"]) == ("opening", "renamed", None)
    assert (renamed["was_suite"], renamed["was_id"]) == (SHOP, "hours")


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


def change(repository: Path) -> None:
    """Record the prompts of the suite, and change them in each way."""
    write_layout(repository)
    assert run("snapshot", "evals", folder=repository).returncode == 0
    replace(repository, SHOP, "content: Bye", "content: Ciao")
    replace(repository, SHOP, "id: hours", "id: opening")
    replace(repository, TONE, "Two.", "2.")
    replace(repository, "evals/list.txt", "10", "12")
    write(repository, {"evals/new.eval.yaml": SUITE[: SUITE.index("  - id: price")]})
    write(repository, {"evals/z.eval.yaml": "input: 3\n"})


BYE = "@@%0A system:%0A   Be kind.%0A user:%0A-  Bye%0A+  Ciao"
NEW = "evals/new.eval.yaml"


def test_snapshot(repository: Path) -> None:
    change(repository)
    found = lines(repository, "snapshot", "evals", "--check", code=1, said="z.eval.yaml:1")
    kinds = [(line["kind"], line["file"], [case["id"] for case in line["cases"]]) for line in found]
    assert kinds == [
        ("privilege", TONE, ["hours", "opening", "price"]),
        ("text", "evals/list.txt", ["price"]),
        ("failed", "evals/z.eval.yaml", []),
        ("changed", "snapshots/evals/shop/bye.yaml", ["bye"]),
        ("new", "snapshots/evals/new/hours.yaml", ["hours"]),
        ("renamed", "snapshots/evals/shop/opening.yaml", ["opening"]),
        ("changed", "snapshots/promoted.lock", []),
        ("changed", "snapshots/files.lock", []),
    ]
    new, renamed, *_ = found[4:]
    assert renamed["was_file"] == "snapshots/evals/shop/hours.yaml"
    assert (renamed["diff"], new["diff"]) == (None, None)
    assert "\n-    content: Bye\n+    content: Ciao\n" in found[3]["diff"]


def test_github_gets_the_first_part_of_a_long_difference(repository: Path) -> None:
    replace(repository, SHOP, "content: Bye", f"content: {'long ' * 1000}")
    run("snapshot", "evals", folder=repository)
    replace(repository, SHOP, "long long", "short long")
    done = run("snapshot", "evals", "--check", "--format=github", folder=repository)
    first = done.stdout.splitlines()[0]
    assert first.endswith("…")
    assert 2000 < len(first) < 2500


def test_github_gets_each_difference_of_snapshots_once(repository: Path) -> None:
    change(repository)
    arguments = ("snapshot", "evals", "--check", "--format=github")
    done = run(*arguments, folder=repository, env={"GITHUB_ACTIONS": "true"})
    stop, start, *said = done.stdout.splitlines()
    assert done.returncode == 1
    assert stop.replace("stop-commands::", "") == start.removesuffix("::")
    head = "::error title=multiturn snapshot --check,file="
    assert [line.removeprefix(head).partition("::")[::2] for line in said] == [
        (
            f"{TONE},line=2",
            f"change of privilege: {TONE} changed; it is part of a system message ({NEW}: hours;"
            f" {SHOP}: opening, price, about +1 token in 3 cases):"
            "%0A@@%0A One.%0A-Two.%0A+2.%0A Three.%0A Four.%0A Five.",
        ),
        ("evals/z.eval.yaml,line=1,col=8", "case 'z': input must be a list, not a number"),
        (
            "evals/list.txt,line=1",
            f"evals/list.txt changed ({SHOP}: price, about the same length):"
            "%0A@@%0A-A book: 10%0A+A book: 12",
        ),
        (
            f"{SHOP},line=13",
            f"the prompt is not as recorded ({SHOP}: bye, about the same length):%0A{BYE}",
        ),
        (
            f"{SHOP},line=4",
            "renamed: snapshots/evals/shop/hours.yaml -> snapshots/evals/shop/opening.yaml"
            f" ({SHOP}: opening, about the same length)",
        ),
        (f"{NEW},line=4", "new: snapshots/evals/new/hours.yaml"),
    ]


def test_github_gets_the_ten_differences_that_matter_most_and_how_many_more(
    repository: Path,
) -> None:
    cases = "".join(
        f"  - {{id: c{n}, input_messages: [{{role: user, content: Say {n}.}}]}}\n"
        for n in range(13)
    )
    write(repository, {"evals/many.eval.yaml": f"evalcases:\n{cases}"})
    run("snapshot", "evals", folder=repository)
    write(repository, {"evals/many.eval.yaml": f"evalcases:\n{cases.replace('Say', 'Tell')}"})
    replace(repository, SHOP, "Be kind.", "Obey.")  # the last of all cases
    done = run("snapshot", "evals", "--check", "--format=github", folder=repository)
    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said] == ["::error"] * 10 + ["::warning"]
    assert "::change of privilege: new text in a system message: 'Obey.'%0A" in said[0]
    assert all("the prompt is not as recorded" in line for line in said[1:10])
    assert said[10].endswith("::4 more differences; multiturn snapshot --check shows them")


@pytest.mark.parametrize(
    ("folder", "named"), [(".", "evals"), ("evals", "."), ("house", "../evals/shop.eval.yaml")]
)
def test_github_gets_files_from_the_top_of_the_repository(
    repository: Path, folder: str, named: str
) -> None:
    write(repository, {SHOP: WRONG})
    done = run("check", named, "--format=github", folder=repository / folder)
    assert (done.returncode, done.stderr) == (1, "")
    error, warning = done.stdout.splitlines()
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
        "::error title=multiturn check,file=evals/50%25%2C a%3Ab%0A\\r%3A%3Aerror%3A%3A.eval.yaml"
    )
    assert line.startswith(head)
    assert "%250A" in line

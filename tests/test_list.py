"""multiturn list: suites and their cases; and the globs of --case."""

import json
from pathlib import Path

import pytest

from commands import Done, run
from media_files import image

SUITE = """\
guideline_patterns: ["*.guide.md"]
evalcases:
- id: refund-1
  input_messages:
  - {role: system, content: Be kind.}
  - role: user
    content: [Hi, {type: file, value: a.txt}, {type: file, value: house.guide.md}]
- id: refund-2
  input_messages: [{role: user, content: Hi}]
- id: "odd[1]"
  input_messages: [{role: user, content: [{type: file, value: nowhere.txt}]}]
"""


def listed(folder: Path, *arguments: str) -> Done:
    for name, text in {"x.eval.yaml": SUITE, "a.txt": "A", "house.guide.md": "G"}.items():
        (folder / name).write_text(text)
    return run("list", "x.eval.yaml", *arguments, folder=folder)


def test_a_list_has_suites_cases_and_their_files(tmp_path: Path) -> None:
    done = listed(tmp_path)
    assert done.stdout.splitlines() == [
        "x.eval.yaml",
        "  refund-1: 2 messages, file a.txt, guideline house.guide.md",
        "  refund-2: 1 message",
    ]
    assert done.returncode == 1
    assert "case 'odd[1]': input_messages[0].content[0]: no file 'nowhere.txt'" in done.stderr


def test_a_list_in_json_has_a_case_a_line(tmp_path: Path) -> None:
    done = listed(tmp_path, "--case", "refund-1", "--format", "json")
    assert json.loads(done.stdout) == {
        "suite": "x.eval.yaml",
        "id": "refund-1",
        "file": "x.eval.yaml",
        "line": 3,
        "messages": ["system", "user"],
        "files": ["a.txt"],
        "guidelines": ["house.guide.md"],
    }


@pytest.mark.parametrize(
    ("selected", "cases"),
    [
        ("--case=refund-? --case=refund-1", ["refund-1", "refund-2"]),
        ("--case=*-[2-9]", ["refund-2"]),
        ("--case=odd[1]", ["odd[1]"]),
    ],
)
def test_cases_are_selected_by_ids_and_globs(
    tmp_path: Path, selected: str, cases: list[str]
) -> None:
    done = listed(tmp_path, *selected.split(), "--format", "json")
    failed = ["odd[1]"] if "case 'odd[1]'" in done.stderr else []
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] + failed == cases


def test_a_glob_that_matches_no_id_is_an_error(tmp_path: Path) -> None:
    done = listed(tmp_path, "--case", "order-*")
    assert done.returncode == 2
    assert done.stderr == "Error: no case 'order-*'; choose from: odd[1], refund-1, refund-2\n"


# --tokens

LARGE = {
    "large.eval.yaml": """\
guideline_patterns: ["*.guide.md"]
metadata: {systemPrompt: Be kind.}
evalcases:
- id: small
  input_messages: [{role: user, content: Hi}]
- id: large
  input_messages:
  - {role: user, content: [Hi, {type: file, value: a.txt}, {type: file, value: house.guide.md}]}
  - {role: assistant, content: Ho}
  - {role: user, content: Bye}
""",
    "a.txt": " a" * 300,  # " a" is one token
    "house.guide.md": " a" * 500,
    "targets.yaml": """\
targets:
- {name: gpt, provider: openai, model: gpt-4o, api_key: none}
- {name: claude, provider: anthropic, model: claude-opus-4-8, api_key: none}
""",
}


def sized(folder: Path, *arguments: str) -> Done:
    for name, text in LARGE.items():
        (folder / name).write_text(text)
    return run("list", "large.eval.yaml", "--tokens", *arguments, folder=folder)


def test_the_largest_case_comes_first_with_what_makes_it_large(tmp_path: Path) -> None:
    done = sized(tmp_path, "--target", "gpt")
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert first.endswith(" tokens in 2 cases")
    names = [line.strip().partition("  ")[2].strip() for line in lines]
    assert names == [
        "large.eval.yaml · large",
        "guideline house.guide.md",
        "file a.txt",
        "system messages",
        "user messages",
        "assistant messages",
        "large.eval.yaml · small",
        "system messages",
        "user messages",
    ]


def test_an_image_counts_where_its_tokens_are_known(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(LARGE["targets.yaml"])
    (tmp_path / "a.png").write_bytes(image())
    shot = "content: [Hi, {type: image, value: a.png}]"
    (tmp_path / "a.eval.yaml").write_text(
        f"evalcases: [{{id: a, input_messages: [{{role: user, {shot}}}]}}]"
    )
    given = ("a.eval.yaml", "--tokens", "--format", "json")
    for target, tokens in (("gpt", 85 + 170), ("claude", 1)):  # a tile; a square of 28 pixels
        case = json.loads(run("list", *given, "--target", target, folder=tmp_path).stdout)
        assert case["parts"]["file a.png"] == tokens


def test_tokens_are_those_of_the_targets_model(tmp_path: Path) -> None:
    done = sized(tmp_path, "--target", "gpt", "--format", "json")
    small, large = map(json.loads, done.stdout.splitlines())
    # "Be", " kind" and "." and "Hi"; 4 for each of two messages, and 3 for the answer
    assert (small["id"], small["tokens"]) == ("small", 3 + 1 + 2 * 4 + 3)
    assert small["parts"] == {"system messages": 3, "user messages": 1}
    assert 500 <= large["parts"]["guideline house.guide.md"] < 515  # with its heading
    assert 300 < large["parts"]["file a.txt"] < 310  # with its header
    # Four messages, and the tokens that are made where two texts meet.
    assert sum(large["parts"].values()) == pytest.approx(large["tokens"] - 4 * 4 - 3, abs=3)


def test_tools_calls_and_thinking_count_also_without_a_target(tmp_path: Path) -> None:
    word = "a " * 200
    suite = f"""\
evalcases:
- id: calls
  tools: [{{name: f, description: {word}, parameters: {{type: object}}}}]
  input_messages:
  - role: assistant
    content: [{{type: thinking, thinking: {word}}}, Hi]
    tool_calls: [{{id: c1, name: f, arguments: {{x: {word}}}}}]
  - {{role: tool, tool_call_id: c1, content: ok}}
"""
    (tmp_path / "calls.eval.yaml").write_text(suite)
    done = run("list", "calls.eval.yaml", "--tokens", "--format", "json", folder=tmp_path)
    (case,) = map(json.loads, done.stdout.splitlines())
    assert case["parts"].keys() >= {"tools", "assistant messages"}
    # A call and a tool are also the JSON around their texts; 4 for each message, 3 for the answer.
    assert case["tokens"] >= sum(case["parts"].values()) + 3 * 4 + 3


def test_an_estimate_is_called_about(tmp_path: Path) -> None:
    assert sized(tmp_path).stdout.startswith("about ")
    assert not sized(tmp_path, "--target", "gpt").stdout.startswith("about ")


def test_a_case_that_the_target_refuses_is_a_failure(tmp_path: Path) -> None:
    suite = LARGE["large.eval.yaml"].replace("  - {role: user, content: Bye}\n", "")
    (tmp_path / "ends.eval.yaml").write_text(suite)
    sized(tmp_path)
    done = run("list", "ends.eval.yaml", "--tokens", "--target", "claude", folder=tmp_path)
    assert (done.returncode, "case 'large': A4: " in done.stderr) == (1, True)
    assert "in 1 case\n" in done.stdout


def test_ten_cases_are_shown(tmp_path: Path) -> None:
    cases = "".join(f"- {{id: c{n}, input: {' a' * 20 * n}}}\n" for n in range(1, 15))
    (tmp_path / "many.eval.yaml").write_text(f"tests:\n{cases}")
    done = run("list", "many.eval.yaml", "--tokens", folder=tmp_path)
    assert "in 14 cases; the 10 largest:\n" in done.stdout
    shown = [line.rpartition(" ")[2] for line in done.stdout.splitlines() if "·" in line]
    assert shown == [f"c{n}" for n in range(14, 4, -1)]


def test_images_are_not_counted_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.gif").write_bytes(b"GIF89a")
    shot = "{type: image, value: a.gif}"
    message = f"{{role: user, content: [Hi, {shot}, {shot}]}}"
    (tmp_path / "shots.eval.yaml").write_text(f"id: a\ninput_messages: [{message}]\n")
    done = run("list", "shots.eval.yaml", "--tokens", folder=tmp_path)
    first = done.stdout.splitlines()[0]
    assert first.endswith(" tokens in 1 case, without 2 images or other media (not known)")


def test_a_target_of_a_list_is_for_tokens(tmp_path: Path) -> None:
    done = listed(tmp_path, "--target", "gpt")
    assert (done.returncode, "--target and --targets are for --tokens; add it" in done.stderr) == (
        2,
        True,
    )

"""Images, documents and audio in snapshots, their check, and reports as text."""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from commands import run, start
from comparing import report_of, write
from media_files import data_uri, image, padded, pdf, wav
from multiturn.documents.yaml_reader import read_documents
from multiturn.files.media import Media
from multiturn.report.comparison import Report
from multiturn.report.markdown import to_markdown
from multiturn.snapshots.attached_files import change_in_words
from repositories import commit, git

Files = Mapping[str, str | bytes]
SUITE = "evals/s.eval.yaml"
SMALL, LARGE = padded(image(seed=1), 12_345), padded(image(seed=2), 14_100)
ALIKE = padded(image(seed=3), 12_345)


def case(name: str, *content: str) -> str:
    """Return a case whose content is paths of images, other files, and quoted texts."""
    items = (each if each[0] in "{'" else f"{{type: file, value: {each}}}" for each in content)
    said = f"{{role: user, content: [{', '.join(items)}]}}"
    return f"  - {{id: {name}, input_messages: [{said}]}}\n"


def suite(*cases: str) -> str:
    return "evalcases:\n" + "".join(cases)


FILES: dict[str, str | bytes] = {
    SUITE: suite(case("a", "'Look:'", "shots/a.png"), case("b", "shots/a.png", "n.txt")),
    "evals/shots/a.png": SMALL,
    "evals/n.txt": "A note.",
}


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def facts(data: bytes, media_type: str = "image/png") -> str:
    return f"{media_type}, {len(data):,} bytes, SHA-256 {digest(data)[:12]}…"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def recorded(folder: Path, files: Files, *options: str) -> None:
    """Record the snapshots of some files."""
    write(folder, files)
    done = run("snapshot", "evals", *options, folder=folder)
    assert (done.returncode, warnings_left_out(done.stderr)) == (0, "")


def warnings_left_out(text: str) -> str:
    return "".join(line for line in text.splitlines() if ": warning: " not in line)


def check(folder: Path, *options: str) -> list[dict[str, Any]]:
    done = run("snapshot", "evals", "--check", "--format", "json", *options, folder=folder)
    return [json.loads(line) for line in done.stdout.splitlines()]


def checked(folder: Path, then: Files, now: Files, *options: str) -> list[dict[str, Any]]:
    """Return what a check says of files that were recorded in another state."""
    recorded(folder, then, *options)
    for name in then.keys() - now.keys():
        (folder / name).unlink()
    write(folder, now)
    return check(folder, *options)


def test_a_snapshot_has_each_where_it_stands_and_the_lock_its_digest(project: Path) -> None:
    gif = data_uri(image("GIF"))
    said = (
        *("'What is this?'", "shots/a.png", "'[image: shots/a.png]'", "i.pdf"),
        *("{type: audio, value: q.wav}", f"{{type: image, value: '{gif}'}}"),
        "{type: image, value: 'https://example.org/c.png'}",
    )
    recorded(
        project,
        {
            SUITE: suite(case("a", *said)),
            "evals/shots/a.png": SMALL,
            "evals/i.pdf": pdf(),
            "evals/q.wav": wav(),
        },
    )
    text = (project / "snapshots/evals/s/a.yaml").read_text()
    name = f"{digest(image('GIF'))[:12]}.gif"
    assert (
        text.partition("question:")[0]
        == f"""\
---
suite: {SUITE}
id: a
chat_prompt:
  - role: user
    content:
    - "What is this?"
    - image: evals/shots/a.png
      type: image/png
      size: 12345
    - "[image: shots/a.png]"
    - document: evals/i.pdf
      type: application/pdf
      size: {len(pdf())}
    - audio: evals/q.wav
      type: audio/wav
      size: 844
    - image: "{name}"
      type: image/gif
      size: {len(image("GIF"))}
      sha256: "{digest(image("GIF"))}"
    - image: "https://example.org/c.png"
"""
    )
    lock = (project / "snapshots/files.lock").read_text()
    assert next(iter(read_documents(lock, ""))).value == {
        "evals/i.pdf": [digest(pdf())],
        "evals/q.wav": [digest(wav())],
        "evals/shots/a.png": [digest(SMALL)],
    }
    assert check(project) == []


def test_inline_snapshots_have_the_digest_of_each(project: Path) -> None:
    recorded(project, FILES, "--inline")
    assert not (project / "snapshots/files.lock").exists()
    text = (project / "snapshots/evals/s/a.yaml").read_text()
    assert text.count(f'sha256: "{digest(SMALL)}"') == 2  # in the message, and of the file
    write(project, {**FILES, "evals/shots/a.png": ALIKE})
    (line,) = {each["key"] for each in check(project, "--inline")}
    assert line is not None


@pytest.mark.parametrize(
    ("now", "what"),
    [
        pytest.param(LARGE, "image changed: 12 kB to 14 kB", id="another size"),
        pytest.param(ALIKE, "image changed: other bytes, 12 kB as before", id="the same size"),
        pytest.param(
            padded(SMALL, 12_350), "image changed: 12,345 to 12,350 bytes", id="almost the same"
        ),
        pytest.param(
            image("GIF"),
            f"image changed: image/png, 12 kB, to image/gif, {len(image('GIF'))} bytes",
            id="another type",
        ),
        pytest.param(pdf(), "an image of 12 kB became a document of 2 kB", id="a document"),
        pytest.param(b"Look.", "an image of 12 kB became text", id="a text"),
    ],
)
def test_a_changed_image_is_one_difference_of_all_cases_that_attach_it(
    project: Path, now: bytes, what: str
) -> None:
    lines = checked(project, FILES, {**FILES, "evals/shots/a.png": now})
    words = f"evals/shots/a.png: {what}"
    (line,) = (each for each in lines if each["kind"] == "text")
    assert (line["what"], line["file"]) == (words, "evals/shots/a.png")
    assert [each["id"] for each in line["cases"]] == ["a", "b"]
    if now.startswith((b"\x89PNG", b"GIF")):
        assert {each["key"] for each in lines} == {line["key"], None}
        assert [each["file"] for each in lines if each["key"] is None] == ["snapshots/files.lock"]
        media_type = "image/gif" if now.startswith(b"GIF") else "image/png"
        assert line["diff"] == f"@@\n-{facts(SMALL)}\n+{facts(now, media_type)}"
    done = run("snapshot", "evals", "--check", folder=project)
    assert f"{words} ({SUITE}: a, b)" in done.stdout.splitlines()
    done = run("snapshot", "evals", "--check", "--format", "github", folder=project)
    at = ",line=1" if now == b"Look." else ""  # only a text has lines
    assert f"file=evals/shots/a.png{at}::evals/shots/a.png: " in done.stdout
    done = run("snapshot", "evals", "--accept", line["key"], folder=project)
    assert (done.returncode, done.stderr) == (0, "")
    if now[:4] in (SMALL[:4], b"GIF8"):
        assert check(project) == []


def test_a_text_that_changes_too_is_a_difference_of_its_own(project: Path) -> None:
    now = {**FILES, "evals/shots/a.png": LARGE, SUITE: str(FILES[SUITE]).replace("Look", "See")}
    lines = checked(project, FILES, now)
    of_image = next(each["key"] for each in lines if each["kind"] == "text")
    of_text = next(each["key"] for each in lines if each["file"] == "snapshots/evals/s/a.yaml")
    keys = {each["file"]: each["key"] for each in lines}
    assert keys["snapshots/evals/s/b.yaml"] == of_image != of_text
    done = run("snapshot", "evals", "--check", folder=project)
    assert "-  Look:" in done.stdout
    assert "size" not in done.stdout


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param(("'Look:'",), ["-- image: evals/shots/a.png"], id="removed"),
        pytest.param(
            ("'Look:'", "shots/a.png", "shots/b.png"), ["+- image: evals/shots/b.png"], id="added"
        ),
        pytest.param(
            ("shots/a.png", "'Look:'"),
            ["+- image: evals/shots/a.png", "-- image: evals/shots/a.png"],
            id="moved",
        ),
        pytest.param(
            ("'Look:'", "shots/b.png"),
            ["-- image: evals/shots/a.png", "+- image: evals/shots/b.png"],
            id="another one",
        ),
        pytest.param(
            ("'Look:'", "'- image: evals/shots/a.png'"),
            ["-- image: evals/shots/a.png", "+  - image: evals/shots/a.png"],
            id="replaced by a text that looks like it",
        ),
    ],
)
def test_where_an_image_stands_is_compared(
    project: Path, content: tuple[str, ...], lines: list[str]
) -> None:
    then: Files = {SUITE: suite(case("a", "'Look:'", "shots/a.png")), "evals/shots/a.png": SMALL}
    now: Files = {SUITE: suite(case("a", *content)), "evals/shots/a.png": SMALL}
    write(project, {"evals/shots/b.png": SMALL})
    found = checked(project, then, now)
    (key,) = {each["key"] for each in found if each["file"] == "snapshots/evals/s/a.yaml"}
    assert key is not None
    shown = run("snapshot", "evals", "--check", folder=project).stdout.splitlines()
    changed = [line for line in shown if "image: evals" in line and line[0] in "+-"]
    assert [*dict.fromkeys(changed)] == lines  # the question has a text, too
    said = [each["what"] for each in found if each["kind"] == "text"]
    if any("b.png" in line for line in lines):
        assert said == ["evals/shots/b.png is new, with the bytes of evals/shots/a.png"]
    else:
        assert said == []


def test_images_of_a_suite_that_change_places_are_seen(project: Path) -> None:
    first, second = (data_uri(image(seed=seed)) for seed in (1, 2))
    assert len(image(seed=1)) == len(image(seed=2))

    def shown(*uris: str) -> Files:
        images = (f"{{type: image, value: '{uri}', name: n.png}}" for uri in uris)
        return {SUITE: suite(*map(case, "ab", images))}

    lines = checked(project, shown(first, second), shown(second, first))
    assert len({each["key"] for each in lines if each["kind"] == "changed"}) == 2
    known = [f"{digest(image(seed=seed))[:12]}…, image/png" for seed in (1, 2)]
    said = run("snapshot", "evals", "--check", folder=project).stdout
    assert all(f"- image: n.png, SHA-256 {each}" in said for each in known)
    assert re.search("[0-9a-f]{64}", said) is None
    lines = checked(project, shown(first, first), shown(second, second))
    (key,) = {each["key"] for each in lines}
    assert key is not None, "the same change in both cases is one difference"


def test_a_snapshot_whose_size_somebody_has_edited_differs_by_itself(project: Path) -> None:
    recorded(project, FILES)
    path = project / "snapshots/evals/s/a.yaml"
    path.write_text(path.read_text().replace("size: 12345", "size: 1"))
    (line,) = check(project)
    assert (line["kind"], line["key"] is None) == ("changed", False)
    shown = run("snapshot", "evals", "--check", folder=project).stdout
    assert "-      size: 1\n+      size: 12345" in shown
    run("snapshot", "evals", "--accept", line["key"], folder=project)
    assert check(project) == []


UNREADABLE = ("size", "sha256", "detail")  # without a number for it, or without a file


def test_a_wrong_piece_in_a_snapshot_is_compared(project: Path) -> None:
    recorded(project, FILES)
    path = project / "snapshots/evals/s/a.yaml"
    text = path.read_text()
    for wrong in ("size: x", "size: [1]", "type: {}", "image: 7", "sha256: 5", "detail: no"):
        key = wrong.partition(":")[0]
        line = f"      {key}: " if key in ("size", "type") else "    - image: "
        new = "\n".join(
            f"      {wrong}" if each.startswith(line) and key in ("size", "type") else each
            for each in text.split("\n")
        )
        if key in ("image", "sha256", "detail"):
            new = text.replace("    - image: evals/shots/a.png", f"    - {wrong}")
        path.write_text(new)
        kinds = [each["kind"] for each in check(project)]
        assert kinds == ["privilege"] * (key in UNREADABLE) + ["changed"], wrong


def test_a_snapshot_has_what_an_agent_is_sent_which_is_text(project: Path) -> None:
    write(project, {"targets.yaml": "targets: [{name: c, provider: codex}]\n"})
    recorded(project, FILES, "--target", "c")
    text = (project / "snapshots/evals/s/a.yaml").read_text()
    shown, _, sent = text.partition("\nsent:\n")
    assert shown.count("- image: evals/shots/a.png") == 1
    assert "image: evals" not in sent
    assert "        [image: shots/a.png]\n" in sent


def test_the_result_of_a_call_has_its_image_and_the_call(project: Path) -> None:
    result = "{role: tool, tool_call_id: c1, content: [{type: file, value: shots/a.png}]}"
    call = "{role: assistant, tool_calls: [{id: c1, name: look, arguments: {}}]}"
    said = f"[{{role: user, content: Look}}, {call}, {result}]"
    files: Files = {
        SUITE: f"evalcases:\n  - {{id: a, input_messages: {said}}}\n",
        "evals/shots/a.png": SMALL,
    }
    recorded(project, files)
    (document,) = read_documents((project / "snapshots/evals/s/a.yaml").read_text(), "")
    assert document.value["chat_prompt"][-1] == {
        "role": "tool",
        "content": [{"image": "evals/shots/a.png", "type": "image/png", "size": 12_345}],
        "tool_call_id": "c1",
    }
    write(project, {"evals/shots/a.png": LARGE})
    assert len({line["key"] for line in check(project)} - {None}) == 1


def report(tmp_path: Path, then: Files, now: Files) -> Report:
    (tmp_path / "r").mkdir(exist_ok=True)
    return report_of(tmp_path / "r", {**then, ".git/x": ""}, {**now, ".git/x": ""})


@pytest.mark.parametrize(
    "now",
    [
        {**FILES, "evals/shots/a.png": LARGE},
        {**FILES, "evals/shots/a.png": ALIKE},
        {**FILES, "evals/shots/a.png": LARGE, SUITE: str(FILES[SUITE]).replace("Look", "See")},
        {
            SUITE: str(FILES[SUITE]).replace("shots/a", "b"),
            "evals/b.png": SMALL,
            "evals/n.txt": "A note.",
        },
    ],
    ids=["another size", "the same size", "with a text", "another path"],
)
def test_a_report_has_the_differences_of_a_check(project: Path, tmp_path: Path, now: Files) -> None:
    lines = checked(project, FILES, now)
    found = report(tmp_path, FILES, now).changes
    assert {each.key for each in found} == {line["key"] for line in lines} - {None}
    texts = {line["what"] for line in lines if line["kind"] == "text"}
    assert {each.what for each in found if each.kind == "file"} == texts


def test_markdown_says_how_an_image_has_changed(tmp_path: Path) -> None:
    said = to_markdown(report(tmp_path, FILES, {**FILES, "evals/shots/a.png": LARGE})).decode()
    words = "<code>evals/shots/a.png&#58; image changed&#58; 12 kB to 14 kB</code>"
    assert said.startswith(f"## 2 cases changed; 1 cause: {words}\n")
    assert f"\n### {words}\n\n2 cases: <code>evals/s.eval.yaml&#58; a, b</code>\n" in said
    assert f"\n-{facts(SMALL)}\n+{facts(LARGE)}\n" in said
    assert "base64" not in said


def test_the_cause_of_a_change_is_the_image_and_no_other_change(tmp_path: Path) -> None:
    now = {**FILES, "evals/shots/a.png": LARGE, SUITE: str(FILES[SUITE]).replace("Look", "See")}
    found = report(tmp_path, FILES, now).comparisons
    words = "evals/shots/a.png: image changed: 12 kB to 14 kB"
    assert {each.case.id: each.causes for each in found} == {
        "a": (words, f"{SUITE} line 2: the messages of 'a'"),
        "b": (words,),
    }


def test_a_text_that_becomes_audio_is_said_to() -> None:
    sound = Media("audio", "audio/wav", 844, "0a")
    assert change_in_words("a", "Hi", sound) == "a: text became audio of 844 bytes"


READS = """\
import os, sys

log = os.open(os.environ["READS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".png"):
        os.write(log, f"{os.getpid()} {os.path.basename(arguments[0])}\\n".encode())

sys.addaudithook(note)
"""


def test_each_image_is_read_once_a_side(project: Path, tmp_path: Path) -> None:
    (project / ".git").rmdir()
    cases_ = (case(f"c{at}", "'Hi'", f"shots/{'ab'[at % 2]}.png") for at in range(20))
    text = suite(*cases_)
    write(project, {SUITE: text, "evals/shots/a.png": SMALL, "evals/shots/b.png": ALIKE})
    git(project, "init", "-q")
    commit(project)
    write(project, {SUITE: text.replace("'Hi'", "'Ho'"), "evals/shots/a.png": LARGE})
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook/sitecustomize.py").write_text(READS)
    log = tmp_path / "reads"

    def reads(*arguments: str) -> list[int]:
        """Return how often each process has opened each image."""
        log.write_text("")
        environment = {"PYTHONPATH": str(tmp_path / "hook"), "READS": str(log)}
        process = start(*arguments, folder=project, env={**os.environ, **environment})
        process.communicate(timeout=60)
        assert process.returncode in (0, 1)
        return sorted(Counter(log.read_text().splitlines()).values())

    assert reads("snapshot", "evals", "-q") == [1, 1]
    assert reads("snapshot", "evals", "--check", "-q") == [1, 1]
    page = ("report", "evals", "--against", "HEAD", "-q", "--output")
    for name, *options in (["r.html"], ["r.md", "--format", "markdown"]):
        assert reads(*page, name, *options) == [1, 1, 1, 1]

"""What made a result, in each of its lines."""

import asyncio
import json
import os
import re
import subprocess
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import multiturn
from batch_server import BatchServer, write_targets
from comparing import write
from loopback import Server
from multiturn import Case, Pipeline, RequestSettings, TestMessage
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.embed_files import embed_files
from multiturn_stages.extract_guidelines import extract_guidelines
from multiturn_stages.resolve_segments import resolve_segments
from repositories import commit, git
from running import by_id, records, run, write_suite, write_target

HOT = "- {id: hot, execution: {temperature: 1}, input_messages: [{role: user, content: Hi}]}\n"
SUITE = f"""\
evalcases:
- {{id: plain, input_messages: [{{role: user, content: Hi}}]}}
{HOT}- {{id: lost, input_messages: [{{role: user, content: [{{type: file, value: no.txt}}]}}]}}
- {{id: unread, input_messages: 3}}
"""
PLAIN = sha256(b'{"temperature":0.25}').hexdigest()
HOTTER = sha256(b'{"temperature":1.0}').hexdigest()


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    """A repository with a suite and a target, whose temperature is 0.25."""
    write(tmp_path, {"a.eval.yaml": SUITE})
    write_target(tmp_path, server, temperature=0.25)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def head(folder: Path) -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip()


def test_every_line_says_what_made_it(folder: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    run("a.eval.yaml", "--target", "az", "--output", "out.jsonl", folder=folder)
    after = datetime.now(UTC)
    dry = run("a.eval.yaml", "--target", "az", "--dry-run", folder=folder)
    results, shown = by_id(folder / "out.jsonl"), by_id(dry.stdout)
    assert sorted(results) == ["hot", "lost", "plain", "unread"]
    assert sorted(shown) == ["hot", "lost", "plain"]
    digest = None
    for lines in (results, shown):
        for line in lines.values():
            made = dict(line["made"])
            time = datetime.fromisoformat(made.pop("time"))
            assert time.utcoffset() is not None
            assert lines is shown or before <= time <= after
            digest = digest or made["pipeline_digest"]
            settings = {"plain": PLAIN, "hot": HOTTER}.get(line["id"])
            assert made == {
                "provider": "azure",
                "model": "gpt-x",
                "pipeline": "spec",
                "pipeline_digest": digest,
                "settings_digest": settings,
                "revision": head(folder),
                "version": multiturn.__version__,
            }


@pytest.mark.parametrize(("caching", "said"), [("1h", "1h"), (True, None), (False, None)])
def test_a_line_says_that_a_cache_keeps_prompts_for_an_hour(
    folder: Path, caching: bool | str, said: str | None
) -> None:
    target = {"name": "c", "provider": "anthropic", "api_key": "key-4711", "model": "claude-x"}
    targets = {"targets": [{**target, "prompt_caching": caching}]}
    (folder / "targets.yaml").write_text(json.dumps(targets))
    dry = run("a.eval.yaml", "--target", "c", "--dry-run", folder=folder)
    assert by_id(dry.stdout)["plain"]["made"].get("prompt_caching") == said


def test_the_time_is_that_of_sending(folder: Path, server: Server) -> None:
    """With --strict all requests are made before the first is sent."""
    write_suite(folder, ["one", "two"])
    write_target(folder, server)  # without a setting that nobody knows of the model
    server.stall(seconds=1.1)
    given = ("a.eval.yaml", "--target", "az", "--output", "out.jsonl")
    run(*given, "--strict", "--concurrency", "1", folder=folder)
    times = [line["made"]["time"] for line in records(folder / "out.jsonl")]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) for time in times)
    first, second = map(datetime.fromisoformat, times)
    assert (second - first).total_seconds() >= 1


def test_the_settings_that_a_case_says_are_in_what_was_asked(folder: Path) -> None:
    run("a.eval.yaml", "--target", "az", "--output", "out.jsonl", folder=folder)
    asked = {id_: line["raw_request"] for id_, line in by_id(folder / "out.jsonl").items()}
    assert asked["hot"]["settings"] == {"temperature": 1.0}
    assert "settings" not in asked["plain"]


def test_the_digest_of_a_pipeline_is_of_its_stages_and_their_options(folder: Path) -> None:
    """The name of the pipeline, and the order of its options, are not in it."""
    pipeline = "stages: [resolve_segments, extract_guidelines, consolidate_system, {embed_files: {"
    write(folder, {"p.yaml": f"{pipeline}header: '# {{path}}', system_header: ~}}}}]\n"})
    write(folder, {"q.yaml": f"{pipeline}system_header: ~, header: '# {{path}}'}}}}]\n"})
    write(folder, {"r.yaml": f"{pipeline}header: '## {{path}}', system_header: ~}}}}]\n"})
    names = ("resolve_segments", "extract_guidelines", "consolidate_system", "embed_files")
    stages: list[Any] = [[f"multiturn_stages.{name}", name, {}] for name in names]
    stages[3][2] = {"header": "# {path}", "system_header": None}
    expected = sha256(json.dumps(stages, separators=(",", ":")).encode()).hexdigest()
    found = {}
    for name in ("p.yaml", "q.yaml", "r.yaml"):
        done = run("a.eval.yaml", "--pipeline", name, "--case", "plain", folder=folder)
        (line,) = records(done.stdout)
        assert line["made"]["pipeline"] == name
        found[name] = line["made"]["pipeline_digest"]
    assert found["p.yaml"] == found["q.yaml"] == expected
    assert found["r.yaml"] != expected


def test_git_is_asked_once_for_a_run(folder: Path, tmp_path: Path) -> None:
    """A failure is null."""
    write_suite(folder, map(str, range(50)))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/git"
    program.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\nexit 1\n")
    program.chmod(0o755)
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    run("a.eval.yaml", "--output", "out.jsonl", folder=folder, env={"PATH": path})
    assert (tmp_path / "asked").read_text() == "asked\n"
    assert [line["made"]["revision"] for line in records(folder / "out.jsonl")] == [None] * 50


@pytest.mark.parametrize("path", [None, "/no-such-folder"])
def test_without_a_repository_or_git_the_revision_is_null(tmp_path: Path, path: str | None) -> None:
    write_suite(tmp_path, ["Hi"])
    if path is not None:
        git(tmp_path, "init", "-q")
        commit(tmp_path)
    done = run("a.eval.yaml", folder=tmp_path, env={"PATH": path} if path else None)
    (line,) = records(done.stdout)
    assert (line["made"]["provider"], line["made"]["model"]) == ("echo", None)
    assert line["made"]["revision"] is None


class Mine:
    name = "mine"

    async def invoke(self, request: multiturn.ProviderRequest) -> multiturn.ProviderResponse:
        return multiturn.ProviderResponse(text="Ho")


def test_results_in_python_have_it_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    settings = RequestSettings(seed=7)
    case = Case(id="a", input_messages=(TestMessage("user", "Hi"),), settings=settings)
    pipeline = Pipeline(
        [resolve_segments, extract_guidelines, consolidate_system, embed_files], name="house"
    )

    async def answers() -> list[multiturn.Result]:
        return [result async for result in multiturn.run([case], pipeline, Mine())]

    (result,) = asyncio.run(answers())
    (dry,) = multiturn.dry_run([case], pipeline, Mine())
    for made in (result.made, dry.result.made):
        assert (made.provider, made.model, made.pipeline) == ("mine", None, "house")
        assert made.settings_digest == sha256(b'{"seed":7}').hexdigest()
        assert (made.revision, made.version) == (head(folder), multiturn.__version__)
        assert made.time is not None
        assert abs(datetime.now(UTC) - made.time).total_seconds() < 60


def test_the_results_of_a_batch_say_what_sent_them(
    tmp_path: Path, batch_server: BatchServer
) -> None:
    """Also if another commit is checked out when they arrive."""
    write_targets(tmp_path, batch_server)
    write_suite(tmp_path, ["one", "two"])
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    sent_at = head(tmp_path)
    given = ("a.eval.yaml", "--target", "openai", "--batch", "--output", "out.jsonl")
    batch_server.lag = 2
    run(*given, "--no-wait", folder=tmp_path)
    write(tmp_path, {"other.txt": "x"})
    commit(tmp_path)
    assert head(tmp_path) != sent_at
    run(*given, "--resume", "--poll", "0.001", folder=tmp_path)
    lines = records(tmp_path / "out.jsonl")
    assert [line["made"]["revision"] for line in lines] == [sent_at] * 2
    assert {line["made"]["provider"] for line in lines} == {"openai"}

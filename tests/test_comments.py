"""The comment on a pull request, and on a merge request of GitLab: one, updated with each push.

The workflow's script runs in Node with GitHub's own client, the job of GitLab in gitlab-ci-local;
both talk to a server on the loopback interface that has the comments.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import npm
from multiturn.documents.yaml_reader import read_documents
from repositories import TONE, commit, git, replace

ROOT = Path(__file__).parent.parent
BOT = "github-actions[bot]"
OCTOKIT = "@octokit/rest@20.1.1"  # of the generation that actions/github-script has
GITLAB = "gitlab-ci-local@4.61.0"
NODE = """
const { Octokit } = require('@octokit/rest')
const context = { repo: { owner: 'g', repo: 'p' }, issue: { number: 7 } }
const AsyncFunction = (async () => {}).constructor
const script = new AsyncFunction('github', 'context', 'require', process.env.SCRIPT)
script(new Octokit({ baseUrl: process.env.URL }), context, require)
"""


class Forge(ThreadingHTTPServer):
    """Has the comments of one pull request, in pages as they are asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.comments: list[dict[str, Any]] = []
        self.owner = BOT  # of the token

    def add(self, author: str, body: str) -> dict[str, Any]:
        number = len(self.comments) + 1
        user = {"login": author, "id": author}
        self.comments.append({"id": number, "user": user, "author": user, "body": body})
        return self.comments[-1]

    def bodies(self, author: str) -> list[str]:
        return [each["body"] for each in self.comments if each["user"]["login"] == author]


class Handler(BaseHTTPRequestHandler):
    """Answers as both APIs do, at their paths and no others."""

    server: Forge
    paths = ("/repos/g/p/issues/7/comments", "/projects/1/merge_requests/7/notes")
    one = ("/repos/g/p/issues/comments", paths[1])

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/user":
            assert self.headers["PRIVATE-TOKEN"] == "token"
            return self.say({"id": BOT})
        assert url.path in self.paths
        query = parse_qs(url.query)
        size, page = (int(query.get(key, [usual])[0]) for key, usual in USUAL.items())
        found = self.server.comments[size * (page - 1) : size * page]
        more = f'<{self.server.url}{url.path}?per_page={size}&page={page + 1}>; rel="next"'
        return self.say(found, more if size * page < len(self.server.comments) else "")

    def do_POST(self) -> None:
        if self.path == "/graphql":  # which also the token of an App may ask whose it is
            assert self.given() == {"query": "{viewer {login}}"}
            return self.say({"data": {"viewer": {"login": self.server.owner}}})
        assert self.path in self.paths
        return self.say(self.server.add(self.server.owner, self.body()))

    def do_PATCH(self) -> None:
        place, _, number = self.path.rpartition("/")
        assert place in self.one
        self.server.comments[int(number) - 1]["body"] = self.body()
        self.say({})

    do_PUT = do_PATCH  # noqa: N815 - the name that http.server looks for

    def given(self) -> dict[str, Any]:
        given: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return given

    def body(self) -> str:
        body = self.given()["body"]
        assert isinstance(body, str)
        return body

    def say(self, answer: Any, link: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Link", link)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        pass


USUAL = {"per_page": "30", "page": "1"}
Push = Callable[[str], None]


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as forge:
        thread = Thread(target=forge.serve_forever, args=(0.01,))
        thread.start()
        yield forge
        forge.shutdown()
        thread.join()


def loaded(path: str) -> Any:
    (document,) = read_documents((ROOT / path).read_bytes(), path)
    return document.value


@pytest.fixture
def push(
    request: pytest.FixtureRequest, forge: Forge, repository: Path, pytestconfig: pytest.Config
) -> Push:
    """Return what does to a pull request what the example does, with a report of this text."""

    def to_github(text: str) -> None:
        (repository / "prompts.md").write_text(text, encoding="utf-8")
        workflow = loaded("pipeline/multiturn/cli/first/prompts.yml")
        steps = workflow["jobs"]["comment"]["steps"]
        (script,) = (step["with"]["script"] for step in steps if "script" in step.get("with", {}))
        command = ("node", "-e", NODE)
        modules = str(npm.modules(OCTOKIT, pytestconfig))
        given = {**workflow["env"], "NODE_PATH": modules, "SCRIPT": script, "URL": forge.url}
        run(command, repository, **given)

    def to_gitlab(text: str) -> None:
        variables = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(repository, "rev-parse", "main").strip(),
            "CI_MERGE_REQUEST_IID": "7",
            "CI_PROJECT_ID": "1",
            "CI_API_V4_URL": forge.url,
            "MULTITURN_TOKEN": "token",
        }
        if (repository / "prompts.md").exists():  # the whole job runs once: it takes its time
            (repository / "prompts.md").write_text(text, encoding="utf-8")
            script = loaded("docs/gitlab-ci.yml")["prompts"]["after_script"][-1]
            run(("sh", "-c", script), repository, **variables)
            return
        replace(repository, TONE, "Two.", f"Two. {text}")
        run((sys.executable, "-m", "multiturn", "snapshot", "evals"), repository)
        commit(repository)
        program = npm.installed(GITLAB, "gitlab-ci-local", pytestconfig)
        given = (f"--variable={key}={value}" for key, value in variables.items())
        path = os.pathsep.join((str(shims), str(Path(sys.executable).parent), os.environ["PATH"]))
        # Bash may read ~/.bashrc, where its input is a socket, and put other programs first.
        home = str(repository.parent)
        run(
            (program, "--force-shell-executor", *given, "prompts"), repository, PATH=path, HOME=home
        )

    if request.param == "github":
        return to_github
    shims = repository.parent / "shims"
    shims.mkdir()
    for name in ("pip", "rsync"):  # multiturn is here, and no container gets files
        (shims / name).write_text("#!/bin/sh\n")
        (shims / name).chmod(0o755)
    git(repository, "remote", "add", "origin", "git@gitlab.example:g/p.git")
    git(repository, "checkout", "-q", "-b", "change")
    shutil.copy(ROOT / "docs/gitlab-ci.yml", repository / ".gitlab-ci.yml")
    return to_gitlab


def run(command: tuple[str | Path, ...], folder: Path, **more: str) -> None:
    environment = {**os.environ, **more}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("push", "marker"),
    [("github", "<!-- multiturn ./evals -->"), ("gitlab", "<!-- multiturn -->")],
    indirect=["push"],
)
def test_the_comment_is_updated_and_not_repeated(push: Push, marker: str, forge: Forge) -> None:
    forge.add("ada", f"{marker}\nan imitation")
    forge.comments *= 40  # ours will be on the next page
    forge.add(BOT, "another workflow's")
    push("Größe")
    assert set(forge.bodies("ada")) == {f"{marker}\nan imitation"}
    other, ours = forge.bodies(BOT)
    assert (other, ours.split("\n")[0]) == ("another workflow's", marker)
    assert "Größe" in ours
    push("Breite")
    other, again = forge.bodies(BOT)
    assert other == "another workflow's"
    assert again.startswith(f"{marker}\n")
    assert "Breite" in again

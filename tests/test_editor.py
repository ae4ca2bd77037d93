"""The schemas in a real editor's back end: yaml-language-server, spoken to over its pipes."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import npm
from multiturn.cli.schemas import SCHEMAS

DRAWN = {kind: schema() for kind, schema in SCHEMAS.items()}  # before tests install stages
PACKAGE = "yaml-language-server@2.0.0"


class Editor:
    """What an editor does: it opens a file, reads what is underlined, and asks what may follow."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )
        self.timer = threading.Timer(120, self.process.kill)  # else a mute server is waited for
        self.timer.start()
        self.number = 0
        self.request("initialize", processId=os.getpid(), rootUri=folder.as_uri(), capabilities={})
        self.send(method="initialized", params={})
        settings = {"yaml": {"schemaStore": {"enable": False}}}  # it is on the network
        self.send(method="workspace/didChangeConfiguration", params={"settings": settings})

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self) -> Any:
        """Return the next message; what the server asks is answered with nothing."""
        stream = self.process.stdout
        assert stream is not None
        headers = [line.lower() for line in iter(lambda: stream.readline().strip(), b"")]
        (length,) = (int(line[15:]) for line in headers if line.startswith(b"content-length:"))
        message = json.loads(stream.read(length))
        if "id" in message and "method" in message:
            items = (message.get("params") or {}).get("items")  # settings it would like to know
            self.send(id=message["id"], result=items and [None] * len(items))
        return message

    def request(self, method: str, **params: Any) -> Any:
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        while (message := self.receive()).get("id") != self.number or "method" in message:
            pass
        return message["result"]

    def open(self, kind: str, text: str) -> tuple[str, list[str]]:
        """Open a text that names a schema; return its address, and what is said of it."""
        self.number += 1
        uri = (self.folder / f"{self.number}.yaml").as_uri()
        text = f"# yaml-language-server: $schema={kind}.schema.json\n{text}"
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.send(method="textDocument/didOpen", params={"textDocument": document})
        while True:
            said = self.receive().get("params") or {}
            if "diagnostics" in said and said["uri"] == uri:
                return uri, [mark["message"] for mark in said["diagnostics"]]

    def offered(self, kind: str, text: str) -> dict[str, str]:
        """Return what may stand at the end of a text, each with what is said of it."""
        uri, _ = self.open(kind, text)
        *above, line = text.split("\n")
        place = {"line": len(above) + 1, "character": len(line)}
        answer = self.request("textDocument/completion", textDocument={"uri": uri}, position=place)
        about = {item["label"]: item.get("documentation", "") for item in answer["items"]}
        return {
            key: said["value"] if isinstance(said, dict) else said for key, said in about.items()
        }


@pytest.fixture(scope="module")
def editor(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Editor]:
    server = npm.installed(PACKAGE, "yaml-language-server", pytestconfig)
    folder = tmp_path_factory.mktemp("editor")
    for kind, schema in DRAWN.items():
        (folder / f"{kind}.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    editor = Editor([str(server), "--stdio"], folder)
    yield editor
    editor.request("shutdown")
    editor.timer.cancel()
    editor.process.kill()
    editor.process.communicate()


CASE = "evalcases:\n  - id: a\n    %s: [{role: user, content: %s}]\n"
TARGET = "- name: t\n  provider: codex\n  timeout_seconds: soon\n"


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("suite", CASE % ("input_messages", "yes"), []),  # yes is text
        (
            "suite",
            CASE % ("outcom: x\n    input_messages", "true"),
            [
                "Incorrect type. Expected one of string, array, object.",
                "Property outcom is not allowed.",
            ],
        ),
        ("targets", TARGET, ["must be of type number, or a variable: ${{ NAME }}"]),
    ],
)
def test_an_error_is_said_where_a_text_is_written(
    editor: Editor, kind: str, text: str, said: list[str]
) -> None:
    """test_json_schema.py says what is an error, and where."""
    assert sorted(editor.open(kind, text)[1]) == said


@pytest.mark.parametrize(
    ("kind", "text", "offered", "not_offered"),
    [
        ("suite", "", {"evalcases": "the cases."}, "messages"),  # a key of other tools
        (
            "pipeline",
            "extends: spec\nconfigure:\n  embed_files:\n    ",
            {"header": "the line above the text; `{path}` is the path as written. Empty: no line."},
            "path",
        ),
        (
            "targets",
            "- name: t\n  provider: google\n  ",
            {"base_url": "of a gateway; null for Google's own."},
            "endpoint",
        ),
    ],
)
def test_what_may_follow_is_offered_with_what_it_means(
    editor: Editor, kind: str, text: str, offered: dict[str, str], not_offered: str
) -> None:
    found = editor.offered(kind, text)
    assert found.items() >= offered.items()
    assert not_offered not in found

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
        length = 0
        while line := stream.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server has ended"
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

    def open(self, kind: str, text: str) -> tuple[str, Any]:
        """Open a text that names a schema; return its address, and what is underlined."""
        self.number += 1
        uri = (self.folder / f"{self.number}.yaml").as_uri()
        text = f"# yaml-language-server: $schema={kind}.schema.json\n{text}"
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.send(method="textDocument/didOpen", params={"textDocument": document})
        while True:
            message = self.receive()
            said = message.get("params") or {}
            if "diagnostics" in said and said["uri"] == uri:
                return uri, said["diagnostics"]

    def underlined(self, kind: str, text: str) -> dict[str, str]:
        """Return each piece of a text that is underlined, with what is said of it."""
        lines = ["", *text.splitlines()]
        found = {}
        for mark in self.open(kind, text)[1]:
            start, end = mark["range"]["start"], mark["range"]["end"]
            piece = lines[start["line"]][start["character"] : end["character"]]
            found[piece] = mark["message"]
        return found

    def offered(self, kind: str, text: str) -> dict[str, str]:
        """Return what may stand at the ``|`` of a text, each with what is said of it."""
        before, _, after = text.partition("|")
        uri, _ = self.open(kind, before + after)
        line = before.rpartition("\n")[2]
        place = {"line": before.count("\n") + 1, "character": len(line)}
        answer = self.request("textDocument/completion", textDocument={"uri": uri}, position=place)
        said = {}
        for item in answer["items"]:
            about = item.get("documentation", "")
            said[item["label"]] = about["value"] if isinstance(about, dict) else about
        return said

    def close(self) -> None:
        """End the server."""
        self.request("shutdown")
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()


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
    editor.close()


CASE = """\
evalcases:
  - id: a
    input_messages:
      - role: user
        content: Hi
"""


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        pytest.param("suite", CASE.replace("Hi", "yes"), {}, id="nothing wrong: yes is text"),
        pytest.param(
            "suite",
            CASE.replace("Hi", "true").replace("    input", "    outcom: x\n    input"),
            {
                "outcom": "Property outcom is not allowed.",
                "true": "Incorrect type. Expected one of string, array, object.",
            },
            id="a key and a type of a suite",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nconfigure:\n  embed_files: {heder: x}\n",
            {"heder": "Property heder is not allowed."},
            id="an option",
        ),
        pytest.param(
            "targets",
            "- name: t\n  provider: codex\n  exe: x\n  timeout_seconds: soon\n",
            {
                "exe": "Property exe is not allowed.",
                "soon": "must be of type number, or a variable: ${{ NAME }}",
            },
            id="settings",
        ),
    ],
)
def test_what_is_wrong_is_underlined(
    editor: Editor, kind: str, text: str, found: dict[str, str]
) -> None:
    assert editor.underlined(kind, text) == found


@pytest.mark.parametrize(
    ("kind", "text", "offered", "not_offered"),
    [
        pytest.param(
            "suite",
            "|",
            {"evalcases": "the cases.", "input_messages": "the conversation."},
            "messages",
            id="at the top, without the keys of other tools",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nconfigure:\n  embed_files:\n    |",
            {"header": "the line above the text; `{path}` is the path as written. Empty: no line."},
            "",
            id="an option",
        ),
        pytest.param(
            "targets",
            "- name: t\n  provider: google\n  |",
            {"base_url": "of a gateway; null for Google's own."},
            "endpoint",
            id="a setting of the provider",
        ),
    ],
)
def test_what_may_follow_is_offered_with_what_it_means(
    editor: Editor, kind: str, text: str, offered: dict[str, str], not_offered: str
) -> None:
    found = editor.offered(kind, text)
    assert found.items() >= offered.items()
    assert not_offered not in found

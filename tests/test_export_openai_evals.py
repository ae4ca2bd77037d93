"""The program of docs/from-openai-evals.md saves all that the API has, and makes suites of it."""

import importlib.util
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from email.utils import formatdate
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock
from urllib.parse import quote

import msgspec
import pytest

import commands
from evals_server import (
    CLASSIFY,
    EvalsServer,
    add_tickets,
    asked,
    custom,
    everything,
    sample,
    string_check,
    texts_of,
)
from loopback import KEY, Server, Step
from multiturn.providers.results import Result

PROGRAM = Path(__file__).parent.parent / "docs/export_openai_evals.py"
ITEMS = int(os.environ.get("EXPORTED_ITEMS", "1500"))  # make test-tools: 20,000
KILLS = int(os.environ.get("EXPORT_KILLS", "6"))  # and 40


@pytest.fixture
def server() -> Iterator[EvalsServer]:
    with EvalsServer() as found:
        yield found


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("export_openai_evals", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


MODULE = _loaded()


@pytest.fixture
def module() -> ModuleType:
    return MODULE


def environment(server: Server | None, key: str | None = KEY) -> dict[str, str]:
    """Return what the program gets of the environment: nothing of multiturn's."""
    env = {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", "PYTHONIOENCODING": "utf-8"}
    if server is not None:
        env["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return {**env, "OPENAI_API_KEY": key} if key is not None else env


def start(
    folder: Path, server: Server | None, *words: str, key: str | None = KEY, **more: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-W", "error", str(PROGRAM), *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    env = {**environment(server, key), **more}
    return subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def run(folder: Path, server: Server | None, *words: str, key: str | None = KEY) -> tuple[int, str]:
    """Run the program inside this process, and return its exit code and what it prints."""
    said, env = io.StringIO(), environment(server, key)
    with (
        chdir(folder),
        mock.patch.dict(os.environ, env, clear=True),
        redirect_stdout(said),
        redirect_stderr(said),
    ):
        try:
            code = MODULE.main([*words])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
            said.write(f"{end.code}\n" if code == 1 else "")
    assert KEY not in said.getvalue()
    return code, said.getvalue()


def saved(folder: Path) -> list[Any]:
    """Return each output item that was saved; each line is whole."""
    found = []
    for path in sorted(logs_in(folder)):
        data = path.read_bytes()
        assert data.endswith(b"\n") or not data
        found += [json.loads(line) for line in data.splitlines()]
    return found


def logs_in(folder: Path) -> list[Path]:
    return [*folder.glob("openai-evals/*/*.jsonl")]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def by_id(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda value: str(value["id"]))


def index(folder: Path) -> Any:
    return json.loads((folder / "openai-evals/index.json").read_text())


def one(server: EvalsServer, item: Any, messages: Any, answer: str, **keys: Any) -> str:
    """Give the server an eval with one run, and an item in it; return the id of the run."""
    eval_id = server.add_eval("one", custom(), string_check("{{item.answer}}"))
    run_id = server.add_run(
        eval_id, "one", {"type": "completions", "source": {"type": "responses"}}
    )
    server.add_item(run_id, item, sample(messages, answer), **keys)
    return run_id


# --- download ---


def test_killed_again_and_again_it_has_everything_once(tmp_path: Path) -> None:
    chance = random.Random(4)
    with everything(ITEMS) as server:
        server.faults = random.Random(5)
        most = 8 + 2 * ITEMS // 100 // KILLS  # requests: the listings, and some pages of items
        unfinished = 0
        for _ in range(KILLS):
            process = start(tmp_path, server, "download")
            end = len(server.requests) + chance.randint(1, most)
            while len(server.requests) < end and process.poll() is None:
                time.sleep(0.0005)
            time.sleep(chance.uniform(0, 0.01))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            unfinished += sum(path.read_bytes().count(b"\n") for path in logs_in(tmp_path)) < ITEMS
        assert unfinished > KILLS // 2
        for _ in range(20):  # as somebody does who is told to run it again
            code, said = run(tmp_path, server, "download")
            if "item" not in said.partition("Not saved")[2]:
                break
        assert {"429", "503", "cut", "repeat"} <= server.left.keys()
        server.faults = None
        server.requests.clear()
        code, said = run(tmp_path, server, "download")
        assert len(server.requests) == 1 + 3 + 6 + 2  # evals, runs, items, a file that is gone
    assert code == 1
    assert said.splitlines()[-4:] == [
        f"Saved in openai-evals/: 3 evals, 6 runs, {ITEMS + 15:,} output items, 1 file",
        "Not saved, or not as the API describes it:",
        "  file file-Gone: HTTP 404: Not found: /v1/files/file-Gone/content",
        "Run the same command again to try these again; what is saved stays.",
    ]
    assert by_id(saved(tmp_path)) == by_id([*texts_of(server)])
    folder = tmp_path / "openai-evals"
    assert (folder / "files/file-Questions1.content").read_bytes() == server.files[
        "file-Questions1"
    ][1]
    assert (
        json.loads((folder / "files/file-Questions1.json").read_text())
        == server.files["file-Questions1"][0]
    )
    evals = [json.loads(path.read_text()) for path in folder.glob("*/eval.json")]
    assert by_id(evals) == by_id(server.evals)
    runs = [json.loads(path.read_text()) for path in folder.glob("*/*.run.json")]
    assert by_id(runs) == by_id([each for found in server.runs.values() for each in found])
    found = index(tmp_path)
    assert found["counts"] == {"evals": 3, "runs": 6, "output_items": ITEMS + 15, "files": 1}
    assert found["complete"] is False
    assert not any(KEY in path.read_text() for path in folder.rglob("*") if path.is_file())


def test_the_replies_of_the_server_are_of_the_types_of_the_sdk() -> None:
    """The SDK's types want an error object, and the API's own example has null."""
    from openai.types import EvalListResponse, FileObject  # takes a second
    from openai.types.evals import RunListResponse
    from openai.types.evals.runs import OutputItemListResponse
    from pydantic import TypeAdapter

    server = everything(3)
    try:
        for each in server.evals:
            TypeAdapter(EvalListResponse).validate_python(each)
        for found in server.runs.values():
            for run in found:
                error = run["error"] or {"code": "", "message": ""}
                TypeAdapter(RunListResponse).validate_python({**run, "error": error})
        for item in texts_of(server):
            if item["sample"] is not None:
                error = item["sample"]["error"] or {"code": "", "message": ""}
                messages = [{**m, "content": m["content"] or ""} for m in item["sample"]["input"]]
                typed = {**item["sample"], "error": error, "input": messages}
                TypeAdapter(OutputItemListResponse).validate_python({**item, "sample": typed})
        for about, _ in server.files.values():
            TypeAdapter(FileObject).validate_python(about)
    finally:
        server.server_close()


def test_a_line_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    with everything(120) as server:
        run(tmp_path, server, "download")
        path = tmp_path / "openai-evals/eval_stored/evalrun_many.items.jsonl"
        whole = path.read_bytes()
        for end in (0, 1, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:end])
            run(tmp_path, server, "download")
            assert path.read_bytes() == whole


def test_new_evals_runs_and_items_come_with_the_next_download(
    tmp_path: Path, server: EvalsServer
) -> None:
    add_tickets(server)
    code, said = run(tmp_path, server, "download")
    assert (code, said.splitlines()[-1]) == (
        0,
        "Saved in openai-evals/: 1 eval, 1 run, 3 output items, 0 files",
    )
    assert index(tmp_path)["complete"] is True
    server.add_item("evalrun_tickets", {"ticket_text": "Hi"}, None)
    one(server, {}, asked("", "Hi"), "Hello")
    code, said = run(tmp_path, server, "download")
    assert (code, len(saved(tmp_path))) == (0, 5)


def test_numbers_and_texts_are_as_the_api_gave_them(tmp_path: Path, server: EvalsServer) -> None:
    run_id = one(server, {}, [], "")
    numbers = "[12345678901234567890123456789, 1.10, 1E400, -0, 0.1000000000000000055511, 1e-7]"
    item = (
        f'{{"numbers": {numbers}, "text": "\\u00e9\\ud83d\\ude00 \\ud800 \\u2028 \\u0000", "": []}}'
    )
    text = json.dumps(server.items[run_id][0]).replace(
        '"datasource_item": {}', f'"datasource_item": {item}'
    )
    server.items[run_id][0] = text
    code, _ = run(tmp_path, server, "download")
    path = tmp_path / "openai-evals/eval_one/evalrun_one.items.jsonl"
    written = path.read_text(encoding="utf-8")
    assert code == 0
    assert numbers.replace(" ", "") in written
    assert json.loads(written) == json.loads(text)


def test_an_item_that_the_api_cannot_give_costs_no_other(tmp_path: Path) -> None:
    with everything(250) as server:
        server.poison = {"outputitem_many_123"}
        server.then(Step(server.act, {"retry-after": "0"}), None)
        code, said = run(tmp_path, server, "download")
        items = {each["id"] for each in texts_of(server)} - server.poison
        assert {each["id"] for each in saved(tmp_path)} == items
        assert len(saved(tmp_path)) == 250 + 15 - 1
        assert code == 1
        assert "what comes after outputitem_many_122: HTTP 500: The server had an error" in said
        assert "what comes before outputitem_many_124: HTTP 500" in said
        assert "run evalrun_many: the API counts 250 items and gave 249" in said
        run(tmp_path, server, "suites")
        suite = tmp_path / "evals/eval_stored/evalrun_many.eval.jsonl"
        assert len(lines(suite)) == 250  # the row of its data has the item that is missing
        server.poison = set()
        code, said = run(tmp_path, server, "download")
        assert "counts" not in said
        assert by_id(saved(tmp_path)) == by_id([*texts_of(server)])


@pytest.mark.parametrize("levels", [250, 400, 5000])
def test_an_item_of_many_levels_costs_no_other(
    tmp_path: Path, server: EvalsServer, levels: int
) -> None:
    add_tickets(server)
    items = server.items["evalrun_tickets"]
    deep = f'{{"deep": {"[" * levels}{"]" * levels}}}'
    items[1] = re.sub(
        r'"datasource_item": \{.*?\}', lambda _: f'"datasource_item": {deep}', json.dumps(items[1])
    )
    code, said = run(tmp_path, server, "download")
    assert (code, len(saved(tmp_path))) == ((0, 3) if levels < 300 else (1, 2))
    assert ("nested deeper than 300 levels" in said) == (levels > 300)
    assert run(tmp_path, server, "suites")[1].count("nested deeper than 90 levels") == (
        levels < 300
    )


def test_pages_that_repeat_without_end_are_named(tmp_path: Path, server: EvalsServer) -> None:
    add_tickets(server)
    stuck = {"object": "list", "data": [server.items["evalrun_tickets"][0]], "has_more": True}
    find = server.find
    server.find = lambda path, query: (  # type: ignore[method-assign]
        (200, stuck) if path.endswith("output_items") else find(path, query)
    )
    code, said = run(tmp_path, server, "download")
    assert code == 1
    assert "output_items: pages repeat after outputitem_tickets_0" in said
    assert "the API counts 3 items and gave 1" in said
    assert len(saved(tmp_path)) == 1


def test_each_page_may_repeat_once(
    tmp_path: Path, server: EvalsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = one(server, {}, asked("", "Hi"), "Hello")
    for _ in range(19 * 100):
        server.add_item(run_id, {}, None)
    find, pages = server.find, iter(range(100))

    def found(path: str, query: dict[str, str]) -> Any:
        if path.endswith("output_items") and next(pages) % 2:
            query = {**query, "after": "outputitem_one_0"}
        return find(path, query)

    monkeypatch.setattr(server, "find", found)
    assert run(tmp_path, server, "download")[0] == 0
    assert saved(tmp_path) == server.items[run_id]


def test_an_item_that_is_deleted_after_a_download_stays(
    tmp_path: Path, server: EvalsServer
) -> None:
    add_tickets(server)
    run(tmp_path, server, "download")
    before = saved(tmp_path)
    del server.items["evalrun_tickets"][2]
    server.add_item("evalrun_tickets", {}, None, id="outputitem_new")
    assert run(tmp_path, server, "download")[0] == 0
    assert saved(tmp_path) == [*before, server.items["evalrun_tickets"][-1]]


def test_a_file_that_breaks_off_is_asked_for_again(
    tmp_path: Path, server: EvalsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"type": "jsonl", "source": {"type": "file_id", "id": "file-1"}}
    server.add_run(server.add_eval("one", custom()), "one", source)
    server.add_file("file-1", b"0123456789" * 10)
    broken = Step(server.act, end=50)
    steps = iter([broken, Step(server.act)])
    take = server.take
    monkeypatch.setattr(
        server, "take", lambda each: next(steps) if "content" in each.path else take(each)
    )
    assert run(tmp_path, server, "download")[0] == 0
    assert (tmp_path / "openai-evals/files/file-1.content").read_bytes() == b"0123456789" * 10


def test_odd_objects_are_saved_and_named(tmp_path: Path, server: EvalsServer) -> None:
    eval_id = server.add_eval("odd", {"type": "dreams"}, {"type": "oracle", "name": "x"})
    run_id = server.add_run(eval_id, "odd", {"type": "video", "source": {"type": "tape"}})
    nothing = {"object": "eval.run.output_item", "note": "without an id"}
    server.items[run_id] = [nothing, ["a", "list"], 5, {"object": "other", "id": "x_1"}]
    code, said = run(tmp_path, server, "download")
    assert code == 1
    assert saved(tmp_path) == server.items[run_id]
    for what in (
        "eval eval_odd has data_source_config of the unknown type 'dreams'",
        "eval eval_odd has testing_criteria of the unknown type 'oracle'",
        "run evalrun_odd has data_source of the unknown type 'video'",
        "run evalrun_odd has source of the unknown type 'tape'",
        "run evalrun_odd: item None has no id",
        "run evalrun_odd: item x_1 is of the unknown kind 'other'",
    ):
        assert f"  {what}; it is saved as it came\n" in said
    assert run(tmp_path, server, "download")[0] == 1
    assert saved(tmp_path) == server.items[run_id]


def test_ids_never_become_paths(tmp_path: Path, server: EvalsServer) -> None:
    (tmp_path / "in").mkdir()
    eval_id = server.add_eval("x", custom())
    server.evals[0]["id"] = "../../out"
    server.runs = {"..%2F..%2Fout": server.runs[eval_id]}
    source = {"type": "jsonl", "source": {"type": "file_id", "id": "../../../file"}}
    server.add_run("..%2F..%2Fout", "x", source, id="/etc/x/../y")
    server.items = {"%2Fetc%2Fx%2F..%2Fy": [{"id": "con", "object": "eval.run.output_item"}]}
    server.files = {"..%2F..%2F..%2Ffile": ({"id": "../../../file"}, b"bytes")}
    code, _ = run(tmp_path / "in", server, "download")
    assert code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"openai-evals"}
    names = [path.name for path in (tmp_path / "in/openai-evals").rglob("*")]
    assert [name for name in names if ".." in name] == []
    assert index(tmp_path / "in")["counts"] == {
        "evals": 1,
        "runs": 1,
        "output_items": 1,
        "files": 1,
    }


def test_only_some_evals_and_runs(tmp_path: Path) -> None:
    with everything(5) as server:
        words = ("--eval", "eval_logs", "--eval", "eval_gone", "--since", "2025-10-10")
        scope = ("--project", "proj_1", "--organization", "org_1")
        code, said = run(tmp_path, server, "download", *words, *scope)
        assert said.startswith(
            f"Downloading the hosted Evals of {server.url}/v1, project proj_1, organization org_1, "
            "only eval_logs, eval_gone, runs since 2025-10-10 to openai-evals/\n"
        )
        assert code == 1
        assert "  eval eval_gone: HTTP 404: Not found: /v1/evals/eval_gone\n" in said
        assert index(tmp_path)["counts"] == {"evals": 1, "runs": 1, "output_items": 10, "files": 0}
        headers = [request.headers for request in server.requests]
        assert {each["openai-project"] for each in headers} == {"proj_1"}
        assert {each["openai-organization"] for each in headers} == {"org_1"}
        run(tmp_path, server, "download", "--eval", "eval_tickets", "--since", "2025-10-10")
        assert index(tmp_path)["counts"]["runs"] == 1  # that of tickets is of 9 October


def escaped(key: str) -> str:
    return "".join(f"\\u{ord(letter):04X}" for letter in key)


def test_the_key_is_written_nowhere(tmp_path: Path, server: EvalsServer) -> None:
    key = "sk-proj/Ab_+=1234567890.XYZ"
    server_key = f"Bearer {key}"
    forms = [key, quote(key, safe=""), quote(quote(key, safe=""), safe=""), key.replace("/", "\\/")]
    run_id = one(server, {}, [], "")
    text = json.dumps(server.items[run_id][0])
    echoed = ", ".join(
        f'"{form}"' for form in (*forms, escaped(key), json.dumps(escaped(key))[1:-1])
    )
    server.items[run_id][0] = text.replace(
        '"datasource_item": {}', f'"datasource_item": {{"e": [{echoed}]}}'
    )
    content = b"x" * ((1 << 20) - 10) + key.encode() + b"y" * 10 + escaped(key).encode() + b"\xff"
    server.runs["eval_one"][0]["data_source"]["source"] = {"type": "file_id", "id": "file-1"}
    server.add_file("file-1", content)
    act = server.act

    def answer(request: Any) -> Any:
        if request.headers["authorization"] != server_key:
            return 401, {"error": {"message": f"wrong key: {request.headers['authorization']}"}}
        if request.path.startswith("/v1/evals/eval_gone"):
            return 400, f'{{"error": {{"message": "no {escaped(key)} {quote(key)} {key}"}}}}'
        found = dict(request.headers)
        found["authorization"] = f"Bearer {KEY}"
        return act(request._replace(headers=found))

    server.then(Step(answer), None)
    code, said = run(tmp_path, server, "download", key=key)
    assert code == 0
    assert "Your key was in 8 places of what the API sent; *** is there instead." in said
    written = (tmp_path / "openai-evals/files/file-1.content").read_bytes()
    assert written == b"x" * ((1 << 20) - 10) + b"***" + b"y" * 10 + b"***" + b"\xff"
    (item,) = saved(tmp_path)
    assert item["datasource_item"] == {"e": ["***"] * 6}
    code, refused = run(tmp_path, server, "download", "--eval", "eval_gone", key=key)
    assert "  eval eval_gone: HTTP 400: no *** *** ***\n" in refused
    wrong = "sk-proj-wrong-1234567890"
    code, other = run(
        tmp_path / "..", server, "download", "--folder", str(tmp_path / "x"), key=wrong
    )
    assert (code, "the API refuses the key: HTTP 401: wrong key: Bearer ***" in other) == (2, True)
    everything_written = said + refused + other
    for path in tmp_path.rglob("*"):
        if path.is_file():
            everything_written += path.read_bytes().decode("latin-1")
    for form in (*forms, escaped(key), escaped(key).lower(), wrong, "Ab_+=1234567890"):
        assert form not in everything_written


def test_a_key_at_any_place_of_a_file_is_hidden(module: ModuleType) -> None:
    secret = module.Secret(KEY)
    edge = (1 << 20) - secret.longest  # where the first part that is written ends
    for at in (edge - len(KEY) - 1, edge - len(KEY), edge - 5, edge - 1, edge, (1 << 20) - 3):
        target = io.BytesIO()
        given = b"x" * at + KEY.encode() + b"y" * 1000
        assert secret.copy(io.BytesIO(given), target) == len(given)
        assert target.getvalue() == b"x" * at + b"***" + b"y" * 1000


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "OPENAI_API_KEY is not set; set it to a key that may read your Evals and files\n"),
        (
            "sk-a\nb",
            "OPENAI_API_KEY has a character that no key has, such as a blank; copy it again\n",
        ),
        (
            "sk-ä",
            "OPENAI_API_KEY has a character that no key has, such as a blank; copy it again\n",
        ),
    ],
)
def test_a_key_that_cannot_be_sent(tmp_path: Path, key: str | None, message: str) -> None:
    code, said = run(tmp_path, None, "download", key=key)
    assert (code, said) == (1, message)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("url", ["file:///etc", "api.openai.com", "https://u:p@x.example/v1"])
def test_an_address_that_cannot_be_asked(tmp_path: Path, url: str) -> None:
    code, said = run(tmp_path, None, "download", "--base-url", url)
    assert (code, "--base-url must" in said) == (2, True)


def test_a_redirect_to_another_server_does_not_get_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EvalsServer() as server, Server() as other:
        run_id = one(server, {}, [], "Hi")
        server.runs["eval_one"][0]["data_source"]["source"] = {"type": "file_id", "id": "file-1"}
        server.add_file("file-1", b"abc")
        act = server.act

        def answer(request: Any) -> Any:
            if request.path == "/v1/files/file-1/content":
                return 302, b""
            if request.path == "/v1/evals?limit=100&order=asc":
                return 307, b""
            return act(request._replace(path=request.path.replace("/elsewhere", "/v1/evals")))

        def headers(path: str) -> Mapping[str, str]:
            return {
                "location": f"{other.url}/blob" if "content" in path else f"{server.url}/elsewhere"
            }

        def step(request: Any) -> Step:
            server.requests.append(request)
            return Step(answer, headers(request.path))

        monkeypatch.setattr(server, "take", step)
        other.answer(body=b"abc")
        code, said = run(tmp_path, server, "download")
        assert code == 0, said
        assert run_id in said
    (blob,) = other.requests
    assert [name for name in blob.headers if name.startswith(("authorization", "openai"))] == []


def test_a_server_that_is_not_there(
    tmp_path: Path, server: EvalsServer, module: ModuleType
) -> None:
    api = module.Api("http://127.0.0.1:9", KEY, None, None)
    with pytest.raises(module.RequestError, match="no connection"):
        api.json("/evals", tries=1)
    with pytest.raises(module.StoppedError, match="the API does not answer: no connection"):
        api.json("/evals", tries=1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, -1),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "86400"}, 300),
        ({"retry-after": "nan"}, -1),
        ({"retry-after": "soon"}, -1),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0),
    ],
)
def test_how_long_the_api_asks_to_wait(
    module: ModuleType, headers: Mapping[str, str], seconds: float
) -> None:
    assert module.wait_asked_for(headers) == seconds


def test_a_date_to_wait_for(module: ModuleType) -> None:
    date = formatdate(time.time() + 60, usegmt=True)
    assert 57 < module.wait_asked_for({"retry-after": date}) <= 60


def test_two_downloads_into_one_folder(tmp_path: Path, server: EvalsServer) -> None:
    add_tickets(server)
    server.stall(seconds=30)
    first = start(tmp_path, server, "download")
    while not server.requests:
        time.sleep(0.01)
    code, said = run(tmp_path, server, "download")
    assert (code, "openai-evals: another download into this folder is running" in said) == (1, True)
    first.kill()
    first.communicate()


def test_ctrl_c(tmp_path: Path, server: EvalsServer) -> None:
    server.stall(seconds=30)
    process = start(tmp_path, server, "download")
    while not server.requests:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[0]
    assert process.returncode == 130
    assert said.endswith("Stopped; run the same command again to go on.\n")


# --- suites ---


def test_suites_and_answers_of_everything(tmp_path: Path) -> None:
    with everything(20) as server:
        run(tmp_path, server, "download")
        asked_for = len(server.requests)
        code, said = run(tmp_path, server, "suites", key=None)
        assert len(server.requests) == asked_for
    where = "it has no messages: none were sent, and its run has no templates"
    assert code == 1
    assert re.findall(r"evals/(\S+)\.eval\.jsonl: (.*) answers? \((.*)\)\n", said) == [
        ("eval_logs/evalrun_logs", "10 cases, 8 expected answers, 10 past", "Logs · logs"),
        ("eval_stored/evalrun_graded", "0 cases, 0 expected answers, 0 past", "Stored · graded"),
        ("eval_stored/evalrun_many", "20 cases, 20 expected answers, 20 past", "Stored · many"),
        (
            "eval_stored/evalrun_nothing",
            "20 cases, 20 expected answers, 0 past",
            "Stored · nothing",
        ),
        ("eval_stored/evalrun_stored", "1 case, 0 expected answers, 1 past", "Stored · stored"),
        (
            "eval_tickets/evalrun_tickets",
            "3 cases, 3 expected answers, 3 past",
            "Tickets · tickets",
        ),
    ]
    assert said.endswith(f"Left out:\n  evalrun_graded: outputitem_graded_0: {where}\n")
    assert (tmp_path / "evals/left-out.txt").read_text() == (
        f"evalrun_graded: outputitem_graded_0: {where}\n"
    )
    checked = commands.run("check", "--strict", "evals", folder=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "evalrun_many.eval.jsonl: 20 cases, without errors" in checked.stdout
    results = 0
    for path in sorted(tmp_path.glob("evals/*/*.results.jsonl")):
        for line in path.read_bytes().splitlines():
            msgspec.json.decode(line, type=Result)
            results += 1
        imported = commands.run("import", str(path), "--answers", folder=tmp_path)
        assert imported.returncode == 0
    assert results == 34


def suites_of(
    tmp_path: Path, server: EvalsServer, *words: str, code: int = 0
) -> tuple[list[Any], list[Any], str]:
    """Return the cases and past answers of the only run that the server has."""
    assert run(tmp_path, server, "download")[0] == 0
    found, said = run(tmp_path, server, "suites", *words)
    assert found == code, said
    if code == 0:
        checked = commands.run("check", "--strict", "evals", folder=tmp_path)
        assert (checked.returncode, checked.stderr) == (0, ""), checked.stderr
    (suite,) = tmp_path.glob("evals/*/*.eval.jsonl") or [tmp_path / "none"]
    results = suite.with_name(suite.name.replace(".eval.", ".results."))
    return lines(suite), lines(results) if results.exists() else [], said


def test_a_case_and_its_past_answer(tmp_path: Path, server: EvalsServer) -> None:
    add_tickets(server)
    cases, results, _ = suites_of(tmp_path, server)
    item = {"ticket_text": "Best restaurants in Cleveland?", "correct_label": "Other"}
    messages = [
        {"role": "system", "content": CLASSIFY},
        {"role": "user", "content": "Best restaurants in Cleveland?"},
    ]
    answers = [{"role": "assistant", "content": "Other"}]
    assert cases[2] == {
        "id": "2",
        "input_messages": messages,
        "expected_messages": answers,
        "metadata": {"item": item, "run": "evalrun_tickets", "model": "gpt-4.1"},
    }
    assert results[2] == {
        "suite": "evals/eval_tickets/evalrun_tickets.eval.jsonl",
        "id": "2",
        "target": "gpt-4.1",
        "response": "Food",
        "finish_reason": "stop",
        "usage": {"input_tokens": 29, "output_tokens": 2, "cached_tokens": 0},
        "latency_ms": None,
        "retries": 0,
        "repairs": [],
        "error": None,
        "raw_request": {
            "question": f"[System]: {CLASSIFY}\n[User]: Best restaurants in Cleveland?",
            "guidelines": [],
            "chat_prompt": messages,
        },
        "digest": "",
        "answer": "text",
        "expected_messages": answers,
        "grades": [{"name": "same", "sample": None, "passed": False, "score": 0.0}],
        "status": "fail",
    }


@pytest.mark.parametrize(
    ("reference", "written"),
    [
        ('"text"', '{"role":"assistant","content":"text"}'),
        ('""', '{"role":"assistant","content":""}'),
        ('["a", "b"]', '{"role":"assistant","content":"[\\"a\\",\\"b\\"]","reference":["a","b"]}'),
        ('{"x": 1.10}', '{"role":"assistant","content":"{\\"x\\":1.10}","reference":{"x":1.10}}'),
        ("3", '{"role":"assistant","content":"3","reference":3}'),
        (
            "12345678901234567890.5",
            '{"role":"assistant","content":"12345678901234567890.5","reference":12345678901234567890.5}',
        ),
        ("1e400", '{"role":"assistant","content":"1e400","reference":"1e400"}'),
        ("true", '{"role":"assistant","content":"true","reference":true}'),
        ("null", '{"role":"assistant","content":"null","reference":null}'),
        ("[]", '{"role":"assistant","content":"[]","reference":[]}'),
    ],
)
def test_references_of_any_type(
    tmp_path: Path, server: EvalsServer, reference: str, written: str
) -> None:
    run_id = one(server, {"answer": 0}, asked("Be brief.", "Hi"), "Hello")
    text = json.dumps(server.items[run_id][0])
    server.items[run_id][0] = text.replace('{"answer": 0}', f'{{"answer": {reference}}}')
    suites_of(tmp_path, server)
    for kind in ("eval", "results"):
        line = (tmp_path / f"evals/eval_one/evalrun_one.{kind}.jsonl").read_text()
        assert f'"expected_messages":[{written}]' in line


@pytest.mark.parametrize(
    ("grader", "answer"),
    [
        (string_check("{{ item.label }}"), "yes"),
        (string_check("{{item.label}}", "ilike"), "yes"),
        (string_check("It is {{ item.label }}."), "It is yes."),
        (string_check("{{item.label}} {{item.label}}"), "yes yes"),
        (string_check("{{ item.deep.list[1]['a key'] }}"), "found"),
        ({**string_check("{{sample.output_text}}"), "input": "{{item.label}}"}, "yes"),
        ({"type": "multi", "graders": {"a": string_check("{{item.label}}")}}, "yes"),
        (string_check("{{item.label}}", "ne"), None),
        (string_check("{{item.absent}}"), None),
        (string_check("a constant"), None),
        ({**string_check("{{item.label}}"), "input": "{{sample.output_json.x}}"}, None),
        ({"type": "python", "name": "x", "source": "def grade(sample, item): return 1"}, None),
    ],
)
def test_the_expected_answer_is_what_a_grader_compares_the_whole_answer_with(
    tmp_path: Path, server: EvalsServer, grader: Any, answer: str | None
) -> None:
    one(
        server,
        {"label": "yes", "deep": {"list": [0, {"a key": "found"}]}},
        asked("", "Hi"),
        "Hello",
    )
    server.evals[0]["testing_criteria"] = [grader]
    ((case,), _, _) = suites_of(tmp_path, server)
    expected = [{"role": "assistant", "content": answer}] if answer else None
    assert case.get("expected_messages") == expected


def test_the_answer_is_the_field_that_is_named(tmp_path: Path, server: EvalsServer) -> None:
    one(server, {"other": {"x": [1]}}, asked("", "Hi"), "Hello")
    ((case,), _, _) = suites_of(tmp_path, server, "--answer", "other.x")
    assert case["expected_messages"] == [{"role": "assistant", "content": "[1]", "reference": [1]}]


def never_run(server: EvalsServer, messages: Any, *rows: Any) -> None:
    """Give the server a run that was stopped before its first item."""
    eval_id = server.add_eval("one", custom())
    source = {"type": "file_content", "content": [{"item": row} for row in rows]}
    data_source = {
        "type": "completions",
        "source": source,
        "input_messages": messages,
        "model": "m",
    }
    server.add_run(eval_id, "one", data_source, status="canceled")


def test_templates_of_items_that_were_never_run_are_filled(
    tmp_path: Path, server: EvalsServer
) -> None:
    image = {"type": "input_image", "image_url": "{{ item.image }}", "detail": "low"}
    template: list[dict[str, Any]] = [
        {"role": "developer", "content": "Price {{item.price}}, tags {{ item['tags'] }}"},
        {"role": "user", "content": [{"type": "input_text", "text": "{{item.q.text}}"}, image]},
    ]
    row = {
        "price": 1.5,
        "tags": ["a", None],
        "q": {"text": "Why? {{item.price}}"},
        "image": "https://example.com/a.png",
    }
    never_run(server, {"type": "template", "template": template}, row)
    ((case,), results, _) = suites_of(tmp_path, server)
    assert case["id"] == "row-0"
    assert case["input_messages"] == [
        {"role": "system", "content": 'Price 1.5, tags ["a",null]'},
        {
            "role": "user",
            "content": [
                "Why? {{item.price}}",
                {"type": "image", "value": "https://example.com/a.png", "detail": "low"},
            ],
        },
    ]
    assert results == []


def test_messages_that_an_item_has_itself(tmp_path: Path, server: EvalsServer) -> None:
    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "weather",
        "arguments": '{"city": 1.0}',
    }
    row = {
        "input": [
            {"role": "user", "content": "Umbrella?"},
            call,
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ]
    }
    never_run(
        server, {"type": "item_reference", "item_reference": "item.input"}, row, {"input": "Hi"}
    )
    cases, _, _ = suites_of(tmp_path, server)
    assert [case["input_messages"] for case in cases] == [
        [
            {"role": "user", "content": "Umbrella?"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "name": "weather", "arguments": {"city": 1.0}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        ],
        [{"role": "user", "content": "Hi"}],
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{{ item.gone }}", "the template {{item.gone}} names what the item does not have"),
        ("{{ item.q.x }}", "the template {{item.q.x}} names what the item does not have"),
        ("{{ sample.x }}", "the template {{sample.x}} does not name the item"),
        ("{{ item[ }}", "the template {{item[}} is not understood"),
        (" ", "there is nothing to answer: only system messages have content, if any has"),
        ([{"type": "input_video"}], "a part of the type 'input_video' cannot be in a suite"),
        (
            [{"type": "input_image", "file_id": "x"}],
            "its image has no address with https: or data:",
        ),
        ("{{ item.half }}", "\\ud800 is half of a character"),
        ("{{ item.deep }}", "nested deeper than 90 levels"),
    ],
)
def test_an_item_that_becomes_no_case_is_named(
    tmp_path: Path, server: EvalsServer, content: Any, why: str
) -> None:
    deep: Any = 1
    for _ in range(90):
        deep = [deep]
    row: dict[str, Any] = {"q": "x"}
    row |= {"half": "\ud800"} if "half" in content else {}
    row |= {"deep": deep} if "deep" in content else {}
    template = [{"role": "system", "content": "x"}, {"role": "user", "content": content}]
    never_run(server, {"type": "template", "template": template}, row)
    assert run(tmp_path, server, "download")[0] == 0
    code, said = run(tmp_path, server, "suites")
    assert (code, said.splitlines()[-2:]) == (1, ["Left out:", f"  evalrun_one: row-0: {why}"])


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([{"role": "critic", "content": "x"}], "there is no role 'critic' in a suite"),
        (
            [{"role": "tool", "tool_call_id": "c", "content": "x"}],
            "the result of 'c' has no call before it",
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{"}}],
                },
            ],
            "the arguments of 'c' are not a JSON object",
        ),
        (
            [
                {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
                {"role": "user", "content": "x"},
            ],
            "the call 'c' has no result",
        ),
        (
            [{"role": "user", "content": "x", "function_call": {"name": "f"}}],
            "a function_call of OpenAI's old form cannot be in a suite",
        ),
    ],
)
def test_messages_that_no_suite_can_have_are_named(
    tmp_path: Path, server: EvalsServer, messages: Any, why: str
) -> None:
    run_id = one(server, {}, [], "Hi")
    server.items[run_id][0]["sample"]["input"] = messages
    run(tmp_path, server, "download")
    code, said = run(tmp_path, server, "suites")
    assert (code, said.splitlines()[-1]) == (1, f"  evalrun_one: outputitem_one_0: {why}")


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1.50}'}}
CALLED = {"id": "c", "name": "f", "arguments": {"x": 1.5}}


@pytest.mark.parametrize(
    ("output", "keys", "response", "kind", "calls"),
    [
        ([{"content": "Hello"}], {}, "Hello", "text", None),
        ([{"role": "assistant", "content": " "}], {}, " ", "empty", None),
        (
            [{"content": [{"type": "output_text", "text": "a"}, {"type": "text", "text": "b"}]}],
            {},
            "a\nb",
            "text",
            None,
        ),
        ([{"type": "reasoning", "summary": []}, {"content": "Hello"}], {}, "Hello", "text", None),
        ([{"content": None, "refusal": "I can't."}], {}, "I can't.", "refusal", None),
        ([{"content": [{"type": "refusal", "refusal": "No."}]}], {}, "No.", "refusal", None),
        ([{"content": None}], {"finish_reason": "content_filter"}, "", "refusal", None),
        ([{"content": None, "tool_calls": [CALL]}], {}, "", "calls", [CALLED]),
        (
            [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"}],
            {},
            "",
            "calls",
            [{**CALLED, "arguments": "{"}],
        ),
        ([], {"output_text": "Hello"}, "Hello", "text", None),
    ],
)
def test_past_answers(
    tmp_path: Path,
    server: EvalsServer,
    output: Any,
    keys: Any,
    response: str,
    kind: str,
    calls: Any,
) -> None:
    run_id = one(server, {}, asked("", "Hi"), "")
    server.items[run_id][0]["sample"].update({"output": output, **keys})
    _, (result,), _ = suites_of(tmp_path, server)
    if not calls or calls == [CALLED]:  # arguments that are no JSON stay as the model wrote them
        msgspec.convert(result, Result)
    assert (result["response"], result["answer"], result.get("tool_calls")) == (
        response,
        kind,
        calls,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": []}, "the export has no answer of this item"),
        ({"error": {"code": "429", "message": "slow down"}}, "429: slow down"),
    ],
)
def test_an_item_without_an_answer(
    tmp_path: Path, server: EvalsServer, change: Any, message: str
) -> None:
    run_id = one(server, {}, asked("", "Hi"), "Hello")
    server.items[run_id][0]["sample"].update(change)
    _, (result,), _ = suites_of(tmp_path, server)
    assert (result["response"], result["answer"]) == (None, None)
    assert result["error"] == {"type": "provider", "message": message}


def test_strange_ids_and_names(tmp_path: Path, server: EvalsServer) -> None:
    add_tickets(server)
    server.evals[0]["name"] = server.runs["eval_tickets"][0]["name"] = "a\x1b[31m\ud800"
    server.add_eval("\ud800", custom())
    code, said = run(tmp_path, server, "download")
    assert "\x1b" not in said + run(tmp_path, server, "suites")[1]
    assert code == 1  # the server cannot be asked for the runs of the second
    assert index(tmp_path)["counts"] == {"evals": 2, "runs": 1, "output_items": 3, "files": 0}


def test_a_file_that_a_power_failure_has_emptied(tmp_path: Path, server: EvalsServer) -> None:
    add_tickets(server)
    assert run(tmp_path, server, "download")[0] == 0
    for path in (tmp_path / "openai-evals").rglob("*.json*"):
        path.write_bytes(b"")
    assert run(tmp_path, server, "download")[0] == 0
    assert len(saved(tmp_path)) == 3


def test_an_eval_that_the_export_does_not_have(tmp_path: Path, server: EvalsServer) -> None:
    add_tickets(server)
    run(tmp_path, server, "download")
    code, said = run(tmp_path, server, "suites", "--eval", "eval_gone")
    assert (code, said) == (1, "Left out:\n  eval eval_gone: openai-evals/ does not have it\n")


def test_items_with_one_number_are_cases_of_their_own(tmp_path: Path, server: EvalsServer) -> None:
    run_id = one(server, {}, asked("", "Hi"), "Hello", datasource_item_id=7)
    server.add_item(run_id, {}, sample(asked("", "Ho"), "Hello"), datasource_item_id=7)
    server.add_item(run_id, {}, sample(asked("", "Hu"), "Hello"), datasource_item_id="\n")
    cases, results, _ = suites_of(tmp_path, server)
    ids = ["7", "outputitem_one_1", "outputitem_one_2"]
    assert [each["id"] for each in cases] == [each["id"] for each in results] == ids


def test_suites_need_a_download(tmp_path: Path) -> None:
    code, said = run(tmp_path, None, "suites", key=None)
    assert (code, said) == (
        1,
        "openai-evals/ has no index.json; run download first, or name its folder by --folder\n",
    )

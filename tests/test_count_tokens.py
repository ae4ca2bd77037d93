"""``run --dry-run --count-tokens`` asks the vendor how many tokens each request has."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback import KEY, Answer, Request, Server, Step
from media_files import data_uri, image, pdf, wav, write_bytes
from multiturn import RunCase, dry_run, estimate, load_target
from running import records, run, write_suite

TARGETS = """\
- {name: openai, provider: openai, base_url: "URL/v1", api_key: KEY, model: gpt-4o}
- {name: anthropic, provider: anthropic, base_url: URL, api_key: KEY, model: claude-haiku-4-5}
- {name: gemini, provider: gemini, base_url: URL, api_key: KEY, model: gemini-2.5-flash}
- {name: responses, provider: openai, api: responses, base_url: "URL/v1", api_key: KEY, model: m}
- {name: azure, provider: azure, endpoint: URL, api_key: KEY, model: gpt-4o}
"""
SYSTEM = "You are a careful assistant."
TALK = """\
tools:
- {name: weather, description: Tells it., parameters: {type: object}}
evalcases:
- id: c
  input_messages:
  - {role: user, content: How is it?}
  - {role: assistant, content: "", tool_calls: [{id: c1, name: weather, arguments: {city: Rome}}]}
  - {role: tool, tool_call_id: c1, content: Sunny.}
"""


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text(TARGETS.replace("URL", server.url).replace("KEY", KEY))
    write_suite(tmp_path, ["Hello", "Bye"])
    return tmp_path


def count(folder: Path, target: str, *arguments: str) -> Any:
    given = ("--target", target, "--dry-run", "--count-tokens", "--concurrency", "1", *arguments)
    return run("a.eval.yaml", *given, folder=folder)


@pytest.mark.parametrize(
    ("vendor", "path", "key", "body"),
    [
        (
            "openai",
            "/v1/responses/input_tokens",
            "input_tokens",
            {
                "model": "gpt-4o",
                "input": [
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": "Hello"},
                ],
            },
        ),
        (
            "anthropic",
            "/v1/messages/count_tokens",
            "input_tokens",
            {
                "model": "claude-haiku-4-5",
                "system": SYSTEM,
                "messages": [{"role": "user", "content": "Hello"}],
            },
        ),
        (
            "gemini",
            "/v1beta/models/gemini-2.5-flash:countTokens",
            "totalTokens",
            {
                "generateContentRequest": {
                    "model": "models/gemini-2.5-flash",
                    "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
                    "systemInstruction": {"role": "user", "parts": [{"text": SYSTEM}]},
                    "generationConfig": {},
                }
            },
        ),
    ],
)
def test_the_vendor_counts(
    folder: Path, server: Server, vendor: str, path: str, key: str, body: dict[str, Any]
) -> None:
    for number in (40, 2):
        server.answer(body={key: number, "object": "response.input_tokens"})
    done = count(folder, vendor)
    assert (done.returncode, [line["input_tokens"] for line in records(done.stdout)]) == (
        0,
        [40, 2],
    )
    assert done.stderr.splitlines()[1].startswith("42 input tokens; ")
    first, _ = server.requests
    assert (first.method, first.path, first.json) == ("POST", path, body)
    assert any(KEY in value for value in first.headers.values())


def test_openai_counts_calls_and_tools_as_its_responses_api_has_them(
    folder: Path, server: Server
) -> None:
    (folder / "a.eval.yaml").write_text("execution: {tool_choice: {name: weather}}\n" + TALK)
    server.answer(body={"input_tokens": 50})
    assert count(folder, "openai").returncode == 0
    (request,) = server.requests
    call = {"type": "function_call", "call_id": "c1", "name": "weather"}
    assert request.json["input"][1:] == [
        {"role": "user", "content": "How is it?"},
        {**call, "arguments": '{"city": "Rome"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "Sunny."},
    ]
    assert request.json["tools"] == [
        {
            "type": "function",
            "name": "weather",
            "description": "Tells it.",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]
    assert request.json["tool_choice"] == {"type": "function", "name": "weather"}


FORMED = """\
execution: {response_format: {schema: {type: object}}, reasoning_effort: high, verbosity: low}
evalcases: [{id: c, input_messages: [{role: user, content: Hi}]}]
"""


@pytest.mark.parametrize("target", ["openai", "responses"])
def test_openai_counts_the_form_of_the_answer_and_how_much_it_thinks(
    folder: Path, server: Server, target: str
) -> None:
    targets = folder / "targets.yaml"
    targets.write_text(targets.read_text().replace("gpt-4o", "gpt-5.4"))
    (folder / "a.eval.yaml").write_text(FORMED)
    server.answer(body={"input_tokens": 50})
    assert count(folder, target).returncode == 0
    (request,) = server.requests
    form = {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}
    assert request.json["text"] == {"format": form, "verbosity": "low"}
    assert request.json["reasoning"] == {"effort": "high"}
    assert request.json.keys() == {"model", "input", "text", "reasoning"}


SHOWN = """\
evalcases:
- id: c
  input_messages:
  - role: user
    content: [What is it?, {type: file, value: a.png}, {type: file, value: b.pdf}]
"""


def test_openai_counts_images_and_documents_but_no_audio(folder: Path, server: Server) -> None:
    write_bytes(folder, {"a.png": image(), "b.pdf": pdf(), "c.wav": wav()})
    (folder / "a.eval.yaml").write_text(SHOWN)
    server.answer(body={"input_tokens": 900})
    done = count(folder, "openai")
    (line,) = records(done.stdout)
    assert (line["input_tokens"], done.returncode) == (900, 0)
    assert done.stderr.splitlines()[1].startswith("900 input tokens; ")
    assert server.requests[0].json["input"][1]["content"] == [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": data_uri(image()), "detail": "auto"},
        {"type": "input_file", "filename": "b.pdf", "file_data": data_uri(pdf())},
    ]
    (folder / "a.eval.yaml").write_text(SHOWN.replace("b.pdf", "c.wav"))
    done = count(folder, "openai")
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert "case 'c': OpenAI's endpoint counts no audio" in done.stderr


def test_the_very_items_of_a_target_with_the_responses_api_are_counted(
    folder: Path, server: Server
) -> None:
    (folder / "a.eval.yaml").write_text(TALK)
    server.answer(body={"input_tokens": 50})
    done = count(folder, "responses")
    (request,) = server.requests
    (line,) = records(done.stdout)
    sent = json.loads(line["wire"])
    assert (request.path, line["input_tokens"]) == ("/v1/responses/input_tokens", 50)
    assert request.json == {name: sent[name] for name in ("model", "input", "tools")}


def test_a_passing_error_is_retried_and_another_stops_only_its_case(
    folder: Path, server: Server
) -> None:
    server.fail(503, "later", times=1)
    server.fail(400, f"too long, {KEY}", times=1)
    server.answer(body={"input_tokens": 7})
    done = count(folder, "anthropic")
    assert (done.returncode, len(server.requests)) == (1, 3)
    assert [(line["action"], line["input_tokens"]) for line in records(done.stdout)] == [
        ("refuse", None),
        ("send", 7),
    ]
    first, *_ = done.stderr.splitlines()
    assert first == "a.eval.yaml:1: case 'c0': HTTP 400: too long, ***"
    assert KEY not in done.stdout + done.stderr


def test_a_wrong_key_ends_it(folder: Path, server: Server) -> None:
    server.fail(401, "no such key", times=None)
    done = count(folder, "gemini")
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert "check the api_key of the target 'gemini'; no more cases are sent" in done.stderr


@pytest.mark.parametrize(("concurrency", "asked"), [("1", 4), ("6", 6)])
def test_a_wrong_key_of_one_target_ends_that_one_only(
    folder: Path, server: Server, concurrency: str, asked: int
) -> None:
    def answer(request: Request) -> Answer:
        return (401, {}) if request.path.endswith(":countTokens") else (200, {"input_tokens": 7})

    write_suite(folder, ["Hello"] * 3)
    server.then(Step(answer), times=None)
    done = count(folder, "gemini", "--target", "anthropic", "--concurrency", concurrency)
    assert (done.returncode, len(server.requests)) == (1, asked)
    assert [(line["id"], line["target"]) for line in records(done.stdout)] == [
        *[("c0", "gemini"), ("c0", "anthropic"), ("c1", "anthropic"), ("c2", "anthropic")],
    ]
    first, counts, tokens, _ = done.stderr.splitlines()
    assert first.startswith("target 'gemini': ")
    assert first.endswith("no more cases are sent")
    assert counts == "3 to send, 0 to reuse, 1 refused; nothing was sent"
    assert tokens.startswith("target 'anthropic': 21 input tokens; ")


@pytest.mark.parametrize("answer", [{}, {"input_tokens": "many"}, [], "no JSON"])
def test_an_odd_answer_is_an_error_of_its_case(folder: Path, server: Server, answer: Any) -> None:
    server.answer(body=answer)
    server.answer(body={"input_tokens": 7})
    done = count(folder, "openai")
    assert done.returncode == 1
    assert "case 'c0': the count is not in the vendor's format" in done.stderr
    assert [line["input_tokens"] for line in records(done.stdout)] == [None, 7]


def test_a_server_that_counts_nothing_is_said(folder: Path, server: Server) -> None:
    server.fail(404, "no such path", times=None)
    done = count(folder, "openai")
    assert "HTTP 404: no such path; the address of the target 'openai' may not" in done.stderr


@pytest.mark.parametrize("target", ["azure", "echo"])
def test_a_vendor_without_such_an_endpoint_is_refused(
    folder: Path, server: Server, target: str
) -> None:
    done = count(folder, target)
    assert (done.returncode, server.requests) == (2, [])
    assert done.stderr == (
        f"Error: the vendor of the target {target!r} has no endpoint that counts tokens; those of"
        " anthropic, gemini, openai have one\n"
    )


def test_it_is_for_dry_runs_only(folder: Path) -> None:
    done = run("a.eval.yaml", "--target", "openai", "--count-tokens", folder=folder)
    assert done.returncode == 2
    assert "--count-tokens is for --dry-run; add it" in done.stderr


def test_the_vendor_counts_batches_too(folder: Path, server: Server) -> None:
    for number in (40, 2):
        server.answer(body={"input_tokens": number})
    done = count(folder, "anthropic", "--batch", "--output", "out.jsonl")
    assert (done.returncode, done.stdout[:10]) == (0, "2 requests")
    assert done.stderr.splitlines()[1].startswith("42 input tokens; ")
    assert {request.path for request in server.requests} == {"/v1/messages/count_tokens"}
    assert not (folder / "out.jsonl").exists()


def test_limits_go_by_what_the_vendor_counts(folder: Path, server: Server) -> None:
    for _ in range(2):
        server.answer(body={"input_tokens": 600})
    done = count(folder, "anthropic", "--max-tokens", "1000")
    assert done.returncode == 2
    assert json.loads(done.stdout.splitlines()[0])["input_tokens"] == 600
    assert "1,200 input tokens exceed --max-tokens 1,000" in done.stderr


def test_python_has_the_vendor_count_too(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for number in (40, 2):
        server.answer(body={"input_tokens": number})
    target = load_target("anthropic")
    found = estimate(dry_run("a.eval.yaml", None, target, count_tokens=True), target)
    assert (found.input, found.is_exact, len(server.requests)) == (42, True, 2)


def test_inside_an_event_loop_a_count_needs_a_thread(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    server.answer(body={"input_tokens": 40}, times=None)

    def counted() -> Iterator[RunCase]:
        return dry_run("a.eval.yaml", None, load_target("anthropic"), count_tokens=True)

    async def main() -> list[RunCase]:
        with pytest.raises(RuntimeError, match=r"dry_run has an event loop .* call it in a thread"):
            next(counted())
        return await asyncio.to_thread(lambda: [*counted()])

    assert [each.tokens and each.tokens.count for each in asyncio.run(main())] == [40, 40]

"""A server on the loopback interface that answers as OpenAI's Evals API does, and its faults."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from loopback import KEY, Answer, Request, Server, Step

if TYPE_CHECKING:
    from random import Random

Object = dict[str, Any]
DAY = 1_760_000_000  # 9 October 2025
TICKETS = {
    "My monitor won't turn on!": "Hardware",
    "I'm in vim and I can't quit!": "Software",
    "Best restaurants in Cleveland?": "Other",
}
CLASSIFY = "Classify the ticket as Hardware, Software, or Other."
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}


class EvalsServer(Server):
    """Has evals, runs, output items and files, and the faults that it is told to have."""

    def __init__(self) -> None:
        super().__init__()
        self.evals: list[Object] = []
        self.runs: dict[str, list[Object]] = {}  # by eval
        self.items: dict[str, list[Any]] = {}  # by run, as JSON if they are texts
        self.files: dict[str, tuple[Object, bytes]] = {}
        self.gone: set[str] = set()  # files whose bytes are deleted
        self.poison: set[str] = set()  # items that the API fails to give
        self.faults: Random | None = None  # 429, 503 and pages that repeat, now and then
        self.left: Counter[str] = Counter()  # faults, by their kind
        self.asked: Counter[str] = Counter()  # successful replies, by path without a query

    def take(self, request: Request) -> Step:
        """Note a request, and return what to answer."""
        with self.changed:
            self.requests.append(request)
            kind = self.fault()
        if kind == "429":
            body = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
            return Step(lambda _: (429, body), {"retry-after-ms": "", "retry-after": "0"})
        if kind == "503":
            return Step(lambda _: (503, "<html>unavailable</html>"), {"retry-after-ms": "0"})
        if kind == "cut":
            return Step(self.act, end=150)
        step = super().take(request)
        self.requests.pop()
        return step

    def fault(self) -> str:
        """Return the fault of the next reply, or nothing."""
        if self.faults is not None and self.faults.random() < 0.15:
            kind = ("429", "503", "cut", "repeat")[self.left.total() % 4]
            self.left[kind] += 1
            return kind
        return ""

    def act(self, request: Request) -> Answer:
        """Return what the API answers."""
        if request.method == "POST":
            return super().act(request)
        parts = urlsplit(request.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if request.headers.get("authorization", "") != f"Bearer {KEY}":
            return 401, {"error": {"message": "Incorrect API key provided"}}
        answer = self.find(parts.path.removeprefix("/v1"), query)
        if answer is None:
            return 404, {"error": {"message": f"Not found: {parts.path}", "code": None}}
        with self.changed:
            self.asked[parts.path] += answer[0] == 200
        return answer

    def find(self, path: str, query: dict[str, str]) -> Answer | None:
        """Return the answer for a path; None if there is nothing."""
        match path.strip("/").split("/"):
            case ["evals"]:
                return self.page(self.evals, query)
            case ["evals", eval_id]:
                found = [each for each in self.evals if each["id"] == eval_id]
                return (200, found[0]) if found else None
            case ["evals", eval_id, "runs"]:
                return self.page(self.runs[eval_id], query) if eval_id in self.runs else None
            case ["evals", _, "runs", run_id, "output_items"]:
                return self.page(self.items[run_id], query) if run_id in self.items else None
            case ["files", file_id] if file_id in self.files:
                return 200, self.files[file_id][0]
            case ["files", file_id, "content"] if file_id in self.files.keys() - self.gone:
                return 200, self.files[file_id][1]
        return None

    def page(self, values: list[Any], query: dict[str, str]) -> Answer:
        """Return a page of a listing."""
        texts = [each if isinstance(each, str) else json.dumps(each) for each in values]
        if query.get("order") == "desc":
            texts.reverse()
        start = 0
        if "after" in query:
            mark = f'"id": "{query["after"]}"'
            start = next((at + 1 for at, each in enumerate(texts) if mark in each), -1)
            if start < 0:
                return 400, {"error": {"message": f"no object {query['after']}"}}
        limit = int(query.get("limit", 20))
        if not 1 <= limit <= 100:
            return 400, {"error": {"message": "limit must be from 1 to 100"}}
        if start and self.faults is not None and self.faults.random() < 0.1:
            self.left["repeat"] += 1
            start = max(0, start - limit)
        shown = texts[start : start + limit]
        ids = [re.findall(r'"id": "([^"]*)"', each) for each in shown]
        if any(self.poison & {*each} for each in ids):
            return 500, {"error": {"message": "The server had an error"}}
        more = "true" if start + limit < len(texts) else "false"
        first, last = (f'"{ids[at][0]}"' if shown and ids[at] else "null" for at in (0, -1))
        # The API writes its JSON in several lines.
        data = ",\n    ".join(shown)
        body = f'{{\n  "object": "list",\n  "data": [\n    {data}\n  ],\n'
        return 200, body + f'  "first_id": {first},\n  "last_id": {last},\n  "has_more": {more}\n}}'

    # --- what it has ---

    def add_eval(self, name: str, config: Object, *criteria: Object) -> str:
        """Add an eval, and return its id."""
        eval_id = f"eval_{name}"
        self.evals.append(
            {
                "object": "eval",
                "id": eval_id,
                "name": name.capitalize(),
                "created_at": DAY,
                "metadata": {},
                "data_source_config": config,
                "testing_criteria": [*criteria],
            }
        )
        self.runs[eval_id] = []
        return eval_id

    def add_run(self, eval_id: str, name: str, data_source: Object, **keys: Any) -> str:
        """Add a run, and return its id."""
        run_id = f"evalrun_{name}"
        self.runs[eval_id].append(
            {
                "object": "eval.run",
                "id": run_id,
                "eval_id": eval_id,
                "report_url": f"https://platform.openai.com/evaluations/{eval_id}",
                "status": "completed",
                "model": data_source.get("model", ""),
                "name": name,
                "created_at": DAY + len(self.items) * 86_400,
                "error": None,
                "result_counts": {"total": 0, "errored": 0, "failed": 0, "passed": 0},
                "per_model_usage": [],
                "per_testing_criteria_results": [],
                "data_source": data_source,
                "metadata": {},
                **keys,
            }
        )
        self.items[run_id] = []
        return run_id

    def add_item(self, run_id: str, item: Any, sample: Any, **keys: Any) -> Object:
        """Add an output item to a run, and return it."""
        runs = [(eval_id, run) for eval_id, found in self.runs.items() for run in found]
        (found,) = [(eval_id, run) for eval_id, run in runs if run["id"] == run_id]
        found[1]["result_counts"]["total"] += 1
        number = len(self.items[run_id])
        value = {
            "object": "eval.run.output_item",
            "id": f"outputitem_{run_id.removeprefix('evalrun_')}_{number}",
            "created_at": DAY,
            "run_id": run_id,
            "eval_id": found[0],
            "status": "pass",
            "datasource_item_id": number,
            "datasource_item": item,
            "results": [{"name": "same", "sample": None, "passed": True, "score": 1.0}],
            "sample": sample,
            **keys,
        }
        self.items[run_id].append(value)
        return value

    def add_file(self, file_id: str, content: bytes) -> str:
        """Add a file, and return its id."""
        about = {
            "object": "file",
            "id": file_id,
            "bytes": len(content),
            "created_at": DAY,
            "filename": "../../items.jsonl",
            "purpose": "user_data",
            "status": "processed",
        }
        self.files[file_id] = (about, content)
        return file_id


def sample(messages: list[Object], answer: str | None, **keys: Any) -> Object:
    """Return what was sent, and what the model said."""
    nothing = {"tool_call_id": None, "tool_calls": None, "function_call": None}
    output = [] if answer is None else [{"role": "assistant", "content": answer, **nothing}]
    return {
        "input": [{**each, **nothing} for each in messages],
        "output": output,
        "finish_reason": "stop",
        "model": "gpt-4.1",
        "usage": {
            "total_tokens": 31,
            "completion_tokens": 2,
            "prompt_tokens": 29,
            "cached_tokens": 0,
        },
        "error": None,
        "temperature": 1.0,
        "max_completion_tokens": 2048,
        "top_p": 1.0,
        "seed": 42,
        **keys,
    }


def asked(system: str, user: str) -> list[Object]:
    """Return two messages as the API has them."""
    return [{"role": "developer", "content": system}, {"role": "user", "content": user}]


def string_check(reference: str, operation: str = "eq") -> Object:
    """Return a grader that compares the answer with a text."""
    return {
        "type": "string_check",
        "name": "same",
        "input": "{{ sample.output_text }}",
        "operation": operation,
        "reference": reference,
    }


def custom() -> Object:
    """Return a data source whose items the user has written."""
    return {"type": "custom", "schema": {"type": "object", "properties": {}}}


def add_tickets(server: EvalsServer) -> None:
    """Add an eval with a run of three tickets: the last answer is wrong."""
    check = string_check("{{ item.correct_label }}")
    eval_id = server.add_eval("tickets", custom(), check)
    rows = [{"ticket_text": text, "correct_label": label} for text, label in TICKETS.items()]
    template = asked(CLASSIFY, "{{ item.ticket_text }}")
    data_source = {
        "type": "completions",
        "source": {"type": "file_content", "content": [{"item": row} for row in rows]},
        "input_messages": {"type": "template", "template": template},
        "model": "gpt-4.1",
        "sampling_params": {"temperature": 0, "max_completion_tokens": 50},
    }
    run_id = server.add_run(eval_id, "tickets", data_source)
    for row in rows:
        label = row["correct_label"].replace("Other", "Food")
        keys: Object = {}
        if label == "Food":
            wrong = {"name": "same", "sample": None, "passed": False, "score": 0.0}
            keys = {"status": "fail", "results": [wrong]}
        said = sample(asked(CLASSIFY, row["ticket_text"]), label)
        server.add_item(run_id, row, said, **keys)


def add_logs(server: EvalsServer) -> None:
    """Add an eval on logs, with references of all JSON types, and calls of tools."""
    config = {"type": "logs", "schema": {"type": "object"}, "metadata": {"usecase": "chatbot"}}
    graders: list[Object] = [
        {
            "type": "score_model",
            "name": "good",
            "model": "o3",
            "input": [{"role": "user", "content": "Rate {{ sample.output_text }}"}],
            "range": [1, 7],
            "pass_threshold": 5.5,
        },
        {
            "type": "label_model",
            "name": "polite",
            "model": "o3",
            "input": [{"role": "user", "content": "Is this polite? {{ sample.output_text }}"}],
            "labels": ["yes", "no"],
            "passing_labels": ["yes"],
        },
        {"type": "python", "name": "code", "source": "def grade(sample, item):\n    return 1.0"},
        {
            "type": "text_similarity",
            "name": "near",
            "evaluation_metric": "fuzzy_match",
            "input": "{{ sample.output_text }}",
            "reference": "{{ item.answers }}",
            "pass_threshold": 0.8,
        },
    ]
    eval_id = server.add_eval("logs", config, *graders)
    source = {"type": "responses", "model": "gpt-4.1", "created_after": DAY}
    data_source = {
        "type": "responses",
        "source": source,
        "input_messages": {"type": "item_reference", "item_reference": "item.input"},
        "model": "gpt-4.1-mini",
        "sampling_params": {"tools": [WEATHER], "seed": 7},
    }
    run_id = server.add_run(eval_id, "logs", data_source)
    answers = [["a", "b"], {"x": 1}, 3, 1.5, True, None, "text", []]
    for number, each in enumerate(answers):
        item = {"input": f"Question {number}", "answers": each}
        said = sample([{"role": "user", "content": f"Question {number}"}], f"Answer {number}")
        server.add_item(run_id, item, said, surprise={"of": "a later version"})
    server.add_item(run_id, {"input": "no reference"}, sample(asked("Be brief.", "Hi"), "Hello"))
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    asked_tool: list[Object] = [
        {"role": "user", "content": "Umbrella?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "rain", "tool_call_id": "c1"},
    ]
    said = sample([], None)
    said["input"] = asked_tool
    said["output"] = [{"role": "assistant", "content": None, "tool_calls": [{**call, "id": "c2"}]}]
    server.add_item(run_id, {"input": "x"}, said)


def add_stored(server: EvalsServer, items: int) -> None:
    """Add an eval on stored completions: many items, files, and a run without items."""
    config = {"type": "stored_completions", "schema": {"type": "object"}, "metadata": {}}
    eval_id = server.add_eval("stored", config, string_check("{{item.answer}}", "like"))
    lines = [{"item": {"question": f"What is {n}?", "answer": f"{n}"}} for n in range(items)]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file_id = server.add_file("file-Questions1", content)
    template = [
        {
            "role": "user",
            "type": "message",
            "content": {"type": "input_text", "text": "{{item.question}}"},
        }
    ]
    data_source: Object = {
        "type": "completions",
        "source": {"type": "file_id", "id": file_id},
        "input_messages": {"type": "template", "template": template},
        "model": "gpt-4.1",
    }
    run_id = server.add_run(eval_id, "many", data_source)
    for line in lines:
        item = line["item"]
        said = sample([{"role": "user", "content": item["question"]}], item["answer"])
        server.add_item(run_id, item, said)
    server.items[run_id] = [json.dumps(each) for each in server.items[run_id]]
    failed = {"status": "failed", "error": {"code": "invalid", "message": "no such model"}}
    server.add_run(
        eval_id, "nothing", {**data_source, "source": {**data_source["source"]}}, **failed
    )
    stored = {"type": "stored_completions", "metadata": {"version": "2"}, "limit": 10}
    run_id = server.add_run(eval_id, "stored", {"type": "completions", "source": stored})
    said = sample([{"role": "user", "content": "Hi"}], None)
    said["error"] = {"code": "rate_limit", "message": "too many"}
    server.add_item(run_id, {"input": "Hi"}, said, status="error")
    server.gone.add(server.add_file("file-Gone", b""))
    source = {"type": "file_id", "id": "file-Gone"}
    run_id = server.add_run(eval_id, "graded", {"type": "jsonl", "source": source})
    server.add_item(run_id, {"question": "Hi", "answer": "Hello"}, None)


def everything(items: int) -> EvalsServer:
    """Return a server with three evals of different data sources."""
    server = EvalsServer()
    add_tickets(server)
    add_logs(server)
    add_stored(server, items)
    return server


def texts_of(server: EvalsServer) -> Iterator[Object]:
    """Yield each output item that the server has."""
    for items in server.items.values():
        for each in items:
            yield json.loads(each) if isinstance(each, str) else each

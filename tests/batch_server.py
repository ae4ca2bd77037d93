"""The batch APIs of OpenAI, Azure OpenAI, Anthropic and Gemini, on the loopback interface.

    with BatchServer() as server:
        server.lag = 2                        # the third look at a batch sees its end
        server.fates["Say no"] = "errored"    # what becomes of the request with this prompt
        server.trouble("create", acted=True)  # creates the next batch, and cuts the connection
        ...
        assert server.sent() == Counter(...)    # how often each request was sent

Each answer is the prompt in capitals between U+2028 and U+0085, which some readers split lines at.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from loopback import KEY, Answer, Request, Server, Step, completion, error_body

GATEWAY = "/gate%20way"  # a gateway may have all APIs below a path of its own
OPEN_AI = r"/v1|/openai"
ANTHROPIC = r"/v1/messages/batches"
GEMINI = r"(?:/upload|/download)?/v1beta"
# What a request asks for: the vendor, the operation, the method, and the path with the id in it.
ROUTES = [
    (vendor, operation, method, re.compile(f"(?:{GATEWAY})?{path}"))
    for vendor, operation, method, path in (
        ("openai", "upload", "POST", rf"(?:{OPEN_AI})/files"),
        ("openai", "file", "GET", rf"(?:{OPEN_AI})/files/([^/]+)"),
        ("openai", "results", "GET", rf"(?:{OPEN_AI})/files/([^/]+)/content"),
        ("openai", "create", "POST", rf"(?:{OPEN_AI})/batches"),
        ("openai", "list", "GET", rf"(?:{OPEN_AI})/batches"),
        ("openai", "look", "GET", rf"(?:{OPEN_AI})/batches/([^/]+)"),
        ("openai", "cancel", "POST", rf"(?:{OPEN_AI})/batches/([^/]+)/cancel"),
        ("anthropic", "create", "POST", ANTHROPIC),
        ("anthropic", "list", "GET", ANTHROPIC),
        ("anthropic", "look", "GET", rf"{ANTHROPIC}/([^/]+)"),
        ("anthropic", "results", "GET", rf"{ANTHROPIC}/([^/]+)/results"),
        ("anthropic", "cancel", "POST", rf"{ANTHROPIC}/([^/]+)/cancel"),
        ("gemini", "upload", "POST", rf"{GEMINI}/files"),
        ("gemini", "results", "GET", rf"{GEMINI}/(files/[^/:]+):download"),
        ("gemini", "create", "POST", rf"{GEMINI}/models/([^/]+):batchGenerateContent"),
        ("gemini", "list", "GET", rf"{GEMINI}/batches"),
        ("gemini", "look", "GET", rf"{GEMINI}/(batches/[^/:]+)"),
        ("gemini", "cancel", "POST", rf"{GEMINI}/(batches/[^/:]+):cancel"),
    )
]
KEYS = {"authorization": "Bearer ", "api-key": "", "x-api-key": "", "x-goog-api-key": ""}
PREFIXES = {"openai": "batch_", "anthropic": "msgbatch_", "gemini": "batches/"}


class WrongError(Exception):
    """An answer with an HTTP status that says what is wrong with a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Batch:
    """A batch as the server knows it."""

    id: str
    vendor: str
    requests: dict[str, Any]  # the body of each request, by its id
    given: Any = None  # by the client: its metadata, or its display name
    source: str = ""  # the file with the requests
    target: str = ""  # the path, or the model, that gets the requests
    looks: int = 0  # how often somebody has asked for it
    cancelling: bool = False
    end: str | None = None  # as in BatchServer.end; None while it is under way
    files: list[str | None] = field(default_factory=lambda: [None, None])  # of answers, of errors
    problem: str | None = None  # with the whole batch


class BatchServer(Server):
    """Keeps files and batches, and ends a batch when it has been looked at often enough."""

    def __init__(self) -> None:
        super().__init__()
        self.key = KEY  # without it, nothing is done
        self.lag = 0  # how often a batch is looked at before it ends
        # how batches end: completed, failed, expired, expired without files, cancelled
        self.end = "completed"
        self.waiting: str | None = None  # the state until then; None for the vendor's own word
        # what becomes of a request, by its prompt: errored, expired, canceled, missing, garbled;
        # succeeded if it is not here
        self.fates = {"theirs": "expired"}
        self.wrong = f"it is wrong ({KEY})"  # what is said of a request that errored
        self.page = 20  # the most batches in one answer to a list
        self.unprocessed = 0  # how often an uploaded file is looked at before it is processed
        # called with the operation, before and after the server acts (False, True); if it returns
        # true, the connection is cut without an answer
        self.watch: Callable[[str, bool], bool | None] = lambda operation, acted: None
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.operations: list[str] = []
        self._troubles: list[tuple[str, int | None, bool]] = []
        self._uploads: dict[str, tuple[int, bytes]] = {}  # the whole size, and what has come
        self._ids = iter(range(1, 1_000_000))

    def trouble(self, operation: str, status: int | None = None, *, acted: bool = False) -> None:
        """Let the next request for an operation fail.

        Args:
            operation: upload, file, create, look, list, results or cancel.
            status: of the answer; None to cut the connection without one, 200 to cut it after
                the first 99 bytes.
            acted: do what was asked for before.
        """
        self._troubles.append((operation, status, acted))

    def sent(self) -> Counter[str]:
        """Return how often each request was sent, by its prompt, over all batches."""
        return Counter(
            prompt_of(body) for batch in self.batches.values() for body in batch.requests.values()
        )

    def stranger(self, vendor: str, requests: int, *, is_running: bool = False) -> None:
        """Add a batch of somebody else's, with so many requests, that has ended, or will later."""
        bodies: dict[str, Any] = {f"theirs-{number}": {} for number in range(requests)}
        if is_running:
            self._add(vendor, bodies, given="theirs", looks=-5)
            return
        batch = self._add(vendor, bodies, given="theirs", end="completed")
        getattr(self, f"_{vendor}_finish")(batch)

    def take(self, request: Request) -> Step:
        """Note a request, and return what to answer."""
        step = super().take(request)
        vendor, operation, _ = _route(request)
        with self.changed:
            self.operations.append(operation)
        if self.watch(operation, False):
            return Step(lambda request: (0, ""), end=0)
        found = next((trouble for trouble in self._troubles if trouble[0] == operation), None)
        if found is None or step.end is not None:
            return step._replace(headers={**self._upload_headers(request), **step.headers})
        self._troubles.remove(found)
        _, status, acted = found

        def make(request: Request) -> Answer:
            answer = self.act(request) if acted else (0, "")
            if status == 200:
                return answer
            return status or 0, error_body(vendor, status or 0, f"told to ({KEY})", "an_error")

        return Step(make, end={None: 0, 200: 99}.get(status))

    def act(self, request: Request) -> Answer:
        """Do what a request asks for, and return the vendor's answer."""
        vendor, operation, id_ = _route(request)
        with self.changed:
            try:
                if not vendor:
                    return super().act(request)
                told = [request.headers.get(name) for name in KEYS]
                known = [f"{before}{self.key}" for before in KEYS.values()]
                if all(each != key for each, key in zip(told, known, strict=True)) and (
                    "upload_id" not in _query(request)  # an address that is secret
                ):
                    raise WrongError(401, "there is no key")
                answer = self._answer(vendor, operation, id_, request)
            except WrongError as problem:
                body = error_body(vendor, problem.status, str(problem), "invalid_request_error")
                return problem.status, body
        self.watch(operation, True)
        return 200, answer

    def _answer(self, vendor: str, operation: str, id_: str, request: Request) -> Any:
        if operation == "upload":
            return getattr(self, f"_{vendor}_upload")(request)
        if operation == "list":
            return self._list(vendor, _query(request))
        if operation == "create":
            batch = getattr(self, f"_{vendor}_create")(request, id_)
        else:
            of_files = operation in ("results", "file") and vendor != "anthropic"
            if id_ not in (self.files if of_files else self.batches):
                raise WrongError(404, f"there is no {id_}")
            if operation == "file":
                return self._openai_file(id_)
            if operation == "results":
                return self.files.get(id_) or self.files[self.batches[id_].files[0] or ""]
            batch = self.batches[id_]
            if operation == "look":
                self._look(batch)
            elif batch.end is not None:
                raise WrongError(409, f"the batch {id_} has ended")
            else:
                batch.cancelling = True
        return getattr(self, f"_{vendor}_state")(batch)

    def _add(self, vendor: str, requests: dict[str, Any], **given: Any) -> Batch:
        batch = Batch(f"{PREFIXES[vendor]}{next(self._ids)}", vendor, requests, **given)
        self.batches[batch.id] = batch
        return batch

    def _keep(self, lines: list[Any], prefix: str) -> str:
        """Keep a file of JSON lines, in the opposite order, and return its id."""
        id_ = f"{prefix}{next(self._ids)}"
        texts = [json.dumps(line, ensure_ascii=False) for line in reversed(lines)]
        self.files[id_] = "\n".join(texts).encode()  # without an end of the last line
        return id_

    def _look(self, batch: Batch) -> None:
        """Count a look at a batch, which ends when there were enough."""
        batch.looks += 1
        if batch.end is None and batch.looks > self.lag:
            batch.end = "failed" if batch.problem else self.end
            batch.end = "cancelled" if batch.cancelling else batch.end
            getattr(self, f"_{batch.vendor}_finish")(batch)

    def _list(self, vendor: str, query: Mapping[str, str]) -> Any:
        """Return a page of the batches, the last first."""
        found = [batch for batch in reversed(self.batches.values()) if batch.vendor == vendor]
        ids = [batch.id for batch in found]
        after = query.get("after") or query.get("after_id") or query.get("pageToken")
        start = ids.index(after) + 1 if after else 0
        limit = int(query.get("limit") or query.get("pageSize") or 20)
        page = found[start : start + min(limit, self.page)]
        for batch in page:
            self._look(batch)
        states = [getattr(self, f"_{vendor}_state")(batch) for batch in page]
        last = page[-1].id if page else None
        more = start + len(page) < len(found)
        if vendor == "gemini":
            return {"operations": states, **({"nextPageToken": last} if more else {})}
        return {"object": "list", "data": states, "last_id": last, "has_more": more}

    def _fates(self, batch: Batch) -> dict[str, str]:
        """Return what became of each request; who ends early has answered only the first."""
        rest = {"cancelled": "canceled", "expired": "expired"}.get(batch.end or "", "succeeded")
        return {
            id_: self.fates.get(prompt_of(body), rest if number else "succeeded")
            for number, (id_, body) in enumerate(batch.requests.items())
        }

    def _state(self, batch: Batch, word: str, cancelling: str) -> str:
        """Return the state of a batch that has not ended."""
        return cancelling if batch.cancelling else self.waiting or word

    # OpenAI and Azure OpenAI

    def _openai_upload(self, request: Request) -> Any:
        boundary = request.headers["content-type"].partition("boundary=")[2].strip('"').encode()
        parts = [part.partition(b"\r\n\r\n") for part in request.body.split(b"--" + boundary)]
        (content,) = [end[:-2] for head, _, end in parts if b'name="file"' in head]
        (purpose,) = [end[:-2] for head, _, end in parts if b'name="purpose"' in head]
        if purpose != b"batch":
            raise WrongError(400, "a batch reads a file with the purpose batch")
        id_ = f"file-{next(self._ids)}"
        self.files[id_] = content
        return self._openai_file(id_)

    def _openai_file(self, id_: str) -> Any:
        status = "pending" if self.unprocessed else "processed"
        self.unprocessed = max(0, self.unprocessed - 1)
        named = {"filename": "in.jsonl", "purpose": "batch", "status": status}
        size = len(self.files[id_])
        return {"id": id_, "object": "file", "bytes": size, "created_at": 1, **named}

    def _openai_create(self, request: Request, _: str) -> Batch:
        wanted = request.json
        if wanted["completion_window"] != "24h":
            raise WrongError(400, "completion_window is 24h")
        is_azure = request.path.removeprefix(GATEWAY).startswith("/openai/")
        source, url = wanted["input_file_id"], wanted["endpoint"]
        lines = [json.loads(line) for line in self.files[source].split(b"\n") if line]
        bodies = {line["custom_id"]: line["body"] for line in lines}
        batch = self._add("openai", bodies, given=wanted.get("metadata"), source=source, target=url)
        paths = {"/chat/completions" if is_azure else "/v1/chat/completions"}
        if any("input" in body for body in bodies.values()):
            paths = {"/v1/responses"}
        whole = "/chat/completions" if is_azure else next(iter(paths))
        if len(bodies) < len(lines):
            batch.problem = "a custom_id is there twice"
        elif (url, {line["url"] for line in lines}) != (whole, paths):
            batch.problem = "the url is another one"
        elif {line["method"] for line in lines} != {"POST"}:
            batch.problem = "the method is another one"
        return batch

    def _openai_finish(self, batch: Batch) -> None:
        if batch.end == "failed":
            batch.problem = batch.problem or f"it failed ({self.key})"
        if batch.end in ("failed", "expired without files"):
            return
        lines: tuple[list[Any], list[Any]] = ([], [])
        for id_, fate in self._fates(batch).items():
            line: dict[str, Any] = {"id": f"batch_req_{id_[:8]}", "custom_id": id_}
            if fate in ("succeeded", "garbled"):
                body = answer_to("azure", batch.requests[id_]) if fate == "succeeded" else {}
                response = {"status_code": 200, "request_id": "r", "body": body}
                lines[0].append({**line, "response": response, "error": None})
            elif fate == "errored":
                body = error_body("azure", 400, self.wrong, "invalid_value")
                response = {"status_code": 400, "request_id": "r", "body": body}
                lines[1].append({**line, "response": response, "error": None})
            elif fate != "missing":
                code = "batch_expired" if fate == "expired" else "batch_cancelled"
                error = {"code": code, "message": "This request could not be executed."}
                lines[1].append({**line, "response": None, "error": error})
        batch.files = [self._keep(half, "file-") if half else None for half in lines]

    def _openai_state(self, batch: Batch) -> Any:
        errors = [{"code": "invalid", "line": 1, "message": batch.problem, "param": None}]
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.target,
            "completion_window": "24h",
            "input_file_id": batch.source,
            "status": (batch.end or self._state(batch, "in_progress", "cancelling")).split()[0],
            "created_at": 1,
            "metadata": batch.given if isinstance(batch.given, dict) else None,
            "output_file_id": batch.files[0],
            "error_file_id": batch.files[1],
            "errors": {"object": "list", "data": errors} if batch.problem else None,
            "request_counts": {"total": len(batch.requests), "completed": 0, "failed": 0},
        }

    # Anthropic

    def _anthropic_create(self, request: Request, _: str) -> Batch:
        requests = request.json["requests"]
        bodies = {one["custom_id"]: one["params"] for one in requests}
        if len(bodies) < len(requests):
            raise WrongError(400, "a custom_id is there twice")
        if not all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in bodies):
            raise WrongError(400, "custom_id: String should match '^[a-zA-Z0-9_-]{1,64}$'")
        return self._add("anthropic", bodies)

    def _anthropic_finish(self, batch: Batch) -> None:
        if batch.end == "expired without files":
            return
        lines = []
        for id_, fate in self._fates(batch).items():
            result: dict[str, Any] = {"type": fate}
            if fate in ("succeeded", "garbled"):
                message = answer_to("anthropic", batch.requests[id_])
                result = {"type": "succeeded", "message": message if fate == "succeeded" else {}}
            elif fate == "errored":
                body = error_body("anthropic", 400, self.wrong, "invalid_request_error")
                result["error"] = {**body, "request_id": "r"}
            if fate != "missing":
                lines.append({"custom_id": id_, "result": result})
        batch.files[0] = self._keep(lines, "results-")

    def _anthropic_state(self, batch: Batch) -> Any:
        fates = list(self._fates(batch).values()) if batch.end else []
        words = ("succeeded", "errored", "canceled", "expired")
        counts = {word: fates.count(word) for word in words}
        counts["processing"] = 0 if batch.end else len(batch.requests)
        now = datetime.now(UTC)
        url = f"{self.url}/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended"
            if batch.end
            else self._state(batch, "in_progress", "canceling"),
            "created_at": now.isoformat(),
            "expires_at": (now + timedelta(days=1)).isoformat(),
            "ended_at": now.isoformat() if batch.end else None,
            "archived_at": None,
            "cancel_initiated_at": now.isoformat() if batch.cancelling else None,
            "request_counts": counts,
            "results_url": url if batch.files[0] else None,
        }

    # Gemini

    def _gemini_upload(self, request: Request) -> Any:
        """Take the next bytes of a resumable upload; the first request asks for its address."""
        id_ = _query(request).get("upload_id")
        if id_ is None:
            if request.headers["x-goog-upload-protocol"] != "resumable":
                raise WrongError(400, "an upload is resumable")
            return {}
        (size, known), headers = self._uploads[id_], request.headers
        commands = headers["x-goog-upload-command"].replace(" ", "").split(",")
        content = known + request.body
        is_last = "finalize" in commands
        if "upload" not in commands or headers["x-goog-upload-offset"] != str(len(known)):
            raise WrongError(400, "the bytes do not follow those that came before")
        if is_last != (len(content) == size) or (not is_last and len(request.body) % 2**18):
            raise WrongError(400, "the size is another one")
        self._uploads[id_] = (size, content)
        if not is_last:
            return ""
        name = f"files/{next(self._ids)}"
        self.files[name] = content
        return {"file": {"name": name, "sizeBytes": str(size), "state": "ACTIVE", "uri": name}}

    def _upload_headers(self, request: Request) -> Mapping[str, str]:
        """Return what Gemini's resumable upload says in headers."""
        commands = request.headers.get("x-goog-upload-command", "")
        if commands == "start":
            id_ = f"secret-{next(self._ids)}"
            self._uploads[id_] = (int(request.headers["x-goog-upload-header-content-length"]), b"")
            return {"x-goog-upload-url": f"{self.url}/upload/v1beta/files?upload_id={id_}"}
        return {"x-goog-upload-status": "final" if "finalize" in commands else "active"}

    def _gemini_create(self, request: Request, model: str) -> Batch:
        wanted = request.json["batch"]
        source, name = wanted["inputConfig"]["fileName"], wanted.get("displayName")
        lines = [json.loads(line) for line in self.files[source].split(b"\n") if line]
        bodies = {line["key"]: line["request"] for line in lines}
        if len(bodies) < len(lines):
            raise WrongError(400, "a key is there twice")
        return self._add("gemini", bodies, given=name, source=source, target=f"models/{model}")

    def _gemini_finish(self, batch: Batch) -> None:
        if batch.end in ("failed", "expired", "expired without files"):
            return
        lines = []
        for id_, fate in self._fates(batch).items():
            if fate in ("succeeded", "garbled"):
                body = answer_to("gemini", batch.requests[id_]) if fate == "succeeded" else {}
                lines.append({"key": id_, "response": body})
            elif fate == "errored":
                body = error_body("gemini", 400, self.wrong, "invalid_argument")
                lines.append({"key": id_, **body})
        batch.files[0] = self._keep(lines, "files/batch-")

    def _gemini_state(self, batch: Batch) -> Any:
        words = {"completed": "SUCCEEDED", None: self._state(batch, "RUNNING", "CANCELLING")}
        word = words.get(batch.end) or str(batch.end).split()[0].upper()
        metadata = {
            "model": batch.target,
            "displayName": batch.given,
            "state": f"BATCH_STATE_{word}",
            "inputConfig": {"fileName": batch.source},
            "name": batch.id,
        }
        if batch.end is None:
            return {"name": batch.id, "metadata": metadata}
        output = {"responsesFile": batch.files[0]} if batch.files[0] else {}
        ended = {"name": batch.id, "metadata": {**metadata, "output": output}, "done": True}
        if batch.end == "failed":
            return {**ended, "error": {"code": 3, "message": f"it failed ({self.key})"}}
        return {**ended, "response": output}


def _route(request: Request) -> tuple[str, str, str]:
    """Return the vendor, the operation and the id that a request is about."""
    path = urlsplit(request.path).path
    for vendor, operation, method, pattern in ROUTES:
        if method == request.method and (match := pattern.fullmatch(path)):
            return vendor, operation, match[1] if match.lastindex else ""
    return "", "nothing", ""


def _query(request: Request) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(urlsplit(request.path).query).items()}


def prompt_of(body: Any) -> str:
    """Return the text of the last message of a request, in any vendor's format."""
    if not body:
        return "theirs"
    if "contents" in body:
        return str(body["contents"][-1]["parts"][-1]["text"])
    content = (body.get("messages") or body["input"])[-1]["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


def text_for(prompt: str) -> str:
    """Return what the model says."""
    return f"\u2028{prompt.upper()}\x85"


def answer_to(vendor: str, body: Any) -> Any:
    """Return the answer to a request in a vendor's format."""
    return completion("responses" if "input" in body else vendor, text_for(prompt_of(body)))


def write_targets(folder: Path, server: BatchServer, **more: Any) -> None:
    """Write a target for each vendor, under the vendor's name, and for OpenAI's other API."""
    responses = {"api": "responses"}
    addresses: dict[str, dict[str, Any]] = {
        "openai": {"base_url": f"{server.url}/v1"},
        "azure": {"endpoint": server.url},
        "responses": {"provider": "openai", "base_url": f"{server.url}/v1", **responses},
        "azure responses": {"provider": "azure", "endpoint": server.url, **responses},
        "anthropic": {"base_url": server.url},
        "gemini": {"base_url": server.url},
    }
    targets = [
        {"name": name, "provider": name, "api_key": KEY, "model": f"{name}-x"} | address | more
        for name, address in addresses.items()
    ]
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}))

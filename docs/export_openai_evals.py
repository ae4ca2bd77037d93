#!/usr/bin/env python3
"""Save all of OpenAI's hosted Evals before they close on 30 November 2026, and make suites of it.

    python3 export_openai_evals.py download    # needs the key in OPENAI_API_KEY
    python3 export_openai_evals.py suites      # later, without the network, as often as you like

This one file needs Python 3.9 or newer and nothing else. ``download`` can be stopped at any moment
and started again. https://developers.openai.com/api/reference/resources/evals describes the API;
its replies are read as the types of openai 3.54.0 have them, on 23 November 2026.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import re
import socket
import ssl
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Iterator

API = "https://api.openai.com/v1"
AGENT = "export_openai_evals/1.0"  # some networks refuse urllib's own name
PAGE = 100  # objects of a listing that are asked for at a time
PAGE_OF_RUNS = 10  # a run may have all of its data inside
TRIES = 8  # of a request
LONGEST_WAIT = 300.0  # seconds before the next try, whatever the API asks for
TIMEOUT = 120.0  # seconds without a byte
REPEATS = 5  # how often in a row a page may repeat
SHORTEST_KEY = 16  # a shorter one would be replaced in the middle of words, too
MOST_LEVELS = 300  # of a reply; Python itself reads fewer than a thousand
TOO_DEEP = f"the reply is nested deeper than {MOST_LEVELS} levels"
DEEPEST = 90  # levels of an item; multiturn reads 100 of a case
NAMED = 20  # problems that are printed
KINDS = {
    "data_source_config": ("custom", "logs", "stored_completions"),
    "data_source": ("jsonl", "completions", "responses"),
    "source": ("file_content", "file_id", "stored_completions", "responses"),
    "testing_criteria": (
        *("label_model", "multi", "python", "score_model", "string_check", "text_similarity"),
    ),
    "input_messages": ("template", "item_reference"),
}
FILE_ID = re.compile(r"file[-_]\w[\w-]*")
TEMPLATE = re.compile(r"\{\{\s*((?:(?!\}\}).)*?)\s*\}\}", re.DOTALL)
ANSWER = re.compile(r"\{\{\s*sample\.output_text\s*\}\}")
STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(\d+)\]|\[(['"])(.*?)\3\]""")


class Number(str):
    """A number of JSON as it is written: no digit is lost, however many there are."""


class RequestError(Exception):
    """A request that failed; ``status`` is None if the reply could not be read."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class StoppedError(Exception):
    """Nothing more can be done now."""


class LeftOutError(Exception):
    """An item that becomes no case, and why."""


def load(text: Any) -> Any:
    """Return the value of a JSON text, with numbers as they are written."""
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)


def dump(value: Any) -> str:
    """Return a value as JSON in one line; numbers are as they were written."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        parts = []
        for key, each in value.items():
            parts.append(dump(key) + ":" + dump(each))
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        parts = []
        for each in value:
            parts.append(dump(each))
        return "[" + ",".join(parts) + "]"
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not re.search("[\ud800-\udfff]", text) else json.dumps(value)


def depth(value: Any) -> int:
    """Return how many levels a value has."""
    levels, layer = 0, [value]
    while layer:
        levels += 1
        inner = [each.values() if isinstance(each, dict) else listed(each) for each in layer]
        layer = [each for values in inner for each in values]
    return levels


def plural(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def file_name(given: str) -> str:
    """Return a name for a file that belongs to an id, whatever the id is: never a path."""
    if re.fullmatch(r"[A-Za-z]+[-_][A-Za-z0-9_-]{1,100}", given):
        return given
    digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{re.sub('[^A-Za-z0-9]+', '-', given)[:40].strip('-') or 'id'}-{digest}"


def id_of(value: Any) -> str | None:
    """Return the id of an object of the API; None if it has none."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) and not isinstance(found, Number) and found else None


def get(value: Any, *keys: str) -> Any:
    """Return what is below some keys, one after the other; None if it is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def listed(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def say(text: str) -> None:
    """Print a line, without characters that a terminal would obey."""
    print("".join(each if each.isprintable() else "?" for each in text), flush=True)


def path_of(*parts: str) -> str:
    """Return the path of an object of the API."""
    return "".join("/" + quote(part, safe="", errors="replace") for part in parts)


def read_whole(path: Path) -> Any:
    """Return the JSON of a file; None if it has none, as after a power failure."""
    try:
        return load(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is never there by half, whenever the program is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(text.encode("utf-8"))
    os.replace(part, path)


# --- download: everything, as the API gives it ---------------------------------------------------


class Secret:
    """The key: it goes into one header, and is replaced wherever else it would be written."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.hidden = 0
        letters = []
        for letter in key:
            code = f"{ord(letter):02x}"
            plain = re.escape(letter) if letter.isalnum() else r"\\{0,8}" + re.escape(letter)
            # Also as JSON and URLs may write it, and JSON in the texts of JSON.
            letters.append(rf"(?:{plain}|(?i:\\{{1,8}}u00{code}|%(?:25){{0,4}}{code}))")
        pattern = "".join(letters)
        self.text, self.bytes = re.compile(pattern), re.compile(pattern.encode())
        self.longest = 14 * len(key)

    def hide(self, text: str) -> str:
        """Return a text without the key."""
        text, hidden = self.text.subn("***", text)
        self.hidden += hidden
        return text

    def hide_data(self, text: str) -> str:
        """Return data without the key; a short key would also be in other words, and stays."""
        return self.hide(text) if len(self.key) >= SHORTEST_KEY else text

    def copy(self, source: Any, target: BinaryIO) -> int:
        """Copy bytes without the key, and return how many came."""
        size, held, is_read = 0, b"", False
        while not is_read:
            chunk = source.read(1 << 20)
            size, held, is_read = size + len(chunk), held + chunk, not chunk
            cut = len(held) if is_read else max(0, len(held) - self.longest)
            if len(self.key) >= SHORTEST_KEY:
                for match in self.bytes.finditer(held):
                    if match.start() < cut < match.end():
                        cut = match.end()
                done, hidden = self.bytes.subn(b"***", held[:cut])
                self.hidden += hidden
            else:
                done = held[:cut]
            target.write(done)
            held = held[cut:]
        return size


def origin(url: str) -> Any:
    """Return whom an address asks."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


class Redirects(HTTPRedirectHandler):
    """Follow redirects, but show the key only to the server that it is for."""

    def redirect_request(self, req: Any, *args: Any) -> Any:
        """Return the next request; urllib leaves unredirected headers out of it."""
        new = super().redirect_request(req, *args)
        if new is not None and origin(new.full_url) == origin(req.full_url):
            for name, value in req.unredirected_hdrs.items():
                if name != "Host":
                    new.add_unredirected_header(name, value)
        return new


class Api:
    """Asks the API, again where that can help, and collects what went wrong."""

    def __init__(self, base: str, key: str, project: str | None, org: str | None) -> None:
        self.base = base.rstrip("/")
        self.secret = Secret(key)
        self.opener = build_opener(Redirects)
        self.problems: list[str] = []
        self.unanswered = 0  # requests in a row
        self.headers = {"Authorization": f"Bearer {key}"}
        if project:
            self.headers["OpenAI-Project"] = project
        if org:
            self.headers["OpenAI-Organization"] = org

    def say(self, text: str) -> None:
        """Print a line."""
        say(self.secret.hide(text))

    def problem(self, text: str) -> None:
        """Note what is missing or odd; it is printed at the end."""
        text = self.secret.hide(" ".join(text.split())[:500])
        if text not in self.problems:
            self.problems.append(text)

    def json(self, path: str, query: dict[str, str] | None = None, tries: int = TRIES) -> Any:
        """Return the JSON object of a reply."""

        def read(reply: Any) -> Any:
            try:
                value = load(reply.read().decode("utf-8"))
            except RecursionError:
                raise RequestError(TOO_DEEP) from None
            if depth(value) > MOST_LEVELS:
                raise RequestError(TOO_DEEP)
            if not isinstance(value, dict):
                raise ValueError("the reply is not a JSON object")
            return value

        return self.ask(
            path + (f"?{urlencode(query, errors='replace')}" if query else ""), read, tries
        )

    def ask(self, path: str, read: Any, tries: int = TRIES) -> Any:
        """Return what ``read`` makes of a reply.

        Raises:
            RequestError: the API refuses, or fails each time.
            StoppedError: it refuses the key, or cannot be reached.
        """
        for attempt in range(1, tries + 1):
            asked, failed = 0.0, RequestError("")
            request = Request(self.base + path, headers={"User-Agent": AGENT})  # noqa: S310 - the address is checked in main
            for name, value in self.headers.items():
                request.add_unredirected_header(name, value)
            try:
                with self.opener.open(request, timeout=TIMEOUT) as reply:
                    value = read(reply)
                self.unanswered = 0
                return value
            except HTTPError as error:
                with error:
                    failed = RequestError(f"HTTP {error.code}: {said_in(error)}", error.code)
                    asked = wait_asked_for(error.headers)
                if error.code == 401:
                    raise StoppedError(f"the API refuses the key: {failed}") from None
                if error.code not in (408, 409, 429) and error.code < 500:
                    raise failed from None
            except URLError as error:
                if isinstance(error.reason, ssl.SSLCertVerificationError):
                    what = f"the certificate of the API cannot be checked: {error.reason}; on macOS"
                    what += " run Install Certificates.command of Python, else set SSL_CERT_FILE"
                    raise StoppedError(what) from None
                failed = RequestError(f"no connection: {error.reason}", 0)
            except (HTTPException, socket.timeout, ConnectionError) as error:
                failed = RequestError(f"the reply broke off: {error!r}")
            except ValueError as error:
                failed = RequestError(f"the reply cannot be read: {error}")
            if attempt < tries:
                wait = asked if asked >= 0 else random.uniform(0.5, 1) * min(60, 2**attempt)  # noqa: S311
                if wait > 5:
                    self.say(f"  waiting {wait:.0f} s: {failed}")
                time.sleep(wait)
        self.unanswered += 1
        if (failed.status == 0 and self.unanswered > 1) or self.unanswered > 8:
            raise StoppedError(f"the API does not answer: {failed}")
        raise failed

    def listing(
        self, path: str, known: set[str], after: str | None = None, limit: int = PAGE
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yield the objects of each page that are not known yet, and make them known.

        Where the API cannot give an object, pages become smaller until only this one is missing;
        the others are then read from the end, so ``asc`` or ``desc`` is yielded with each page.

        Args:
            path: of the listing.
            known: ids of objects, or their JSON if they have none.
            after: id of the last object that is not wanted again.
            limit: how many objects to ask for at a time.
        """
        order, repeats, largest, is_saved = "asc", 0, limit, after is not None
        asked: set[str | None] = set()
        while True:
            query = {"limit": str(limit), "order": order, **({"after": after} if after else {})}
            try:
                page = self.json(path, query, TRIES if limit == largest else 3)
                if not isinstance(page.get("data"), list):
                    raise RequestError("the reply has no list of data")
            except RequestError as error:
                if is_saved and error.status in (400, 404):  # this object is no longer there
                    after, is_saved = None, False
                    continue
                is_of_one = error.status is None or error.status >= 500
                if is_of_one and limit > 1:
                    limit = max(1, limit // 5)
                    continue
                end = {"asc": "after", "desc": "before"}[order]
                self.problem(f"{path}: what comes {end} {after or 'all others'}: {error}")
                if order == "desc" or not is_of_one:
                    return
                order, asked, repeats, limit, after = "desc", set(), 0, largest, None
                continue
            is_saved, new = False, []
            for each in page["data"]:
                key = id_of(each) or dump(each)
                if key not in known:
                    known.add(key)
                    new.append(each)
            if new:
                yield order, new
            more = page.get("has_more")
            if more is False or (more is None and not page["data"]):
                return
            if order == "desc" and len(new) < len(page["data"]):
                return
            last = id_of(page["data"][-1]) if page["data"] else None
            last = last or id_of({"id": page.get("last_id")})
            if last is None or last in asked:
                repeats += 1
                if repeats > REPEATS:
                    self.problem(f"{path}: pages repeat after {after or 'the beginning'}")
                    return
                time.sleep(0.1 * repeats)
            else:
                asked.add(last)
                after, repeats = last, 0


def said_in(error: HTTPError) -> str:
    """Return what the API says of an error."""
    try:
        text = error.read(100_000).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return str(error.reason)
    with suppress(ValueError, RecursionError):
        text = str(get(load(text), "error", "message") or text)
    return " ".join(text.split())[:300] or str(error.reason)


def wait_asked_for(headers: Any) -> float:
    """Return the seconds that Retry-After asks for; -1 if it asks for none."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        given = headers.get(name)
        if given is None:
            continue
        try:
            seconds = float(given) / unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(given).timestamp() - time.time()
            except (TypeError, ValueError, IndexError, OverflowError):
                continue
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), LONGEST_WAIT)
    return -1.0


def files_named(value: Any) -> Iterator[str]:
    """Yield the ids of the files that an object of the API names."""
    if isinstance(value, dict):
        file_id = value.get("file_id")
        if isinstance(file_id, str) and FILE_ID.fullmatch(file_id):
            yield file_id  # an item of the user's own may have another text under this key
        source_id = id_of(value) if value.get("type") == "file_id" else None
        if source_id:
            yield source_id
        for each in value.values():
            if isinstance(each, (dict, list)):
                yield from files_named(each)
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, (dict, list)):
                yield from files_named(each)


def odd(value: Any, kind: str) -> Iterator[str]:
    """Yield what is not as the API's description has it; such an object is saved all the same."""
    if not isinstance(value, dict) or id_of(value) is None:
        yield "has no id"
        return
    if value.get("object") != kind:
        yield f"is of the unknown kind {value.get('object')!r}"
    source = get(value, "data_source", "source")
    messages = get(value, "data_source", "input_messages")
    found = [("data_source_config", get(value, "data_source_config"))] if kind == "eval" else []
    found += [("data_source", get(value, "data_source"))] if kind == "eval.run" else []
    found += [("source", source)] if source is not None else []
    found += [("input_messages", messages)] if messages is not None else []
    found += [("testing_criteria", each) for each in listed(value.get("testing_criteria"))]
    for key, each in found:
        if get(each, "type") not in KINDS[key]:
            yield f"has {key} of the unknown type {get(each, 'type')!r}"


class Items:
    """The output items of a run in their file, a line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: set[str] = set()
        self.files: set[str] = set()
        self.odd: list[str] = []
        self.last: str | None = None
        if path.exists():
            with open(path, "r+b") as file:
                end = 0
                for line in file:
                    try:
                        value = load(line.decode("utf-8"))
                    except (ValueError, RecursionError):
                        break
                    if not line.endswith(b"\n"):
                        break
                    end += len(line)
                    self.known.add(id_of(value) or dump(value))
                    self.note(value)
                file.truncate(end)  # a line that was cut short when the program was killed

    def note(self, value: Any) -> None:
        """Remember of an item what is needed later."""
        self.last = id_of(value) or self.last
        self.files.update(files_named(value))
        self.odd += [f"item {id_of(value)} {what}" for what in odd(value, "eval.run.output_item")]

    def append(self, values: list[Any], secret: Secret) -> None:
        """Append items."""
        for value in values:
            self.note(value)
        lines = "".join([secret.hide_data(dump(value)) + "\n" for value in values])
        with open(self.path, "ab", buffering=0) as file:
            data = memoryview(lines.encode("utf-8"))
            while data:
                data = data[file.write(data) :]


def download(args: argparse.Namespace) -> int:
    """Save everything, and return the exit code."""
    api = Api(args.base_url, read_key(), args.project, args.organization)
    folder = Path(args.folder)
    scope = "".join(
        f", {name} {value}"
        for name, value in (("project", args.project), ("organization", args.organization))
        if value
    )
    scope += f", only {', '.join(args.eval)}" if args.eval else ""
    scope += f", runs since {args.since:%Y-%m-%d}" if args.since else ""
    api.say(f"Downloading the hosted Evals of {api.base}{scope} to {folder}/")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "wb") as lock_file:
        lock(lock_file, folder)
        stopped = ""
        try:
            write_index(api, folder, args, is_complete=False)
            save_all(api, folder, args)
        except StoppedError as error:
            stopped = str(error)
            api.problem(f"stopped: {error}")
        found = write_index(api, folder, args, is_complete=not api.problems)
    counts = found["counts"]
    said = ", ".join(
        plural(counts[key], key[:-1].replace("_", " "))
        for key in ("evals", "runs", "output_items", "files")
    )
    api.say(f"Saved in {folder}/: {said}")
    if api.secret.hidden:
        hidden = plural(api.secret.hidden, "place")
        api.say(f"Your key was in {hidden} of what the API sent; *** is there instead.")
    if api.problems:
        where = folder / "index.json"
        name_problems("Not saved, or not as the API describes it:", api.problems, where)
        say("Run the same command again to try these again; what is saved stays.")
    return (2 if not counts["evals"] else 1) if stopped else 1 if api.problems else 0


def save_all(api: Api, folder: Path, args: argparse.Namespace) -> None:
    """Save evals with their runs, then what each run has, then the files."""
    api.say("Reading which evals and runs there are ...")
    wanted: set[str] = set()  # files
    plan = []  # what is to be read: folder, eval, runs and their numbers of items
    for found in evals(api, args.eval):
        name = file_name(id_of(found) or dump(found))
        write_whole(folder / name / "eval.json", api.secret.hide_data(dump(found)) + "\n")
        wanted.update(files_named(found))
        for what in odd(found, "eval"):
            api.problem(f"eval {id_of(found)} {what}; it is saved as it came")
        runs = []
        for run in runs_of(api, id_of(found), args.since):
            path = folder / name / f"{file_name(id_of(run) or dump(run))}.run.json"
            write_whole(path, api.secret.hide_data(dump(run)) + "\n")
            wanted.update(files_named(run))
            for what in odd(run, "eval.run"):
                api.problem(f"run {id_of(run)} {what}; it is saved as it came")
            run_id = id_of(run)
            if run_id:
                total = whole(get(run, "result_counts", "total"))
                runs.append((run_id, path, total, run.get("status")))
        plan.append((found, runs))
    count = sum(len(runs) for _, runs in plan)
    items = sum(run[2] for _, runs in plan for run in runs)
    listed_items = plural(items, "output item")
    api.say(f"To save: {plural(len(plan), 'eval')}, {plural(count, 'run')}, {listed_items}")
    for found, runs in plan:
        number = plural(sum(run[2] for run in runs), "item")
        api.say(f"  {id_of(found)} {get(found, 'name')!r}: {plural(len(runs), 'run')}, {number}")
    for found, runs in plan:
        for run_id, path, total, status in runs:
            wanted |= save_items(api, id_of(found), run_id, path, total, status)
    for file_id in sorted(wanted):
        save_file(api, folder / "files", file_id)


def evals(api: Api, ids: list[str]) -> Iterator[Any]:
    """Yield each eval, or those with these ids."""
    if not ids:
        for _, page in api.listing("/evals", set()):
            yield from page
    for eval_id in ids:
        try:
            yield api.json(path_of("evals", eval_id))
        except RequestError as error:  # noqa: PERF203 - each request is one
            api.problem(f"eval {eval_id}: {error}")


def runs_of(api: Api, eval_id: str | None, since: datetime | None) -> Iterator[Any]:
    """Yield the runs of an eval."""
    if eval_id is not None:
        path = path_of("evals", eval_id, "runs")
        for _, page in api.listing(path, set(), limit=PAGE_OF_RUNS):
            for run in page:
                if since is None or whole(get(run, "created_at")) >= since.timestamp():
                    yield run


def whole(number: Any) -> int:
    """Return a number of the API as an integer; 0 for anything else."""
    try:
        return int(float(number))
    except (TypeError, ValueError, OverflowError):
        return 0


def save_items(
    api: Api, eval_id: str | None, run_id: str, path: Path, total: int, status: Any
) -> set[str]:
    """Save the output items of a run that are not saved yet, and return the files they name."""
    items = Items(items_path(path))
    # What came from the end, as the API could not give an item in the middle.
    rest = Items(items_path(path, "rest"))
    known = items.known | rest.known
    listing = path_of("evals", eval_id or "", "runs", run_id, "output_items")
    told = time.monotonic()
    items.append([], api.secret)
    for order, page in api.listing(listing, known, items.last):
        (items if order == "asc" else rest).append(page, api.secret)
        if time.monotonic() - told > 5:
            told = time.monotonic()
            api.say(f"  {run_id}: {len(known):,} of {total:,}")
    for what in items.odd + rest.odd:
        api.problem(f"run {run_id}: {what}; it is saved as it came")
    if len(known) < total and status == "completed":
        api.problem(f"run {run_id}: the API counts {total:,} items and gave {len(known):,}")
    api.say(f"{run_id}: {plural(len(known), 'item')}")
    return items.files | rest.files


def items_path(run: Path, kind: str = "items") -> Path:
    """Return where the output items of a run are."""
    return run.with_name(run.name[: -len("run.json")] + f"{kind}.jsonl")


def save_file(api: Api, folder: Path, file_id: str) -> None:
    """Save what the API knows of a file, and its bytes."""
    about, content = folder / f"{file_name(file_id)}.json", folder / f"{file_name(file_id)}.content"
    if about.exists() and content.exists():
        return
    path = path_of("files", file_id)
    part = content.with_name(content.name + ".part")

    def read(reply: Any) -> int:
        with open(part, "wb") as target:
            size = api.secret.copy(reply, target)
        length = reply.headers.get("content-length")
        if length is not None and size != whole(length):
            raise ValueError(f"it ends after {size:,} of {length} bytes")
        return size

    try:
        value = api.json(path)
        write_whole(about, api.secret.hide_data(dump(value)) + "\n")
        size = api.ask(f"{path}/content", read)
        os.replace(part, content)
    except RequestError as error:
        api.problem(f"file {file_id}: {error}")
        with suppress(FileNotFoundError):
            part.unlink()
        return
    api.say(f"{file_id}: {size:,} bytes")


def write_index(api: Api, folder: Path, args: argparse.Namespace, is_complete: bool) -> Any:
    """Write the list of what the folder has, with counts, and return it."""
    counts: Counter[str] = Counter()
    found: Any = {
        "from": api.base,
        "project": args.project,
        "organization": args.organization,
        "written": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "complete": is_complete,
        "counts": counts,
        "evals": [],
        "files": [],
        "problems": api.problems,
    }
    for key in ("evals", "runs", "output_items", "files"):
        counts[key] = 0
    for path in sorted(folder.glob("*/eval.json")):
        value = read_whole(path)
        entry = {"id": id_of(value), "name": get(value, "name"), "folder": path.parent.name}
        entry["runs"] = runs = []
        for run_path in sorted(path.parent.glob("*.run.json")):
            run = read_whole(run_path)
            keys = ("id", "name", "model", "status")
            about = {**{key: get(run, key) for key in keys}, "file": run_path.name, "items": 0}
            for kind in ("items", "rest"):
                about["items"] += lines_in(items_path(run_path, kind))
            about["items_by_the_api"] = whole(get(run, "result_counts", "total"))
            counts["output_items"] += about["items"]
            runs.append(about)
        counts["evals"] += 1
        counts["runs"] += len(runs)
        found["evals"].append(entry)
    for path in sorted(folder.glob("files/*.content")):
        value = read_whole(path.with_suffix(".json"))
        entry = {"id": id_of(value), "filename": get(value, "filename"), "file": path.name}
        found["files"].append({**entry, "bytes": path.stat().st_size})
        counts["files"] += 1
    write_whole(folder / "index.json", api.secret.hide(json.dumps(found, indent=2)) + "\n")
    return found


def lines_in(path: Path) -> int:
    """Return how many lines a file has; 0 if it is not there."""
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def lock(file: BinaryIO, folder: Path) -> None:
    """Let nobody else write into the folder while the file is open, except on Windows."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"{folder}: another download into this folder is running; wait until it ends")


def read_key() -> str:
    """Return the key."""
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key:
        sys.exit("OPENAI_API_KEY is not set; set it to a key that may read your Evals and files")
    if not re.fullmatch("[!-~]+", key):
        sys.exit("OPENAI_API_KEY has a character that no key has, such as a blank; copy it again")
    return key


def name_problems(title: str, problems: list[str], where: Path) -> None:
    """Print the first problems; a file has all of them."""
    say(title)
    for each in problems[:NAMED]:
        say(f"  {each}")
    if len(problems) > NAMED:
        say(f"  and {len(problems) - NAMED:,} more: {where}")


# --- suites: what multiturn reads, made of what was downloaded -----------------------------------


def suites(args: argparse.Namespace) -> int:
    """Write a suite and the past answers of each run, and return the exit code."""
    source, target = Path(args.folder), Path(args.to)
    if not (source / "index.json").exists():
        sys.exit(f"{source}/ has no index.json; run download first, or name its folder by --folder")
    problems: list[str] = []
    missing = dict.fromkeys(args.eval)
    for eval_path in sorted(source.glob("*/eval.json")):
        found = read_whole(eval_path)
        if args.eval and id_of(found) not in args.eval:
            continue
        missing.pop(id_of(found), None)
        answer = f"{{{{item.{args.answer}}}}}" if args.answer else answer_of(found)
        runs = sorted(eval_path.parent.glob("*.run.json"))
        if not runs:
            say(f"{id_of(found)}: no runs, so there are no items")
        for path in runs:
            write_suite(Run(path, found), answer, target / eval_path.parent.name, problems)
    problems += [f"eval {each}: {source}/ does not have it" for each in missing]
    where = target / "left-out.txt"
    with suppress(FileNotFoundError):
        where.unlink()
    if problems:
        write_whole(where, "\n".join(problems).encode("utf-8", "replace").decode() + "\n")
        name_problems("Left out:", problems, where)
    return 1 if problems else 0


class Run:
    """A run that was downloaded."""

    def __init__(self, path: Path, found: Any) -> None:
        self.path = path
        self.value = read_whole(path)
        self.id = id_of(self.value) or path.name
        self.source = get(self.value, "data_source")
        self.model = get(self.value, "model") or get(self.source, "model")
        self.name = f"{get(found, 'name') or ''} · {get(self.value, 'name') or ''}"

    def items(self) -> Iterator[Any]:
        """Yield each output item."""
        for kind in ("items", "rest"):
            path = items_path(self.path, kind)
            if path.exists():
                with open(path, encoding="utf-8", newline="\n") as lines:
                    yield from map(load, lines)

    def rows(self) -> Iterator[Any]:
        """Yield each row of the data that the run was started with, as far as the export has it."""
        source = get(self.source, "source")
        if get(source, "type") == "file_content":
            yield from listed(get(source, "content"))
        elif get(source, "type") == "file_id" and id_of(source):
            path = self.path.parent.parent / "files" / f"{file_name(source['id'])}.content"
            if path.exists():
                with open(path, encoding="utf-8-sig", newline="\n") as lines:
                    yield from (load(line) for line in lines if line.strip())


def answer_of(found: Any) -> str | None:
    """Return the template of the right answer, if a grader compares the whole answer with one."""
    criteria = []
    for each in listed(get(found, "testing_criteria")):
        inner = get(each, "graders")
        nested = isinstance(inner, dict) and "type" not in inner
        criteria += list(inner.values()) if nested else [inner if inner else each]
    for each in criteria:
        is_alike = get(each, "type") == "text_similarity"
        if is_alike or get(each, "operation") in ("eq", "like", "ilike"):
            for given, answer in (("input", "reference"), ("reference", "input")):
                template = get(each, answer)
                is_answer = ANSWER.fullmatch(str(get(each, given) or "").strip()) is not None
                if is_answer and TEMPLATE.search(template or "") and "sample." not in template:
                    return str(template)
    return None


def write_suite(run: Run, answer: str | None, folder: Path, problems: list[str]) -> None:
    """Write the suite of a run, and its past answers."""
    name = run.path.name[: -len(".run.json")]
    suite, results = folder / f"{name}.eval.jsonl", folder / f"{name}.results.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    ids: set[str] = set()
    done: Counter[str] = Counter()  # rows that have been run
    parts = [path.with_name(path.name + ".part") for path in (suite, results)]
    with open(parts[0], "wb") as cases, open(parts[1], "wb") as answers:

        def write(value: Any, row: Any, where: str, given: str) -> None:
            case_id = given if given and given not in ids else where
            while case_id in ids:
                case_id += "+"
            try:
                case = case_of(run, value, row, answer, counts)
                lines = [{"id": case_id, **case}]
                if value is not None:
                    lines.append(result_of(run, value, lines[0], suite))
                data = [(dump(fit(line)) + "\n").encode("utf-8") for line in lines]
            except LeftOutError as error:
                problems.append(f"{run.id}: {where}: {error}")
                return
            ids.add(case_id)
            for number, line in enumerate(data):
                (cases, answers)[number].write(line)
                counts[("cases", "answers")[number]] += 1

        for value in run.items():
            row = row_of(get(value, "datasource_item"))
            done[json.dumps(row, sort_keys=True)] += 1
            number = get(value, "datasource_item_id")
            given = str(number) if is_name(number) else ""
            write(value, row, id_of(value) or f"item-{len(ids)}", given)
        if get(run.source, "input_messages") is not None:
            for number, row in rows_left(run, done, problems):
                write(None, row, f"row-{number}", "")
    for part, path, key in zip(parts, (suite, results), ("cases", "answers")):
        if counts[key]:
            os.replace(part, path)
        else:
            part.unlink()
            with suppress(FileNotFoundError):
                path.unlink()
    expected_answers = plural(counts["expected"], "expected answer")
    said = f"{plural(counts['cases'], 'case')}, {expected_answers}"
    say(f"{suite.as_posix()}: {said}, {plural(counts['answers'], 'past answer')} ({run.name})")


def rows_left(run: Run, done: Counter[str], problems: list[str]) -> list[tuple[int, Any]]:
    """Return the rows of the data of a run that it has no output item of, with their numbers."""
    try:
        rows = [row_of(each) for each in run.rows()]
    except ValueError as error:
        problems.append(f"{run.id}: its file of data is not JSON Lines: {error}")
        return []
    left = []
    if len(rows) > sum(done.values()):
        for number, row in enumerate(rows):
            key = json.dumps(row, sort_keys=True)
            done[key] -= 1
            if done[key] < 0:
                left.append((number, row))
    return left


def row_of(value: Any) -> Any:
    """Return the item of a row, which may stand beside its sample."""
    is_both = isinstance(value, dict) and isinstance(value.get("item"), dict)
    return value["item"] if is_both and value.keys() <= {"item", "sample"} else value


def is_name(value: Any) -> bool:
    """Return whether a value can be an id, or the name of a tool."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def fit(value: Any, levels: int = DEEPEST) -> Any:
    """Return a value as a suite may have it: numbers that no program reads become text.

    Raises:
        LeftOutError: a text has half of a character, or there are too many levels.
    """
    if not levels:
        raise LeftOutError(f"nested deeper than {DEEPEST} levels")
    if isinstance(value, Number):
        is_read = len(value) <= 300 and math.isfinite(float(value))
        return value if is_read else str(value)
    if isinstance(value, str) and not value.isascii():
        half = re.search("[\ud800-\udfff]", value)
        if half:
            raise LeftOutError(f"\\u{ord(half[0]):x} is half of a character")
    if isinstance(value, dict):
        return {fit(key): fit(each, levels - 1) for key, each in value.items()}
    return [fit(each, levels - 1) for each in value] if isinstance(value, list) else value


def case_of(run: Run, value: Any, row: Any, answer: str | None, counts: Counter[str]) -> Any:
    """Return a case of a suite, without its id.

    Args:
        run: the run.
        value: the output item; None for a row that was never run.
        row: the item of the data source.
        answer: the template of the right answer, if there is one.
        counts: gets the number of expected answers.

    Raises:
        LeftOutError: a suite cannot have it.
    """
    sent = get(value, "sample", "input")
    messages = messages_of(sent if sent else filled(run, row))
    if not any(each["role"] != "system" and has_content(each) for each in messages):
        raise LeftOutError(
            "there is nothing to answer: only system messages have content, if any has"
        )
    case: Any = {"input_messages": messages}
    tools = tools_of(run)
    if tools:
        case["tools"] = tools
    check_calls(messages, [tool["name"] for tool in tools])
    if answer is not None:
        whole_template = TEMPLATE.fullmatch(answer.strip())
        try:
            wanted = resolve(whole_template[1], row) if whole_template else fill(answer, row)
        except LeftOutError:
            pass  # an item without the answer
        else:
            case["expected_messages"] = [expected(wanted)]
            counts["expected"] += 1
    case["metadata"] = {"item": row, "run": run.id, "model": model_of(run, value)}
    return case


def has_content(message: Any) -> bool:
    """Return whether a message says, calls or returns something."""
    content = message.get("content")
    texts = content if isinstance(content, list) else [content]
    is_said = any(not isinstance(each, str) or each.strip() for each in texts if each is not None)
    return is_said or "tool_calls" in message or "tool_call_id" in message


def expected(wanted: Any) -> Any:
    """Return the expected message: what is no text is there as JSON, and as it was."""
    if isinstance(wanted, str) and not isinstance(wanted, Number):
        return {"role": "assistant", "content": wanted}
    return {"role": "assistant", "content": dump(wanted), "reference": wanted}


def model_of(run: Run, value: Any) -> Any:
    """Return the name of the model that has answered."""
    return get(value, "sample", "model") or run.model or None


def filled(run: Run, row: Any) -> Any:
    """Return the messages that the templates of a run make of an item that was never sent."""
    given = get(run.source, "input_messages")
    if get(given, "type") == "template":
        return [fill(each, row) for each in listed(given.get("template"))]
    if get(given, "type") == "item_reference":
        path = str(given.get("item_reference"))
        braces = TEMPLATE.fullmatch(path.strip())
        return resolve(braces[1] if braces else path, row)
    raise LeftOutError("it has no messages: none were sent, and its run has no templates")


def fill(value: Any, row: Any) -> Any:
    """Return a value with the templates in its texts filled; what is no text becomes JSON."""
    if isinstance(value, dict):
        return {key: fill(each, row) for key, each in value.items()}
    if isinstance(value, list):
        return [fill(each, row) for each in value]
    if not isinstance(value, str) or isinstance(value, Number):
        return value

    def written(match: Any) -> str:
        found = resolve(match[1], row)
        return str(found) if isinstance(found, str) else dump(found)

    return TEMPLATE.sub(written, value)


def resolve(path: str, row: Any) -> Any:
    """Return what ``item.a.b[0]`` means."""
    found, names, at = row, [], 0
    while at < len(path):
        step = STEP.match(path, at)
        if step is None:
            raise LeftOutError(f"the template {{{{{path}}}}} is not understood")
        names.append(step[1] or step[2] or step[4] or "")
        at = step.end()
    if names[:1] != ["item"]:
        raise LeftOutError(f"the template {{{{{path}}}}} does not name the item")
    for name in names[1:]:
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise LeftOutError(f"the template {{{{{path}}}}} names what the item does not have")
    return found


def messages_of(given: Any) -> list[Any]:
    """Return messages of the API, or items of its Responses API, as a suite has them."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[Any] = []
    for each in given if isinstance(given, list) else [given]:
        kind = get(each, "type") or "message"
        if kind == "function_call":
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant"})
            messages[-1].setdefault("tool_calls", []).append(call_of(each))
        elif kind == "function_call_output":
            result = {"role": "tool", "tool_call_id": each.get("call_id")}
            messages.append({**result, "content": content_of(each.get("output"))})
        elif kind == "message" and isinstance(each, dict):
            messages.append(message_of(each))
        else:
            raise LeftOutError(f"a message of the type {kind!r} cannot be in a suite")
    return messages


def message_of(given: Any) -> Any:
    """Return a message as a suite has it."""
    role = {"developer": "system"}.get(str(given.get("role")), given.get("role"))
    if role not in ("system", "user", "assistant", "tool"):
        raise LeftOutError(f"there is no role {role!r} in a suite")
    if given.get("function_call"):
        raise LeftOutError("a function_call of OpenAI's old form cannot be in a suite")
    content = content_of(given.get("content"))
    if role == "system" and not all(isinstance(each, str) for each in listed(content)):
        raise LeftOutError("a system message can only have text")
    calls = [call_of(each) for each in listed(given.get("tool_calls"))]
    message = {"role": role}
    if content is not None or not calls:
        message["content"] = "" if content is None else content
    if calls:
        message["tool_calls"] = calls
    if role == "tool" and given.get("tool_call_id") is not None:
        message["tool_call_id"] = given["tool_call_id"]
    return message


def content_of(given: Any) -> Any:
    """Return the content of a message as a suite has it: a text, or a list of parts."""
    if given is None or (isinstance(given, str) and not isinstance(given, Number)):
        return given
    parts = [part_of(each) for each in (given if isinstance(given, list) else [given])]
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else parts


def part_of(given: Any) -> Any:
    """Return a part of a content: a text, or an image, a document or audio."""
    if isinstance(given, str):
        return str(given)
    kind = get(given, "type")
    for key in ("text", "refusal"):
        if kind in ("text", "input_text", "output_text", "refusal") and isinstance(
            get(given, key), str
        ):
            return str(given[key])
    inner = get(given, str(kind))
    if kind in ("input_image", "image_url"):
        image = get(given, "image_url")
        detail = get(image, "detail") or get(given, "detail")
        about = {"detail": detail} if detail else {}
        return {**media("image", image if isinstance(image, str) else get(image, "url")), **about}
    if kind == "input_audio" and isinstance(get(inner, "data"), str):
        return media("audio", f"data:audio/{get(inner, 'format')};base64,{inner['data']}")
    if kind in ("input_file", "file"):
        file = inner if isinstance(inner, dict) else given
        name = {"name": file["filename"]} if file.get("filename") else {}
        address = file.get("file_data") or file.get("file_url")
        is_data = str(address).startswith("data:")
        return {**media("file", address), **(name if is_data else {})}
    raise LeftOutError(f"a part of the type {kind!r} cannot be in a suite")


def media(kind: str, address: Any) -> Any:
    """Return an image, a document or audio by its address."""
    if not isinstance(address, str) or not address.startswith(("https:", "data:")):
        raise LeftOutError(f"its {kind} has no address with https: or data:")
    return {"type": kind, "value": address}


def call_of(given: Any) -> Any:
    """Return a call of a tool; arguments that are no JSON object stay text."""
    function = get(given, "function") or given
    arguments = get(function, "arguments")
    try:
        value = load(arguments) if isinstance(arguments, str) and arguments.strip() else arguments
    except (ValueError, RecursionError):
        value = arguments
    name = get(function, "name")
    call_id = get(given, "call_id") or get(given, "id")
    return {"id": call_id, "name": name, "arguments": {} if value in (None, "") else value}


def check_calls(messages: list[Any], tools: list[str]) -> None:
    """Refuse calls that a suite cannot have."""
    waiting: list[str] = []
    for message in messages:
        answered = message.get("tool_call_id")
        if answered is not None:
            if answered not in waiting:
                raise LeftOutError(f"the result of {answered!r} has no call before it")
            waiting.remove(answered)
        elif waiting:
            raise LeftOutError(f"the call {waiting[0]!r} has no result")
        for call in message.get("tool_calls", []):
            if not is_name(call["id"]) or not is_name(call["name"]):
                raise LeftOutError("a call has no id or no name")
            if not isinstance(call["arguments"], dict):
                raise LeftOutError(f"the arguments of {call['id']!r} are not a JSON object")
            if tools and call["name"] not in tools:
                raise LeftOutError(f"the tool {call['name']!r} is called, and not among its tools")
            waiting.append(call["id"])
    if waiting and "tool_calls" not in messages[-1]:
        raise LeftOutError(f"the call {waiting[0]!r} has no result")


def tools_of(run: Run) -> list[Any]:
    """Return the functions that the model could call."""
    found = []
    for tool in listed(get(run.source, "sampling_params", "tools")):
        function = get(tool, "function") or tool
        if get(tool, "type") == "function" and is_name(get(function, "name")):
            keys = ("name", "description", "parameters", "strict")
            found.append({key: function[key] for key in keys if function.get(key) is not None})
    return found


def result_of(run: Run, value: Any, case: Any, suite: Path) -> Any:
    """Return a past answer as multiturn writes results, and with the grades it got."""
    sample = get(value, "sample")
    error, (response, kind, calls) = get(sample, "error"), answer_in(sample)
    failure = None
    if get(error, "message") or get(error, "code"):
        failure = ": ".join(str(error[key]) for key in ("code", "message") if error.get(key))
    elif response is None:
        failure = "the export has no answer of this item"
    usage, reason = {}, get(sample, "finish_reason")
    for ours, theirs in (("input", "prompt"), ("output", "completion"), ("cached", "cached")):
        if get(sample, "usage", f"{theirs}_tokens") is not None:
            usage[f"{ours}_tokens"] = whole(sample["usage"][f"{theirs}_tokens"])
    line = {
        "suite": suite.as_posix(),
        "id": case["id"],
        "target": str(model_of(run, value) or run.id),
        "response": None if failure else response,
        "finish_reason": None if reason is None else str(reason),
        "usage": usage,
        "latency_ms": None,
        "retries": 0,
        "repairs": [],
        "error": {"type": "provider", "message": failure} if failure else None,
        "raw_request": {
            "question": question_of(case["input_messages"]),
            "guidelines": [],
            "chat_prompt": [shown(each) for each in case["input_messages"]],
            **({"tools": case["tools"]} if "tools" in case else {}),
        },
        "digest": "",
        "answer": None if failure else kind,
    }
    if calls:
        line["tool_calls"] = calls
    if "expected_messages" in case:
        line["expected_messages"] = case["expected_messages"]
    return {**line, "grades": get(value, "results"), "status": get(value, "status")}


def answer_in(sample: Any) -> tuple[str | None, str, list[Any]]:
    """Return what a model said at last, the kind of the answer, and all calls of tools.

    What it thought, and calls of OpenAI's own tools, are in the export only.
    """
    output, calls = get(sample, "output"), []
    response = output if isinstance(output, str) else get(sample, "output_text")
    refused = get(sample, "finish_reason") == "content_filter"
    for said in listed(output):
        content = get(said, "refusal") or get(said, "content")
        parts = content if isinstance(content, list) else [content]
        texts = [get(each, "text") or get(each, "refusal") or each for each in parts]
        texts = [str(each) for each in texts if isinstance(each, str)]
        response = "\n".join(texts) if texts else response or ""
        refused = refused or any(get(each, "refusal") for each in [said, *parts])
        calls += [call_of(each) for each in listed(get(said, "tool_calls"))]
        calls += [call_of(said)] if get(said, "type") == "function_call" else []
    response = response if isinstance(response, str) else None
    if refused:
        return response, "refusal", calls
    is_said = bool(response and response.strip())
    return response, "text" if is_said else "calls" if calls else "empty", calls


def shown(message: Any) -> Any:
    """Return a message as results have it: media by their addresses, without bytes."""
    content = message.get("content")
    if isinstance(content, list):
        content = [
            each
            if isinstance(each, str)
            else {"kind": each["type"], "url": each["value"]}
            if each["value"].startswith("https:")
            else {"kind": each["type"]}
            for each in content
        ]
    return {**message, "content": "" if content is None else content}


def question_of(messages: list[Any]) -> str:
    """Return messages as a transcript."""
    lines = []
    for message in messages:
        content = message.get("content") or ""
        for part in content if isinstance(content, list) else [content]:
            text = part if isinstance(part, str) else f"[{part['type']}]"
            lines.append(f"[{message['role'].capitalize()}]: {text}")
    return lines[0].partition(": ")[2] if len(messages) == len(lines) == 1 else "\n".join(lines)


# --- the command line ----------------------------------------------------------------------------


def main(words: list[str] | None = None) -> int:
    """Run the command; the exit code is 1 if something is missing, and 2 without a start."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("download", help="save everything, as the API gives it")
    second = commands.add_parser("suites", help="make suites of it, without the network")
    for command in (first, second):
        command.add_argument("--folder", default="openai-evals", help="of the export (%(default)s)")
        command.add_argument(
            "--eval", action="append", default=[], metavar="ID", help="only this eval; repeatable"
        )
    env = os.environ.get
    first.add_argument(
        "--since", type=day, metavar="DAY", help="only runs since a day, as in 2026-06-01"
    )
    first.add_argument("--project", default=env("OPENAI_PROJECT_ID"), help="id of the project")
    first.add_argument(
        "--organization", default=env("OPENAI_ORG_ID"), help="id of the organization"
    )
    first.add_argument(
        "--base-url",
        default=env("OPENAI_BASE_URL") or API,
        help="of the API, for proxies (%(default)s)",
    )
    second.add_argument("--to", default="evals", help="folder of the suites (%(default)s)")
    second.add_argument(
        "--answer",
        metavar="FIELD",
        help="field of the items with the right answer, where no grader names it",
    )
    args = parser.parse_args(words)
    if args.command == "suites":
        return suites(args)
    parts = urlsplit(args.base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        parser.error("--base-url must begin with https:// or http://")
    if "@" in parts.netloc or parts.query or parts.fragment:
        parser.error("--base-url must have no password, '?' or '#'; the key is in OPENAI_API_KEY")
    return download(args)


def day(text: str) -> datetime:
    """Return the beginning of a day, in UTC."""
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=timezone.utc)


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Stopped; run the same command again to go on.", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        sys.exit(f"{error.filename or 'this computer'}: {error.strerror or error}")

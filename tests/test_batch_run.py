"""A run in batches: every case is sent once and answered once, whatever happens in between.

The vendor is an object in this process; tests/test_batch.py asks the APIs through their SDKs.
"""

import json
import os
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from msgspec import Struct
from msgspec.structs import replace

from batch_server import answer_to, prompt_of, text_for
from multiturn import Case, MultiturnError, ProviderError, load_pipeline, load_suite
from multiturn.engine import batches
from multiturn.engine.batches import Batches, BatchRun, BatchState
from multiturn.engine.run import Run
from multiturn.providers.anthropic.provider import AnthropicBatchApi
from multiturn.providers.batch_api import BatchApi, BatchPart, BatchSearch, BatchStatus
from multiturn.providers.openai.provider import OpenAIBatchApi
from multiturn.providers.targets import batches_of
from running import by_id, write_suite
from vendors import anthropic, azure, gemini, openai

_CHANGES = {"write", "flush", "truncate", "close", "__exit__", "replace", "unlink"}
PROMPTS = ("one", "two", "three", "one")  # the last is a duplicate of the first
ALL = {f"c{number}": text_for(prompt) for number, prompt in enumerate(PROMPTS)}
ONCE = Counter(set(PROMPTS))
PIPELINE = load_pipeline("spec")


class Sent(Struct):
    """A batch as the vendor knows it."""

    token: str
    bodies: dict[str, Any]  # by the digests of the requests
    looks: int = 0
    canceled: bool = False


class Vendor(OpenAIBatchApi):
    """Keeps files and batches in memory, and takes two requests in a batch."""

    most_requests = 2

    def __init__(self, *, has_names: bool = True) -> None:
        super().__init__(None)
        self.has_names = has_names  # batches have files, and are found by their tokens
        self.lag = 0  # how often a batch is looked at before it ends
        self.hidden = 0  # how often a list does not have the newest batch
        self.troubles: list[tuple[str, bool, ProviderError]] = []
        self.watch: Callable[[], object] = lambda: None  # called before and after each operation
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Sent] = {}

    def sent(self) -> Counter[str]:
        """Return how often each request was sent, by its prompt."""
        return Counter(
            prompt_of(body) for batch in self.batches.values() for body in batch.bodies.values()
        )

    def trouble(self, operation: str, *, acted: bool = False, times: int = 1, **why: Any) -> None:
        """Let the next calls of an operation fail, after it was done or before."""
        self.troubles += [(operation, acted, ProviderError("told to", **why))] * times

    def call(self, operation: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        """Do what an operation does, in place of ``Batches.call``."""
        troubles = [each for each in self.troubles if each[0] == operation.__name__][:1]
        self.watch()
        for trouble in troubles:
            self.troubles.remove(trouble)
        for _, acted, error in troubles:
            if not acted:
                raise error
        try:
            operation(*arguments).send(None)
        except StopIteration as done:  # none of them waits
            self.watch()
            for _, _, error in troubles:
                raise error from None
            return done.value

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        if not self.has_names:
            return replace(part, after=next(reversed(self.batches), ""))
        name = f"file-{len(self.files)}"
        self.files[name] = file.read()
        return replace(part, file=name)

    async def create(self, part: BatchPart, file: BinaryIO | None) -> str:
        if not part.file and file is not None:
            file.seek(0)
            self.files[""] = file.read()
        lines = [json.loads(line) for line in self.files[part.file].splitlines()]
        bodies = {line["custom_id"]: line["body"] for line in lines}
        name = f"batch-{len(self.batches)}"
        self.batches[name] = Sent(part.token, bodies)
        return name

    async def find(
        self, part: BatchPart, others: Iterable[str], digests: Callable[[], set[str]]
    ) -> BatchSearch:
        undecided = []
        self.hidden, missing = 0, self.hidden
        for name, batch in list(self.batches.items())[: -missing or None]:
            if self.has_names and batch.token == part.token:
                return BatchSearch(name)
            if self.has_names or name in others or len(batch.bodies) != part.requests:
                continue
            if not self._has_ended(batch):
                undecided.append(name)
            elif set(batch.bodies) == digests():
                return BatchSearch(name)
        return BatchSearch(undecided=tuple(undecided))

    def _has_ended(self, batch: Sent) -> bool:
        batch.looks += 1
        return batch.looks > self.lag

    async def status_of(self, batch: str) -> BatchStatus:
        if batch not in self.batches:
            raise ProviderError("HTTP 404", kind="http", status=404)
        ended = self._has_ended(self.batches[batch])
        return BatchStatus(state="ended" if ended else "running", ended=ended, files=(batch,))

    async def fetch(self, status: BatchStatus, file: BinaryIO) -> None:
        batch = self.batches[status.files[0]]
        for digest, body in reversed(batch.bodies.items()):
            if not batch.canceled:
                response = {"status_code": 200, "body": answer_to("azure", body)}
                line = {"custom_id": digest, "response": response}
                file.write(json.dumps(line).encode() + b"\n")

    async def cancel(self, batch: str) -> None:
        self.batches[batch].canceled = True


@pytest.fixture(params=[True, False], ids=["batches with names", "batches without names"])
def vendor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Vendor:
    return serve(Vendor(has_names=request.param), monkeypatch)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Vendor:
    """A vendor where batches have names."""
    return serve(Vendor(), monkeypatch)


def serve(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> Vendor:
    """Have each target ask a vendor."""

    def api(provider: Any) -> BatchApi:
        vendor.provider = provider
        return vendor

    monkeypatch.setattr("multiturn.engine.batches.batches_of", api)
    monkeypatch.setattr(Batches, "call", lambda _, *given: vendor.call(*given))
    return vendor


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path, PROMPTS)
    return tmp_path


def open_batches() -> Batches:
    return Batches([openai()], "out.jsonl", poll=0, say=str)


def run(
    *,
    cases: Iterable[Case] | None = None,
    wait: bool = True,
    say: Callable[[str], object] = str,
    limit: int | None = None,
    **settings: Any,
) -> dict[str, str | None]:
    """Run a suite as ``run --batch --resume`` does, and return the responses in the file."""
    with opened(cases, limit, **settings) as run, BatchRun(run, poll=0, say=say) as batches:
        list(batches.cases(wait=wait))
    return responses()


def opened(cases: Iterable[Case] | None = None, limit: int | None = None, **settings: Any) -> Run:
    cases = load_suite("a.eval.yaml") if cases is None else cases
    given: dict[str, Any] = {"results": "out.jsonl", "resume": True, "batch": True}
    return Run(cases, PIPELINE, openai(**settings), max_tokens=limit, **given)


def responses() -> dict[str, str | None]:
    return {id_: line["response"] for id_, line in by_id(Path("out.jsonl")).items()}


# kill -9, at any moment


class Moment(Struct):
    """What a killed process leaves: the files, and what the vendor has."""

    files: dict[str, bytes]
    vendor: tuple[dict[str, bytes], dict[str, Sent]]

    def restore(self, folder: Path, vendor: Vendor) -> None:
        for path in folder.iterdir():
            path.unlink()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        vendor.files, vendor.batches = deepcopy(self.vendor)


def moments(folder: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> list[Moment]:
    """Run once, and return each state that a kill could leave.

    So could a failure of the machine: part of what is not synchronized with the disk is lost, too.
    """
    found: list[Moment] = []
    disk = {name: Path(name).read_bytes() for name in os.listdir()}

    def note() -> None:
        files = {name: Path(name).read_bytes() for name in os.listdir()}
        disk.update((name, b"") for name in files.keys() - disk.keys())
        known = deepcopy((vendor.files, vendor.batches))
        if not found or (files, known) != (found[-1].files, found[-1].vendor):
            found.append(Moment(files, known))
            half = {name: (len(files[name]) + len(disk[name])) // 2 for name in files}
            found.insert(-1, Moment({name: files[name][: half[name]] for name in files}, known))

    def synchronize(descriptor: int) -> None:
        for name in os.listdir():
            if os.path.samestat(os.stat(name), os.fstat(descriptor)):
                disk[name] = Path(name).read_bytes()

    def replace_file(old: str, new: str) -> None:
        disk[os.path.basename(new)] = disk[os.path.basename(old)]
        os.rename(old, new)

    # Files are written by C functions, which only a profile sees return.
    def profile(_: object, event: str, called: Any) -> None:
        if event == "c_return" and called.__name__ in _CHANGES:
            name = getattr(called.__self__, "name", "")  # of a file
            if called.__self__ is sys.modules["posix"] or "out.jsonl" in str(name):
                sys.setprofile(None)
                note()
                sys.setprofile(profile)

    monkeypatch.setattr(os, "fsync", synchronize)
    monkeypatch.setattr(os, "replace", replace_file)
    vendor.watch = note
    sys.setprofile(profile)
    try:
        assert (run(), vendor.sent()) == (ALL, ONCE)
        assert not Path("out.jsonl.batch").exists()
    finally:
        sys.setprofile(None)
        vendor.watch = lambda: None
    return found


def test_killed_at_any_moment_it_goes_on(
    folder: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each moment of a run, and after some moments of each run that has gone on."""
    vendor.lag = 1
    first = moments(folder, vendor, monkeypatch)
    for number, moment in enumerate(first):
        moment.restore(folder, vendor)
        later = moments(folder, vendor, monkeypatch)
        for other in later[number % 8 :: 8]:
            other.restore(folder, vendor)
            assert (run(), vendor.sent()) == (ALL, ONCE)
    assert len(first) > 35


@pytest.mark.parametrize("largest", [100, 400, 700, 1000, 1500, 2000])
def test_a_full_disk_ends_a_run_and_nothing_is_lost(
    folder: Path, named: Vendor, largest: int
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (run(), named.sent()) == (ALL, ONCE)


# The vendor fails


@pytest.mark.parametrize(
    ("operation", "acted", "why", "ends"),
    [
        pytest.param("prepare", False, {"status": 500}, True, id="an upload fails"),
        pytest.param("prepare", True, {"kind": "connection"}, True, id="an upload is cut after"),
        pytest.param("create", False, {"kind": "timeout"}, False, id="a creation is cut before"),
        pytest.param("create", True, {"kind": "timeout"}, False, id="a creation is cut after"),
        pytest.param("create", False, {"status": 500}, False, id="a creation fails before"),
        pytest.param("create", True, {"status": 408}, False, id="a creation fails after"),
        pytest.param("create", True, {"kind": "malformed"}, False, id="no id is in the answer"),
        pytest.param("create", False, {"kind": "rate_limit"}, False, id="a limit is met"),
        pytest.param(
            *("create", False, {"kind": "timeout", "times": 2}, False), id="the third one succeeds"
        ),
        pytest.param(
            *("create", False, {"kind": "timeout", "times": 3}, True), id="no creation succeeds"
        ),
        pytest.param("create", False, {"status": 400}, True, id="a batch is refused"),
        pytest.param("create", False, {"status": 401}, True, id="a key is wrong"),
        pytest.param("status_of", False, {"status": 503}, False, id="a look fails"),
        pytest.param("status_of", False, {"status": 401}, True, id="a look has the wrong key"),
        pytest.param("fetch", False, {"kind": "connection"}, False, id="results are cut before"),
        pytest.param("fetch", True, {"kind": "connection"}, False, id="results are cut after"),
    ],
)
def test_a_step_that_fails_sends_nothing_twice(
    folder: Path, vendor: Vendor, operation: str, acted: bool, why: Any, ends: bool
) -> None:
    vendor.hidden = 1
    vendor.trouble(operation, acted=acted, **why)
    if ends:
        with pytest.raises(ProviderError):
            run()
    assert (run(), vendor.sent()) == (ALL, ONCE)


def test_a_batch_that_is_refused_can_be_given_up(folder: Path, vendor: Vendor) -> None:
    vendor.trouble("create", status=400)
    with pytest.raises(ProviderError):
        run()
    assert (run(model="another"), vendor.sent()) == (ALL, ONCE)


def test_a_lost_batch_without_a_name_is_waited_for(folder: Path, vendor: Vendor) -> None:
    vendor.trouble("create", acted=True, kind="timeout")
    vendor.lag = 3
    said: list[str] = []
    assert (run(say=said.append), vendor.sent()) == (ALL, ONCE)
    words = (
        "searching again in 0 s for a batch of 2 requests: once batch-0 ended, the answers in it"
    )
    assert sum(text.startswith(words) for text in said) == (not vendor.has_names)


def test_a_batch_that_is_gone_keeps_no_other_from_being_collected(
    folder: Path, named: Vendor
) -> None:
    named.lag = 1
    assert run(wait=False) == {}
    gone = named.batches.pop("batch-0")
    with pytest.raises(ProviderError, match="HTTP 404"):
        run()
    assert responses() == {"c2": text_for("three")}
    named.batches["batch-0"] = gone
    assert (run(), named.sent()) == (ALL, ONCE)


def test_a_batch_whose_results_always_fail_ends_the_run_and_is_kept(
    folder: Path, named: Vendor
) -> None:
    write_suite(folder, ["one"])
    named.trouble("fetch", status=500, times=1000)
    with pytest.raises(ProviderError) as caught:
        run()
    failed = "batch-0 is kept, but 60 checks in a row have failed: told to"
    assert (str(caught.value), responses()) == (failed, {})
    named.troubles.clear()
    assert (run(), named.sent()) == ({"c0": text_for("one")}, {"one": 1})


def test_failed_checks_of_a_batch_that_are_not_in_a_row_do_not_end_a_run(
    folder: Path, named: Vendor
) -> None:
    """Every second one fails."""
    write_suite(folder, ["one"])
    named.lag, said = 100, list[str]()

    def watch() -> None:
        if not named.troubles:
            named.trouble("status_of", status=503)

    named.watch = watch
    assert run(say=said.append) == {"c0": text_for("one")}
    assert said.count("batch-0: told to; asking again in 0 s") > 60


# What goes on meanwhile


def test_a_suite_that_has_changed_sends_only_what_is_new(folder: Path, named: Vendor) -> None:
    """The answer to the first request comes last, and does not replace that to the second."""
    named.lag = 2
    run(wait=False)
    for batch in named.batches.values():
        batch.looks = -5
    write_suite(folder, ["one", "TWO", "three", "one", "three"])
    now = {**ALL, "c1": text_for("TWO"), "c4": text_for("three")}
    for _ in range(2):
        assert (run(), named.sent()) == (now, {**ONCE, "TWO": 1})


def test_a_case_that_is_as_it_was_is_not_sent_again(folder: Path, named: Vendor) -> None:
    named.lag = 9
    for prompts in (PROMPTS, ["one", "TWO", "three", "one"], PROMPTS):
        write_suite(folder, prompts)
        run(wait=False)
    write_suite(folder, [*PROMPTS, "one"])
    assert (run(), named.sent()) == ({**ALL, "c4": text_for("one")}, {**ONCE, "TWO": 1})


def test_a_limit_is_that_of_the_requests_that_are_added(folder: Path, named: Vendor) -> None:
    """Each request has 18 input tokens; those that wait, and equal ones, count no more."""
    named.lag = 9
    write_suite(folder, ["one"])
    run(wait=False, max_output_tokens=100)
    write_suite(folder, ["one", "two", "two", "one", "three"])
    with pytest.raises(MultiturnError) as caught:
        run(wait=False, max_output_tokens=100, limit=235)
    assert str(caught.value) == "236 tokens with the output exceed max_tokens=235; nothing was sent"
    assert named.sent() == {"one": 1}
    run(wait=False, max_output_tokens=100, limit=236)
    assert named.sent() == ONCE
    answered = dict(
        zip(
            ("c0", "c1", "c2", "c3", "c4"),
            map(text_for, ("one", "two", "two", "one", "three")),
            strict=True,
        )
    )
    assert (run(max_output_tokens=100, limit=1), named.sent()) == (answered, ONCE)


def test_another_target_or_model_loses_nothing(folder: Path, named: Vendor) -> None:
    named.lag = 2
    run(wait=False)
    others: list[dict[str, Any]] = [{"name": "u"}, {"model": "x"}, {"base_url": "http://[::1]/v1"}]
    for other in others:
        with pytest.raises(MultiturnError) as caught:
            run(**other)
        assert str(caught.value) == (
            "out.jsonl.batch: a batch of the target 't', or one with other settings, is under way;"
            " finish it with that target and those settings"
        )
    assert (run(), named.sent()) == (ALL, ONCE)


def test_a_batch_that_is_being_filled_is_left_alone(folder: Path, named: Vendor) -> None:
    """Nothing is under way until a part is full."""

    def cases() -> Iterator[Case]:
        yield from list(load_suite("a.eval.yaml"))[:1]
        before = Path("out.jsonl.batch").stat()
        with open_batches() as other:
            assert other.state.under_way == []
        other_run = opened()
        other_run.is_dry = True
        other_batches = BatchRun(other_run, poll=60, say=print)
        assert list(other_batches.submit(other_run.cases())) == []
        with pytest.raises(MultiturnError, match="another run is writing"):
            run()
        assert os.path.samestat(before, Path("out.jsonl.batch").stat())
        yield from list(load_suite("a.eval.yaml"))[1:]

    assert (run(cases=cases()), named.sent()) == (ALL, ONCE)


def test_nothing_is_recorded_where_nothing_is_sent(folder: Path, named: Vendor) -> None:
    brief = [{"id": "none", "input_messages": [{"role": "system", "content": "Be brief"}]}]
    (folder / "b.eval.yaml").write_text(json.dumps({"evalcases": brief}))
    assert run(cases=load_suite("b.eval.yaml")) == {"none": None}
    assert (named.batches, Path("out.jsonl.batch").exists()) == ({}, False)


def test_a_state_of_before_whose_parts_name_no_target_is_continued(
    folder: Path, named: Vendor
) -> None:
    named.lag = 1
    assert run(wait=False) == {}
    state = Path("out.jsonl.batch")
    text = re.sub(r'("is":"part".*),"target":"t"', r"\1", state.read_text())
    assert text.count('"target":"t"') == len(PROMPTS)  # of results, not of parts
    state.write_text(text)
    assert (run(), named.sent()) == (ALL, ONCE)


@pytest.mark.parametrize("text", ["\n", "{}", "[" * 100_000 + "\n"], ids=repr)
def test_a_file_that_is_no_state_is_refused(folder: Path, text: str) -> None:
    Path("out.jsonl.batch").write_text(text)
    with pytest.raises(MultiturnError) as caught:
        BatchState("out.jsonl")
    assert str(caught.value) == ("out.jsonl.batch: this is not the state of a batch; move it away")


# Cancelling


def test_a_canceled_run_keeps_what_was_answered_and_sends_no_more(
    folder: Path, vendor: Vendor
) -> None:
    """A batch that was lost is canceled, too."""
    vendor.lag = 3
    vendor.trouble("create", acted=True, kind="timeout")
    vendor.trouble("find", times=1, status=401)
    with pytest.raises(ProviderError):
        run(wait=False)
    vendor.lag = 9 if vendor.has_names else 0
    with open_batches() as batches:
        batches.cancel()
    assert vendor.batches["batch-0"].canceled == vendor.has_names  # else it has to end first
    write_suite(folder, [*PROMPTS, "new"])
    vendor.lag = 0
    said: list[str] = []
    answers = run(say=said.append)
    assert "this run was canceled: it sends no more requests, and keeps the answers so far" in said
    assert set(answers) == {"c0", "c1"}
    assert vendor.sent() == {"one": 1, "two": 1}
    assert set(run()) == {*ALL, "c4"}


def test_a_canceled_run_creates_no_batch_of_a_file(folder: Path, named: Vendor) -> None:
    named.trouble("create", times=3, kind="timeout")
    with pytest.raises(ProviderError):
        run()
    with open_batches() as batches:
        batches.cancel()
    assert named.batches == {}
    assert (run(), named.sent()) == (ALL, ONCE)


@pytest.mark.parametrize("operation", ["status_of", "cancel"])
def test_a_batch_that_cannot_be_canceled_keeps_no_other_from_it(
    folder: Path, named: Vendor, operation: str
) -> None:
    named.lag = 9
    run(wait=False)
    named.trouble(operation, status=409)  # it has ended meanwhile
    with open_batches() as batches:
        batches.cancel()
    assert [batch.canceled for batch in named.batches.values()] == [False, True]
    named.trouble(operation, status=404)
    with open_batches() as batches, pytest.raises(ProviderError):
        batches.cancel()


# Parts


@pytest.mark.parametrize(
    ("most_requests", "most_bytes", "sizes"),
    [
        pytest.param(50, 10**6, [5], id="all fit into one part"),
        pytest.param(2, 10**6, [2, 2, 1], id="a part is full of requests"),
        pytest.param(50, 600, [2, 2, 1], id="a part is full of bytes"),
        pytest.param(50, 10, [1, 1, 1, 1, 1], id="each request is larger than a part"),
    ],
)
@pytest.mark.parametrize("api", [OpenAIBatchApi, AnthropicBatchApi])
def test_requests_are_sent_in_parts(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    api: type[BatchApi],
    most_requests: int,
    most_bytes: int,
    sizes: list[int],
) -> None:
    monkeypatch.setattr(api, "most_requests", most_requests)
    monkeypatch.setattr(api, "most_bytes", most_bytes)
    write_suite(folder, ["one", "two", "one", "six", "ten", "one", "all"])
    connect = openai if api is OpenAIBatchApi else anthropic
    run = Run("a.eval.yaml", PIPELINE, connect(), results="out.jsonl", batch=True, is_dry=True)
    dry = BatchRun(run, poll=60, say=print)
    assert list(dry.submit(run.cases())) == []
    assert [part.requests for part in dry.parts] == sizes
    assert all(part.size <= most_bytes for part in dry.parts) or most_bytes == 10


def test_a_part_may_be_as_large_as_the_vendor_takes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_suite(folder, ["one", "two", "six"])

    def sizes() -> list[tuple[int, int]]:
        given = ("a.eval.yaml", PIPELINE, openai())
        run = Run(*given, results="out.jsonl", batch=True, is_dry=True)
        dry = BatchRun(run, poll=60, say=print)
        assert list(dry.submit(run.cases())) == []
        return [(part.requests, part.size) for part in dry.parts]

    ((_, whole),) = sizes()
    monkeypatch.setattr(OpenAIBatchApi, "most_bytes", whole)
    assert sizes() == [(3, whole)]
    monkeypatch.setattr(OpenAIBatchApi, "most_bytes", whole - 1)
    assert [requests for requests, _ in sizes()] == [2, 1]


def test_what_waits_is_decoded_once_at_most_while_parts_are_sent(
    folder: Path, named: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the time to send millions of requests would grow with the square of their number."""
    decoded: list[bytes] = []
    decode = batches._decode
    named.lag = 9

    def counted(line: bytes) -> Any:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr(batches, "_decode", counted)
    write_suite(folder, map(str, range(40)))
    assert run(wait=False) == {}
    assert len(named.batches) == 20
    asked = [line for line in decoded if b'"asked"' in line]
    assert len(asked) == len({*asked})
    assert len(BatchState("out.jsonl").waiting[0]) == 40


def test_parts_keep_to_the_limits_of_the_vendors() -> None:
    """From the vendors' documentation; Anthropic's parts are smaller than it takes."""
    apis = [batches_of(connect()) for connect in (openai, azure, anthropic, gemini)]
    assert [(api.most_requests, api.most_bytes) for api in apis] == [
        (50_000, 200_000_000),
        (100_000, 200_000_000),
        (100_000, 8_000_000),
        (1_000_000, 2_000_000_000),
    ]

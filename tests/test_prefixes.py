"""Shared prefixes: what an ideal prompt cache would find, and the order in which it finds it."""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback import KEY, Request, Server, completion
from media_files import image
from multiturn import Media, dry_run, estimate, load_target
from multiturn.engine.costs import SharedPrefixes
from multiturn.engine.run import Lane, Queue, RunCase
from multiturn.providers.base import Wire
from multiturn.providers.results import Result
from running import by_id, run
from vendors import anthropic, azure, chat, echo, gemini, openai

WORDS = [f"{first}{second}" for first in ("moon", "sand", "cold") for second in ("tree", "ship")]


def words(number: int, seed: str) -> str:
    """Return a text of a number of words, of which one or two tokens are made."""
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) + chosen.choice(["", "s"]) for _ in range(number))


def wires(provider: Any, prompts: Iterable[tuple[str, ...]]) -> list[Wire]:
    """Return the requests of prompts: a system message, and what the user and others say."""
    roles = ("system", "user", "assistant", "user")
    return [provider.wire(chat(*zip(roles, texts, strict=False))) for texts in prompts]


A, B, SHORT = words(3000, "A"), words(2000, "B"), words(300, "C")


def shared(provider: Any, requests: Iterable[Wire]) -> list[int]:
    """Return how many tokens of each request are in a prefix of one before it."""
    prefixes = SharedPrefixes(provider)
    found = []
    for wire in requests:
        before = prefixes.shared
        prefixes.add(prefixes.text(wire))
        found.append(prefixes.shared - before)
    return found


def test_no_prefix_goes_beyond_another_image() -> None:
    shots = [Media.of(image(seed=number)) for number in (1, 2, 1)]
    provider = openai()
    requests = [provider.wire(chat(("system", "S"), ("user", (shot, A)))) for shot in shots]
    assert shared(provider, requests) == pytest.approx([0, 0, provider.tokenizer.count(A)], abs=20)


def test_a_prefix_may_end_inside_a_message_and_branch_again() -> None:
    document = f"{A}\n\n{B}"
    prompts = [("S", f"{A} 1"), ("S", f"{document} 2"), ("S", f"{document} 3")]
    found = shared(openai(), wires(openai(), prompts))
    count = openai().tokenizer.count
    assert found == pytest.approx([0, count(A), count(document)], abs=20)


def test_equal_texts_of_other_roles_are_no_prefix() -> None:
    provider = openai()
    requests = [chat(("system", A), ("user", "Hi")), chat(("user", A), ("user", "Hi"))]
    assert shared(provider, [provider.wire(request) for request in requests]) == [0, 0]


@pytest.mark.parametrize(
    ("provider", "minimum", "has_cache"),
    [
        pytest.param(openai(), 1024, True, id="gpt-4o caches by itself"),
        pytest.param(openai(model="gpt-5.6-sol"), 1024, False, id="newer models want a mark"),
        pytest.param(
            openai(model="gpt-5.6-sol", prompt_caching=True), 1024, True, id="which a target sets"
        ),
        pytest.param(openai(model="gpt-99"), None, None, id="an unknown model"),
        pytest.param(azure(), None, None, id="a deployment of Azure, whatever its name"),
        pytest.param(gemini(), 2048, True, id="Gemini caches by itself"),
        pytest.param(gemini(model="gemini-3.8-flash"), 4096, True, id="a newer Gemini"),
        pytest.param(anthropic(), 1024, False, id="Claude, whose cache is not asked for"),
        pytest.param(anthropic(prompt_caching="1h"), 1024, True, id="Claude with prompt_caching"),
        pytest.param(
            anthropic(prompt_caching=True, model="claude-haiku-4-5-20251001"),
            *(4096, True),
            id="a model with a higher minimum",
        ),
        pytest.param(
            anthropic(prompt_caching=True, model="claude-sonnet-4-6"),
            *(2048, True),
            id="the higher of two minimums where sources disagree",
        ),
        pytest.param(echo(), None, False, id="echo"),
    ],
)
def test_from_how_many_tokens_on_prefixes_are_cached(
    provider: Any, minimum: int | None, has_cache: bool | None
) -> None:
    assert (provider.cache_minimum, provider.has_cache) == (minimum, has_cache)


@pytest.mark.parametrize(("tokens", "is_shared"), [(900, False), (1200, True)])
def test_a_prefix_below_the_minimum_is_not_shared(tokens: int, is_shared: bool) -> None:
    provider = openai()
    # The tokens of "moontree " are not known here, those of " a" are: one each.
    text = " a" * tokens
    assert provider.tokenizer.count(text) == tokens
    found = shared(provider, wires(provider, [(text, "1"), (text, "2")]))
    assert [tokens > 0 for tokens in found] == [False, is_shared]


def test_a_prefix_of_the_minimum_is_cached() -> None:
    prefixes = SharedPrefixes(openai())  # of gpt-4o, from 1,024 tokens on
    assert [prefixes.tokens(" a" * tokens) for tokens in (1023, 1024)] == [0, 1024]


def test_all_but_the_first_request_share_the_tokens_of_the_prefix() -> None:
    provider = openai()
    requests = wires(provider, [(A, f"{number} {words(50, str(number))}") for number in range(40)])
    expected = 39 * provider.tokenizer.count(A)
    assert sum(shared(provider, requests)) == pytest.approx(expected, rel=0.01)


def test_the_cache_keeps_a_prefix_once_and_what_others_add_to_it() -> None:
    provider = openai()
    prefixes = SharedPrefixes(provider)
    count = provider.tokenizer.count
    told = []
    for wire in wires(provider, [(A, "1"), (A, "2"), (A, B), (A, f"{B} 3"), (A, "4"), (A, B)]):
        prefixes.add(prefixes.text(wire))
        told.append(prefixes.written)
    expected = [0, count(A), count(A), *[count(A) + count(B)] * 3]
    assert told == pytest.approx(expected, abs=20)


def test_memory_is_bounded_and_old_prefixes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.engine.costs._MOST_KEPT", 100_000)
    provider = openai()
    prefixes = SharedPrefixes(provider)
    sizes = []
    for wire in wires(provider, ((words(2000, str(number // 2)), "Hi") for number in range(40))):
        prefixes.add(prefixes.text(wire))
        sizes.append(sum(map(len, prefixes.texts)))
        assert {*prefixes.texts} == {*prefixes._kept}
    assert 60_000 < max(sizes) <= 100_000
    assert prefixes.shared > 20 * 2000  # of two equal requests, one after the other
    before = prefixes.shared
    prefixes.add(prefixes.text(wires(provider, [(words(2000, "0"), "Hi")])[0]))
    assert prefixes.shared == before


def test_prefixes_in_use_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.engine.costs._MOST_KEPT", 100_000)
    provider = openai()
    prompts = ((text, words(500, str(at))) for at in range(10) for text in (A, B))
    requests = wires(provider, prompts)
    assert sum(len(wire.shown) for wire in requests) > 400_000
    expected = 9 * provider.tokenizer.count(A) + 9 * provider.tokenizer.count(B)
    assert sum(shared(provider, requests)) == pytest.approx(expected, rel=0.01)


def test_equal_texts_count_once_among_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.engine.costs._MOST_KEPT", 100_000)
    provider = openai()
    other, *same = wires(provider, [(B, "1"), *[(A, "2")] * 9])
    found = shared(provider, [other, *same, other])
    assert found[-1] == pytest.approx(provider.tokenizer.count(B), rel=0.01)


def write_priced(folder: Path, prices: str, **settings: Any) -> None:
    """Write a suite of eleven cases with a long system message, a target, and prices."""
    messages = [{"role": "system", "content": " a" * 5000}, {"role": "user", "content": "Hi"}]
    lines = (json.dumps({"id": str(at), "messages": messages}) for at in range(11))
    (folder / "a.eval.jsonl").write_text("\n".join(lines))
    target = {"name": "t", "provider": "openai", "model": "gpt-4o", "api_key": KEY, **settings}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    (folder / "prices.yaml").write_text(prices)


def test_what_the_input_costs_with_the_cache_is_estimated(tmp_path: Path) -> None:
    write_priced(tmp_path, "gpt-4o: {input: 2, output: 8, cached_input: 0.5}\n")
    provider = load_target("t", file=str(tmp_path / "targets.yaml"))
    deliveries = dry_run(tmp_path / "a.eval.jsonl", "spec", provider)
    found = estimate(deliveries, provider, prices=tmp_path / "prices.yaml")
    # 5,000 and "Hi"; 4 for each message, and 3 for the answer
    assert found.input == 11 * (5001 + 2 * 4 + 3)
    assert found.shared == pytest.approx(10 * 5000, rel=0.01)
    expected = (found.input * 2 - found.shared * 1.5) / 1e6
    assert found.cached_input_cost == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "prices", "words"),
    [
        ({}, "gpt-4o: {input: 2, output: 8, cached_input: 0.5}", "; with the cache $0.0"),
        ({}, "gpt-4o: {input: 2, output: 8}", None),
        (
            {"model": "gpt-5.6"},
            "gpt-5.6: {input: 2, output: 8, cached_input: 0.5}",
            "; with prompt_caching $0.0",
        ),
        ({"model": "mine"}, "mine: {input: 2, output: 8, cached_input: 0.5}", None),
    ],
)
def test_a_dry_run_says_what_a_cache_saves_if_there_is_one(
    tmp_path: Path, settings: dict[str, str], prices: str, words: str | None
) -> None:
    write_priced(tmp_path, prices, **settings)
    options = ["--target", "t", "--dry-run", "--prices", "prices.yaml"]
    said = run("a.eval.jsonl", *options, folder=tmp_path).stderr
    assert (words in said) if words else ("; with " not in said)
    assert ("% in prefixes that other cases share (if they are" in said) == ("mine" in prices)


def test_a_dry_run_of_a_batch_says_what_is_shared(tmp_path: Path) -> None:
    write_priced(tmp_path, "gpt-4o: {input: 2, output: 8, cached_input: 0.5}")
    suite = tmp_path / "a.eval.jsonl"
    lines = suite.read_text().splitlines()  # equal requests of a batch are sent once
    suite.write_text("\n".join(line.replace("Hi", str(at)) for at, line in enumerate(lines)))
    options = ["--target", "t", "--dry-run", "--prices", "prices.yaml"]
    said = run("a.eval.jsonl", *options, folder=tmp_path).stderr.splitlines()
    batch = run("a.eval.jsonl", *options, "--batch", "--output", "o", folder=tmp_path).stderr
    assert re.search(r" input tokens, 9\d % in prefixes that other cases share; ", said[1])
    assert batch.splitlines()[1:] == said[1:]


# The order of sending


def deliveries(provider: Any, *prompts: tuple[str, ...]) -> list[RunCase]:
    return [
        RunCase("send", Result(suite="s", id=str(at), target="t"), wire)
        for at, wire in enumerate(wires(provider, prompts))
    ]


def queue(given: Iterable[RunCase], *, waits: bool = True) -> Queue:
    return Queue(iter(given), {"t": Lane(openai() if waits else azure(), "prefixes", 2000)})


def sendable(cases: Queue, *, is_busy: bool = False) -> list[RunCase]:
    """Return what can be sent before an answer arrives, or what passes while all are busy."""
    found: list[RunCase] = []
    cases.lanes["t"].free = 0 if is_busy else 2000
    while not cases.is_waiting:
        try:
            delivery = cases.next()
        except StopIteration:
            break
        found += [] if delivery is None else [delivery]
    return found


def ids(found: Iterable[RunCase]) -> list[str]:
    return [delivery.result.id for delivery in found]


PROMPTS = [(A, "0"), (B, "1"), (A, "2"), (SHORT, "3"), (B, "4"), (A, "5")]


def test_others_wait_until_the_first_of_them_is_answered() -> None:
    cases = queue(deliveries(openai(), *PROMPTS))
    first, other, *rest = sendable(cases)
    assert ids([first, other, *rest]) == ["0", "1", "3"]
    cases.answered(other)
    assert ids(sendable(cases)) == ["4"]
    cases.answered(first)
    assert ids(sendable(cases)) == ["2", "5"]
    with pytest.raises(StopIteration):
        cases.next()


def test_nobody_waits_for_a_few_characters_more() -> None:
    prompts = [(A, "0"), (A, "What is one?"), (A, "What is two?"), (A, B), (A, f"{B}, and you?")]
    cases = queue(deliveries(openai(), *prompts))
    (first,) = sendable(cases)
    cases.answered(first)
    assert {*ids(sendable(cases))} == {"1", "2", "3"}  # B waits for the other one


def test_another_one_waits_for_a_few_hundred_words() -> None:
    more = words(300, "more")
    prompts = [(A, "0"), (A, f"{more} one?"), (A, f"{more} two?")]
    cases = queue(deliveries(openai(), *prompts))
    (first,) = sendable(cases)
    cases.answered(first)
    assert ids(sendable(cases)) == ["1"]


def test_the_first_case_is_sent_before_another_one_is_read() -> None:
    def slow() -> Iterator[RunCase]:
        yield from deliveries(openai(), (A, "0"))
        pytest.fail("a second case was read")

    cases = queue(slow())
    found = cases.next()
    assert found is not None
    assert found.result.id == "0"


def test_where_no_cache_is_known_prefixes_are_together_and_nobody_waits() -> None:
    prompts = [(SHORT, "-"), *PROMPTS, (A, "7"), (B, "8")]
    cases = queue(deliveries(openai(), *prompts), waits=False)
    first, second = cases.next(), cases.next()
    assert first is not None
    assert second is not None
    assert ids([first, second]) == ["0", "1"]
    assert sendable(cases, is_busy=True) == []  # all others are read meanwhile
    cases.answered(first)
    assert ids(sendable(cases)) == ["2", "5", "8", "3", "6", "7", "4"]


def test_where_there_is_a_cache_none_is_read_while_no_more_can_be_sent() -> None:
    cases = queue(deliveries(openai(), *PROMPTS))
    assert sendable(cases, is_busy=True) == []
    assert cases.lanes["t"].ahead == []


def test_requests_that_share_nothing_stay_in_their_order() -> None:
    prompts = [
        (A, "-"),
        (SHORT, "2"),
        (B, "-"),
        ("S", "0"),
        (words(2000, "alone"), "-"),
        ("S", "1"),
    ]
    assert ids(sendable(queue(deliveries(openai(), *prompts)))) == [*"012345"]


def test_short_requests_that_are_read_ahead_go_first_in_their_order() -> None:
    prompts = [("S", "0"), ("S", "1"), (A, "2"), ("S", "3"), (A, "4")]
    cases = queue(deliveries(openai(), *prompts), waits=False)
    first = cases.next()
    assert first is not None
    assert sendable(cases, is_busy=True) == []
    cases.answered(first)
    assert ids(sendable(cases)) == ["1", "3", "2", "4"]  # they share nothing: the first


@pytest.mark.parametrize("is_busy", [False, True])
def test_what_has_an_answer_passes_at_once_and_no_error_is_held_back(is_busy: bool) -> None:
    sent = deliveries(openai(), *PROMPTS)
    reused = RunCase("reuse", Result(suite="s", id="old", target="t"), sent[0].wire)
    wrong = RunCase("refuse", Result(suite="s", id="wrong", target="t"))
    given = [*sent[:4], reused, wrong, *sent[4:]]
    cases = queue(given, waits=False)
    if is_busy:
        assert ids(sendable(cases, is_busy=True)) == ["old"]
        cases.answered(sent[0])
        assert ids(sendable(cases)) == ["wrong", *"140253"]
    else:
        assert ids(sendable(cases)) == [*"0123", "old", "wrong", *"45"]


def test_an_error_in_reading_is_raised_after_the_cases_before_it() -> None:
    def broken() -> Any:
        yield from deliveries(openai(), (A, "0"), (B, "1"))
        raise RuntimeError("no more")

    cases = queue(broken())
    found = [cases.next() for _ in range(3)]
    assert ids(delivery for delivery in found if delivery) == ["0", "1"]
    with pytest.raises(RuntimeError, match="no more"):
        cases.next()


def test_at_most_a_thousand_cases_wait_and_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(found: Iterable[RunCase]) -> Any:
        for delivery in found:
            read.append(delivery.result.id)
            yield delivery

    long = words(1300, "D")
    same = deliveries(openai(), *((long, str(number)) for number in range(1500)))
    cases = queue(noted(same))
    (first,) = sendable(cases)
    assert (first.result.id, len(read)) == ("0", 1001)
    cases.answered(first)
    assert sorted(ids(sendable(cases))) == sorted(ids(same[1:]))
    read.clear()
    monkeypatch.setattr("multiturn.engine.run.WINDOW_BYTES", 50_000)
    cases = queue(noted(same))
    (first,) = sendable(cases)
    assert 3 <= len(read) <= 8
    cases.answered(first)
    assert ids(sendable(cases)) == ids(same[1:])


# A server with a cache of its own

_PIECE = re.compile(r"\w+|\s+|[^\w\s]")


def _read_by_model(body: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield what a vendor's model reads: role, text, and whether it is marked for the cache."""
    for part in body.get("system", ()):
        yield "system", part["text"], "cache_control" in part
    for part in body.get("systemInstruction", {"parts": []})["parts"]:
        yield "system", part["text"], False
    for message in body.get("messages", ()):
        yield message["role"], message["content"], False
    for message in body.get("contents", ()):
        yield from ((message["role"], part["text"], False) for part in message["parts"])


def _usage(vendor: str | None, tokens: int, cached: int) -> dict[str, Any]:
    if vendor == "anthropic":
        counted = {"input_tokens": tokens - cached, "cache_read_input_tokens": cached}
        return {"usage": {**counted, "output_tokens": 1}}
    if vendor == "gemini":
        counts = {"promptTokenCount": tokens, "cachedContentTokenCount": cached}
        return {"usageMetadata": {**counts, "candidatesTokenCount": 1}}
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"usage": {"prompt_tokens": tokens, "completion_tokens": 1, **details}}


class CachingServer(Server):
    """Answers as a vendor does, and caches prefixes by a tokenizer of its own, once it answers.

    A token of it is a word, white space or a sign; a prefix is cached from 1,024 tokens on. For
    Anthropic it caches only what ends at a mark.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cached = self.read = 0  # tokens
        self.wait: Callable[[], object] = lambda: time.sleep(0.03)  # before it answers
        self._known: set[int] = set()
        self._lock = threading.Lock()
        self.answer(body=self._answer, times=None)

    def _answer(self, request: Request) -> Any:
        tokens: list[str] = []
        marks = []
        for role, text, is_marked in _read_by_model(request.json):
            tokens += [f"<{role}>", *_PIECE.findall(text)]
            marks += [len(tokens)] if is_marked else []
        prefixes, so_far = [], 0
        for token in tokens:
            so_far = hash((so_far, token))
            prefixes.append(so_far)
        with self._lock:
            ends = marks if request.vendor == "anthropic" else range(1, len(tokens) + 1)
            known = (end for end in reversed(ends) if prefixes[end - 1] in self._known)
            found = next(known, 0)
            found = found if found >= 1024 else 0
            self.read += len(tokens)
            self.cached += found
        self.wait()
        with self._lock:
            self._known.update(prefixes[end - 1] for end in ends)
        return completion(request.vendor, "hi") | _usage(request.vendor, len(tokens), found)

    @property
    def share(self) -> float:
        return self.cached / self.read


def write_cases(folder: Path, count: int = 150) -> None:
    """Write a suite in whose order groups with shared prefixes are mixed."""
    systems = {"a": A, "b": B, "c": words(1500, "c"), "short": SHORT, "few": f"{A}\n{B}"}
    cases = []
    for number in range(count):
        name = random.Random(number).choice([*systems, "none"])
        system = systems.get(name) or words(2500, f"alone {number}")
        question = words(random.Random(-number).randrange(20, 900), f"question {number}")
        cases.append(
            {
                "id": str(number),
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": f"{question}?"},
                ],
            }
        )
    (folder / "a.eval.jsonl").write_text("\n".join(map(json.dumps, cases)))


TARGETS: dict[str, dict[str, Any]] = {
    "openai": {"model": "gpt-4o"},
    "anthropic": {"model": "claude-sonnet-4-5", "prompt_caching": True, "max_output_tokens": 9},
    "gemini": {"model": "gemini-2.5-flash"},
}


def write_target(folder: Path, server: Server, provider: str = "openai") -> None:
    address = f"{server.url}/v1" if provider == "openai" else server.url
    target = {"name": "t", "provider": provider, "api_key": KEY, "base_url": address}
    text = json.dumps({"targets": [{**target, **TARGETS[provider]}]})
    (folder / "targets.yaml").write_text(text)


def promised(folder: Path) -> float:
    """Return the share of the input tokens that a dry run promises."""
    done = run("a.eval.jsonl", "--target", "t", "--dry-run", folder=folder)
    (share,) = re.findall(r", (\d+) % in prefixes that other cases share; ", done.stderr)
    return int(share) / 100


@pytest.mark.parametrize("provider", TARGETS)
def test_a_cache_sees_the_share_that_a_dry_run_promises(tmp_path: Path, provider: str) -> None:
    write_cases(tmp_path)
    with CachingServer() as server:
        write_target(tmp_path, server, provider)
        share = promised(tmp_path)
        assert 0.3 < share < 0.8
        done = run(*["a.eval.jsonl", "--target", "t", "--output", "out.jsonl"], folder=tmp_path)
        assert (done.returncode, len(server.requests)) == (0, 150)
        assert server.share == pytest.approx(share, abs=0.02)
        usage = [result["usage"] for result in by_id(tmp_path / "out.jsonl").values()]
        assert sum(each["cached_tokens"] for each in usage) == server.cached


def test_in_the_order_of_the_suite_requests_at_once_miss_the_cache(tmp_path: Path) -> None:
    write_cases(tmp_path, 50)
    with CachingServer() as server:
        write_target(tmp_path, server)
        server.wait = threading.Barrier(50, timeout=60).wait
        options = "--target t --order suite --concurrency 100 --output out.jsonl"
        run("a.eval.jsonl", *options.split(), folder=tmp_path)
        assert server.share < promised(tmp_path) - 0.1


def test_a_run_that_was_reordered_can_be_resumed(tmp_path: Path) -> None:
    write_cases(tmp_path, 50)
    with CachingServer() as server:
        write_target(tmp_path, server)
        server.steps.clear()
        server.fail(400, "no", times=20)
        server.answer(body=server._answer, times=None)
        options = ["a.eval.jsonl", "--target", "t", "--output", "out.jsonl"]
        assert run(*options, folder=tmp_path).returncode == 1
        done = run(*options, "--resume", folder=tmp_path)
        assert "20 answered, 30 reused, 0 failed" in done.stderr
        assert len(by_id(tmp_path / "out.jsonl")) == 50

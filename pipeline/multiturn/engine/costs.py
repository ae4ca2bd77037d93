"""What a run costs: estimated before anything is sent, added up afterwards, and limited."""

import importlib.util
import os
from bisect import bisect_left, insort
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from multiturn.errors import LimitReachedError, MultiturnError, option
from multiturn.explaining.spans import Message, joined_text
from multiturn.files.paths import StrPath
from multiturn.providers.base import TargetProvider, Wire
from multiturn.providers.prices import Price, Usage, price_of
from multiturn.providers.results import request_id
from multiturn.text import dollars, first_of, number_of

if TYPE_CHECKING:
    from multiturn.engine.run import RunCase

ASSUMED_MINIMUM = 1024  # tokens, where it is not known from how many on the vendor caches
# Before each part of a request, so that equal texts of different roles are no common prefix. The
# model reads something of the kind, too.
_MARK = "\x1d"
_MOST_KEPT = 16 * 2**20  # characters of texts; then the oldest are forgotten, as caches do


class SharedPrefixes:
    """The texts of requests, and how much of each begins as an earlier one does.

    A prefix counts from the minimum on from which the vendor caches. Unless ``estimates`` of tokens
    will do, the tables of a published tokenizer are loaded, which take 70 MB.
    """

    def __init__(self, provider: TargetProvider, *, estimates: bool = False) -> None:
        self.provider = provider
        self.minimum = provider.cache_minimum or ASSUMED_MINIMUM
        self.texts: list[str] = []  # in alphabetical order
        # About how many tokens are in a prefix of an earlier text, and how many of them are such a
        # prefix for the first time: what an ideal cache keeps.
        self.shared = self.written = 0
        self._size = 0  # of the texts, in characters
        self._kept: dict[str, int] = {}  # how many tokens of each text others share; oldest first
        tokenizer = provider.tokenizer
        self._count = lru_cache(256)(tokenizer.estimate if estimates else tokenizer.count)

    def text(self, wire: Wire | None) -> str:
        """Return what a model reads of a request; empty if the request is too short to share."""
        # A token has at least one byte: most requests are too short, and are not even decoded.
        if wire is None or len(wire.shown) < self.minimum:
            return ""
        sent = self.provider.reads(wire)
        pairs = zip(sent.roles, sent.texts, strict=True)
        return "".join(f"{_MARK}{role}\n{text}" for role, text in pairs)

    def tokens(self, prefix: str) -> int:
        """Return how many tokens a prefix has; 0 if it is too short for the cache."""
        if len(prefix) * 4 < self.minimum:  # a character has at most four bytes
            return 0
        tokens = self._count(prefix)
        return tokens if tokens >= self.minimum else 0

    def add(self, text: str) -> None:
        """Add the text of a request, as ``text`` returns it."""
        if not text:
            return
        length, other = longest_common(self.texts, text)
        if tokens := self.tokens(text[:length]):
            self.shared += tokens
            self.written += max(tokens - self._kept[other], 0)
            self._kept[other] = max(tokens, self._kept[other])
        if text not in self._kept:
            insort(self.texts, text)
            self._size += len(text)
        self._kept[text] = max(tokens, self._kept.pop(text, 0))
        while self._size > _MOST_KEPT:
            oldest = next(iter(self._kept))
            del self._kept[oldest], self.texts[bisect_left(self.texts, oldest)]
            self._size -= len(oldest)


class KeptPrefixes:
    """What a change keeps of the prefix that the prompts of a suite share, as a cache does."""

    def __init__(self, provider: TargetProvider) -> None:
        self._provider = provider
        # Of each suite: how many prompts changed, what they shared, and how much of it is left.
        self._suites: dict[str, tuple[int, str, int]] = {}

    def add(self, suite: str, *messages: Iterable[Message]) -> None:
        """Add a prompt that has changed: what a model read of it, and what it reads now."""
        then, now = (
            "".join(f"{_MARK}{each.role}\n{joined_text(each.shown)}" for each in side)
            for side in messages
        )
        number, shared, left = self._suites.get(suite, (0, then, len(then)))
        shared = shared[: _common_length(shared, then)]
        self._suites[suite] = number + 1, shared, min(left, _common_length(shared, now))

    @property
    def in_words(self) -> str:
        """Where the prefixes end that lose tokens; empty if none does."""
        count, found = self._provider.tokenizer.estimate, list[str]()
        for suite, (number, shared, left) in self._suites.items():
            then, now = count(shared), count(shared[:left])
            if number > 1 and now < then >= (self._provider.cache_minimum or 0):
                cases = f"{number_of(number, 'case')} of {suite}"
                found.append(f"after {now:,} of {then:,} tokens now ({cases})")
        return f"the shared prefix ends {first_of(found)}" if found else ""


def longest_common(texts: list[str], text: str) -> tuple[int, str]:
    """Return the longest common prefix's length with a text of an ordered list, and that text.

    >>> longest_common(["banana", "prepare", "present"], "prefix")
    (3, 'prepare')
    """
    at = bisect_left(texts, text)
    neighbors = texts[max(at - 1, 0) : at + 1]  # in this order, no other text shares more
    return max(((_common_length(text, other), other) for other in neighbors), default=(0, ""))


def _common_length(one: str, other: str) -> int:
    """Return the length of the longest common prefix of two texts.

    >>> _common_length("prefix", "prepare"), _common_length("", "x")
    (3, 0)
    """
    lengths = range(min(len(one), len(other)))
    return bisect_left(lengths, True, key=lambda at: not one.startswith(other[: at + 1]))


_MOST_NAMED = 100  # cases that do not fit


def price_for(provider: TargetProvider, file: StrPath | None = None) -> Price | None:
    """Return what the tokens of a target cost; None if that is not known.

    On Azure, the name is that of a deployment, so that only a file can have its price.
    """
    path = None if file is None else os.fspath(file)
    is_shipped = getattr(provider, "vendor", "") != "azure"
    for_an_hour = caches_for_an_hour(provider)
    return price_of(model_of(provider), path, with_shipped=is_shipped, for_an_hour=for_an_hour)


def caches_for_an_hour(provider: TargetProvider) -> bool:
    """Return whether a target has the vendor's cache keep prompts for an hour, at another price."""
    return getattr(provider.settings, "prompt_caching", None) == "1h"


def model_of(provider: TargetProvider) -> str:
    """Return the name of a target's model, which may be empty."""
    return str(getattr(provider.settings, "model", ""))


def no_price(provider: TargetProvider) -> str:
    """Return that a target has no price, and what to do about it."""
    model = model_of(provider)
    if provider.kind == "echo":
        return "echo costs nothing; leave it out"
    what = f"no price is known for {model!r}" if model else "the target has no model"
    is_installed = importlib.util.find_spec("genai_prices") is not None
    install = "" if is_installed or not model else "pip install 'multiturn[tokens]', or "
    return f"{what}; {install}give prices in a file ({option('prices')})"


class Estimate:
    """What the requests of a run are, before they are sent.

    Args:
        price: of the target's tokens; None if that is not known.
        prefixes: finds what requests share, as ``estimate`` does; None to leave that out.

    Attributes:
        cases: number of requests.
        input: number of input tokens.
        is_exact: whether the vendor counts as many; else the number is about right.
        media: number of images and other media, which are in no number of tokens.
        output: the most output tokens; those of requests without a limit are not in it.
        unlimited: number of requests whose output has no limit.
        input_cost: of the input tokens, in dollars; 0 without a price.
        output_cost: at most, of the output tokens.
        batch_input_cost: as ``input_cost``, in a batch; 0 where batches have no price.
        batch_output_cost: as ``output_cost``, in a batch.
        too_large: number of requests with more input tokens than the model takes.
        named: suite and id of the first hundred of them.
    """

    def __init__(self, price: Price | None = None, prefixes: SharedPrefixes | None = None) -> None:
        self.price, self.prefixes = price, prefixes
        self.cases = self.input = self.media = self.output = self.unlimited = self.too_large = 0
        self.is_exact = True
        self.input_cost = self.output_cost = self.batch_input_cost = self.batch_output_cost = 0.0
        self.named: list[tuple[str, str]] = []

    def add(self, case: "RunCase") -> None:
        """Add a request; what is not sent adds nothing."""
        tokens = case.tokens
        if tokens is None or case.action != "send":
            return
        if self.prefixes is not None:
            self.prefixes.add(self.prefixes.text(case.wire))
        self.cases += 1
        self.input += tokens.count
        self.is_exact &= tokens.is_exact
        self.media += tokens.media
        self.output += tokens.most_output or 0
        self.unlimited += tokens.most_output is None
        if self.price is None:
            return
        usage = Usage(tokens.count, tokens.most_output or 0)
        now, batch = self.price.now, self.price.batch
        self.input_cost += now.cost_of_input(usage)
        self.output_cost += now.cost_of_output(usage)
        if batch is not None:
            self.batch_input_cost += batch.cost_of_input(usage)
            self.batch_output_cost += batch.cost_of_output(usage)
        if tokens.count > (self.price.most_input or tokens.count):
            self.too_large += 1
            if len(self.named) < _MOST_NAMED:
                self.named.append((case.result.suite, case.result.id))

    @property
    def shared(self) -> int:
        """About how many input tokens an ideal cache finds, as a prefix of an earlier request."""
        return 0 if self.prefixes is None else min(self.prefixes.shared, self.input)

    @property
    def cached_input_cost(self) -> float:
        """The cost of the input tokens with an ideal cache; 0 where caches have no price."""
        if self.price is None or self.prefixes is None or not self.price.now.cached:
            return 0
        rate = self.price.now.cost_of_input
        saved = rate(Usage(1)) - rate(Usage(1, cached=1))
        added = rate(Usage(1, written=1)) - rate(Usage(1))
        return self.input_cost - self.shared * saved + self.prefixes.written * added


class Budget:
    """Adds up what a run uses, and says when that is enough.

    A request counts with its estimated input once it is sent, and with what the vendor counts once
    there is an answer; one that fails is free. So a run exceeds a limit only by the output of the
    requests that are under way, and by what the estimate is off.
    """

    def __init__(
        self,
        price: Price | None,
        *,
        most_cost: float | None = None,  # in dollars
        most_tokens: int | None = None,  # input and output together
        batch: bool = False,  # requests go in batches, which nothing can stop
        where: str = "",  # which target it is, for errors; empty for the only one
    ) -> None:
        self.price, self.batch = price, batch
        self._refused = partial(MultiturnError, where=where)
        self._reached = partial(LimitReachedError, where=where)
        self.rates = None if price is None else price.batch if batch else price.now
        self.most_cost, self.most_tokens = most_cost, most_tokens
        self.has_limit = most_cost is not None or most_tokens is not None
        self.cases = 0  # answers whose tokens the vendor has counted
        self.usage, self.cost = Usage(), 0.0  # of these
        # Their input tokens, as estimated and as the vendor counted them; without the cases with
        # media whose tokens nobody knows, and the number of those.
        self.estimated = self.compared = self.uncounted = 0
        self._tokens, self._cost = 0, 0.0  # with those of the requests under way
        self._paid: set[str] = set()  # ids; cases of a batch with the same request share one

    def _exceeded(self, tokens: int, cost: float) -> str:
        """Return the limit that an amount exceeds, as the user has written it; empty if none."""
        if self.most_tokens is not None and tokens > self.most_tokens:
            return option("max-tokens", value=f"{self.most_tokens:,}")
        if self.most_cost is not None and cost > self.most_cost:
            return option("max-cost", value=f"{self.most_cost:g}")
        return ""

    def check(self, found: Estimate, provider: TargetProvider) -> None:
        """Refuse a run whose input alone exceeds a limit; of batches, the output counts, too."""
        if self.most_cost is not None and self.rates is None:
            what = "needs a price in a batch" if self.batch and self.price else "needs a price"
            raise self._refused(f"{option('max-cost')} {what}: {no_price(provider)}")
        if self.batch and found.unlimited and self.has_limit:
            what = "a batch cannot be stopped, so a limit of the run needs a limit of each answer"
            raise self._refused(f"{what}; set max_output_tokens in the target")
        if self.batch and found.media and self.has_limit:
            what = "a batch cannot be stopped, so a limit of the run needs all input tokens, and"
            what += f" those of {number_of(found.media, 'image')} or other media are not known"
            how = f"have a dry run count them ({option('count-tokens')}), and leave out the limit"
            raise self._refused(f"{what}; {how}")
        tokens, cost = found.input, found.input_cost
        if self.batch:
            tokens += found.output
            cost = found.batch_input_cost + found.batch_output_cost
        about = "" if found.is_exact else "about "
        if limit := self._exceeded(tokens, 0):
            what = "tokens with the output exceed" if self.batch else "input tokens exceed"
            raise self._refused(f"{about}{tokens:,} {what} {limit}; nothing was sent")
        if limit := self._exceeded(0, cost):
            what = "with the output exceeds" if self.batch else "for the input alone exceeds"
            raise self._refused(f"{about}{dollars(cost)} {what} {limit}; nothing was sent")

    def begin(self, case: "RunCase") -> None:
        """Note that a request is about to be sent; a LimitReachedError says that it must not be."""
        tokens, cost = self._expected(case)
        self._tokens += tokens
        self._cost += cost
        if limit := self._exceeded(self._tokens, 0):
            used = self.usage.input + self.usage.output
            raise self._reached(f"stopped at {limit}: {used:,} tokens used")
        if limit := self._exceeded(0, self._cost):
            raise self._reached(f"stopped at {limit}: {dollars(self.cost)} spent")

    def end(self, case: "RunCase") -> None:
        """Note the result of a request; for an answer whose tokens nobody counts, the estimate."""
        name = request_id(case.result)
        if self.batch and name in self._paid:
            return
        self._paid |= {name} if self.batch else set()
        counted = case.result.usage
        if "input_tokens" not in counted and case.result.error is None:
            return
        tokens, cost = self._expected(case)
        self._tokens -= tokens
        self._cost -= cost
        if "input_tokens" not in counted:
            return
        usage = Usage.counted(counted)
        paid = self.rates.cost(usage) if self.rates else 0
        self.cases += 1
        self.usage += usage
        self.cost += paid
        has_unknown = case.tokens is not None and case.tokens.media > 0
        self.uncounted += has_unknown
        self.estimated += 0 if has_unknown else tokens
        self.compared += 0 if has_unknown else usage.input
        self._tokens += usage.input + usage.output
        self._cost += paid

    def _expected(self, case: "RunCase") -> tuple[int, float]:
        tokens = case.tokens.count if case.tokens else 0
        return tokens, self.rates.cost(Usage(tokens)) if self.rates else 0

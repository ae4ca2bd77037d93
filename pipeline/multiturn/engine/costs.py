"""What a run costs: estimated before anything is sent, added up afterwards, and limited."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from multiturn.engine.delivery import Delivery
from multiturn.engine.prefixes import SharedPrefixes
from multiturn.errors import option
from multiturn.providers.base import TargetProvider
from multiturn.providers.prices import Price, Rates, Usage, price_of
from multiturn.providers.results import Result
from multiturn.providers.tokens import Tokens

_MOST_NAMED = 100  # cases that do not fit


def price_for(provider: TargetProvider, file: str | Path | None = None) -> Price | None:
    """Return what the tokens of a target cost; None if that is not known.

    On Azure, the name is that of a deployment, so that only a file can have its price.

    Raises:
        MultiturnError: the file is not one of prices.
        OSError: it cannot be read.
    """
    path = None if file is None else str(file)
    is_deployment = getattr(provider, "vendor", "") == "azure"
    return price_of(
        model_of(provider),
        path,
        with_shipped=not is_deployment,
        for_an_hour=getattr(provider.settings, "prompt_caching", None) == "1h",
    )


def model_of(provider: TargetProvider) -> str:
    """Return the name of a target's model, which may be empty."""
    return str(getattr(provider.settings, "model", ""))


def no_price(provider: TargetProvider) -> str:
    """Return that a target has no price, and what to do about it."""
    model = model_of(provider)
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

    def add(self, delivery: Delivery) -> None:
        """Add a request; what is not sent adds nothing."""
        tokens = delivery.tokens
        if tokens is None or delivery.action != "send":
            return
        if self.prefixes is not None and delivery.wire is not None:
            self.prefixes.add(self.prefixes.text(delivery.wire))
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
                self.named.append((delivery.result.suite, delivery.result.id))

    @property
    def shared(self) -> int:
        """About how many input tokens are in a prefix of an earlier request.

        An ideal cache finds them. Prefixes below the vendor's minimum do not count.
        """
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


def estimate(
    deliveries: Iterable[Delivery],
    provider: TargetProvider,
    *,
    prices: str | Path | None = None,
) -> Estimate:
    """Return how many tokens requests have, and what they cost, before they are sent.

    Args:
        deliveries: as ``dry_run`` yields them; those that are not sent add nothing.
        provider: of the target.
        prices: path of a file with prices, which wins over those of the package genai-prices.

    Raises:
        MultiturnError: the file is not one of prices.
        OSError: it cannot be read.
    """
    found = Estimate(price_for(provider, prices), SharedPrefixes(provider))
    for delivery in deliveries:
        found.add(delivery)
    return found


class Spending:
    """What the answers of a run have cost, as the vendor counts their tokens.

    Args:
        rates: of the tokens; None if their price is not known.

    Attributes:
        cases: number of answers whose tokens the vendor has counted.
        usage: the sum of their tokens.
        cost: in dollars; 0 without a price.
        estimated: the input tokens that were estimated for these answers.
    """

    def __init__(self, rates: Rates | None = None) -> None:
        self.rates = rates
        self.cases = self.estimated = 0
        self.usage = Usage()
        self.cost = 0.0

    @property
    def tokens(self) -> int:
        """Number of input and output tokens."""
        return self.usage.input + self.usage.output

    def add(self, usage: Usage, estimated: Tokens | None) -> float:
        """Add the tokens of an answer, and return what they cost."""
        cost = self.rates.cost(usage) if self.rates else 0
        self.cases += 1
        self.usage += usage
        self.cost += cost
        self.estimated += estimated.count if estimated else 0
        return cost


def usage_of(result: Result) -> Usage | None:
    """Return the tokens of a result; None if the vendor counted none."""
    counted = result.usage
    if "input_tokens" not in counted:
        return None
    names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
    return Usage(*(counted.get(name, 0) for name in names))

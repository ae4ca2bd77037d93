"""The limits of a run: what it may cost, and how many tokens it may use."""

from multiturn.engine.costs import Estimate, Spending, no_price, usage_of
from multiturn.engine.delivery import Delivery
from multiturn.errors import LimitReachedError, MultiturnError, option
from multiturn.providers.base import TargetProvider
from multiturn.providers.prices import Price, Rates, Usage
from multiturn.text import dollars


class Budget:
    """Adds up what a run uses, and says when that is enough.

    A request counts with its estimated input once it is sent, and with what the vendor counts once
    there is an answer; one that fails is free. So a run exceeds a limit only by the output of the
    requests that are under way, and by what the estimate is off.

    Args:
        price: of the target's tokens; None if that is not known.
        most_cost: in dollars; None for no limit.
        most_tokens: input and output together; None for no limit.
        batch: whether the requests are sent in batches, which nothing can stop once they are sent.
    """

    def __init__(
        self,
        price: Price | None,
        *,
        most_cost: float | None,
        most_tokens: int | None,
        batch: bool,
    ) -> None:
        self.price, self.batch = price, batch
        self.most_cost, self.most_tokens = most_cost, most_tokens
        self.spending = Spending(self.rates)
        self._tokens, self._cost = 0, 0.0  # with those of the requests under way
        self._paid: set[str] = set()  # digests; cases of a batch with the same request share one

    @property
    def rates(self) -> Rates | None:
        """What tokens cost in this run."""
        if self.price is None:
            return None
        return self.price.batch if self.batch else self.price.now

    @property
    def has_limit(self) -> bool:
        """Whether there is a limit."""
        return self.most_cost is not None or self.most_tokens is not None

    @property
    def _cost_limit(self) -> str:
        return option("max-cost", value=f"{self.most_cost:g}")

    @property
    def _token_limit(self) -> str:
        return option("max-tokens", value=f"{self.most_tokens:,}")

    def check(self, found: Estimate, provider: TargetProvider) -> None:
        """Refuse a run whose input alone exceeds a limit; of batches, the output counts, too.

        Raises:
            MultiturnError: it does, or that cannot be known.
        """
        if self.most_cost is not None and self.rates is None:
            kind = " in a batch" if self.batch and self.price else ""
            raise MultiturnError(f"{option('max-cost')} needs a price{kind}: {no_price(provider)}")
        if self.batch and found.unlimited and self.has_limit:
            what = "a batch cannot be stopped, so a limit of the run needs a limit of each answer"
            raise MultiturnError(f"{what}; set max_output_tokens in the target")
        about = "" if found.is_exact else "about "
        tokens = found.input + (found.output if self.batch else 0)
        if self.most_tokens is not None and tokens > self.most_tokens:
            kind = "tokens with the output" if self.batch else "input tokens"
            what = f"{about}{tokens:,} {kind} exceed {self._token_limit}"
            raise MultiturnError(f"{what}; nothing was sent")
        cost = found.batch_input_cost + found.batch_output_cost if self.batch else found.input_cost
        if self.most_cost is not None and cost > self.most_cost:
            kind = "with the output" if self.batch else "for the input alone"
            what = f"{about}{dollars(cost)} {kind} exceeds {self._cost_limit}"
            raise MultiturnError(f"{what}; nothing was sent")

    def begin(self, delivery: Delivery) -> None:
        """Note that a request is about to be sent.

        Raises:
            LimitReachedError: it would exceed a limit, so it must not be sent.
        """
        tokens, cost = self._expected(delivery)
        self._tokens += tokens
        self._cost += cost
        if self.most_tokens is not None and self._tokens > self.most_tokens:
            used = f"{self.spending.tokens:,} tokens used"
            raise LimitReachedError(f"stopped at {self._token_limit}: {used}")
        if self.most_cost is not None and self._cost > self.most_cost:
            spent = f"{dollars(self.spending.cost)} spent"
            raise LimitReachedError(f"stopped at {self._cost_limit}: {spent}")

    def end(self, delivery: Delivery) -> None:
        """Note the result of a request; for an answer whose tokens nobody counts, the estimate."""
        digest = delivery.result.digest
        if self.batch and digest in self._paid:
            return
        self._paid |= {digest} if self.batch else set()
        usage = usage_of(delivery.result)
        if usage is None and delivery.result.error is None:
            return
        tokens, cost = self._expected(delivery)
        self._tokens -= tokens
        self._cost -= cost
        if usage is not None:
            self._tokens += usage.input + usage.output
            self._cost += self.spending.add(usage, delivery.tokens)

    def _expected(self, delivery: Delivery) -> tuple[int, float]:
        tokens = delivery.tokens.count if delivery.tokens else 0
        return tokens, self.rates.cost(Usage(tokens)) if self.rates else 0

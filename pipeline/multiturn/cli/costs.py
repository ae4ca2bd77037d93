"""What ``multiturn run`` says of tokens and money."""

from typing import TYPE_CHECKING

from multiturn.cli.options import say_summary
from multiturn.engine.costs import Estimate, Spending, model_of, no_price
from multiturn.engine.prefixes import ASSUMED_MINIMUM
from multiturn.text import dollars, first_of, number_of

if TYPE_CHECKING:
    from multiturn.providers.base import TargetProvider
    from multiturn.providers.prices import Price


def say_estimate(estimate: Estimate, provider: "TargetProvider") -> None:
    """Print how many tokens requests have, what they cost, and which do not fit the model."""
    if not estimate.cases:
        return
    lines = [
        _tokens(estimate, provider),
        _money(estimate, provider),
        *_too_large(estimate, provider),
    ]
    for line in filter(None, lines):
        say_summary(line, err=True)


def _tokens(estimate: Estimate, provider: "TargetProvider") -> str:
    words = f"{_about(estimate)}{_many(estimate.input)} input tokens"
    words += _shared(estimate, provider)
    words += without_media(estimate.media)
    limited = f"at most {_many(estimate.output)} output tokens"
    if not estimate.unlimited:
        return f"{words}; {limited}"
    if estimate.unlimited == estimate.cases:
        return f"{words}; the output has no limit"
    return f"{words}; {limited}, and {_many(estimate.unlimited)} requests without a limit"


def without_media(number: int) -> str:
    """Return the words that say how many images and other media are in no count."""
    return f", without {number_of(number, 'image')} or other media (not known)" if number else ""


def _shared(estimate: Estimate, provider: "TargetProvider") -> str:
    if not estimate.shared:
        return ""
    share = round(100 * estimate.shared / estimate.input)
    words = f", {share} % in prefixes that other cases share"
    if provider.cache_minimum is not None:
        return words
    return f"{words} (if they are cached from {ASSUMED_MINIMUM:,} tokens on, which is not known)"


def _money(estimate: Estimate, provider: "TargetProvider") -> str:
    price = estimate.price
    if price is None:
        return no_price(provider) if model_of(provider) else ""
    now = _both(estimate, estimate.input_cost, estimate.output_cost)
    batch = ""
    if price.batch is not None:
        batch = _both(estimate, estimate.batch_input_cost, estimate.batch_output_cost)
        batch = f"; as a batch {batch}"
    cache = ""
    if estimate.shared and price.now.cached and provider.cache_minimum is not None:
        option = "the cache" if provider.has_cache else "prompt_caching"
        cost = _both(estimate, estimate.cached_input_cost, estimate.output_cost)
        cache = f"; with {option} {cost}"
    media = "; all without images or other media" if estimate.media else ""
    return f"{_about(estimate)}{now}{batch}{cache}{media} ({price.source})"


def _both(estimate: Estimate, input_cost: float, output_cost: float) -> str:
    if estimate.unlimited:
        return f"{dollars(input_cost)} for the input"
    return (
        f"{dollars(input_cost)} for the input, at most {dollars(input_cost + output_cost)} in all"
    )


def _too_large(estimate: Estimate, provider: "TargetProvider") -> list[str]:
    if not estimate.too_large or estimate.price is None:
        return []
    does = "does" if estimate.too_large == 1 else "do"
    what = f"{number_of(estimate.too_large, 'case')} {does} not fit {model_of(provider)}"
    suites: dict[str, list[str]] = {}
    for suite, case_id in estimate.named:
        suites.setdefault(suite, []).append(case_id)
    named = [f"{suite}: {first_of(ids)}" for suite, ids in suites.items()]
    return [f"{what} ({estimate.price.most_input:,} tokens): {first_of(named)}"]


def say_spending(spending: Spending, price: "Price | None") -> None:
    """Print the tokens that the vendor has counted, what they cost, and how far we were off."""
    if not spending.cases:
        return
    usage = spending.usage
    cached = f" ({_many(usage.cached)} from the cache)" if usage.cached else ""
    words = f"{_many(usage.input)} input tokens{cached}, {_many(usage.output)} output tokens"
    if price is not None and spending.rates is not None:
        words += f": {dollars(spending.cost)} ({price.source})"
    if spending.estimated and usage.input:
        off = spending.estimated / usage.input - 1
        side = "high" if off > 0 else "low"
        near = f"{abs(off):.0%} too {side}" if round(abs(off), 2) else "right"
        words += f"; the estimate of the input was {near}"
    say_summary(words, err=True)


def _about(estimate: Estimate) -> str:
    return "" if estimate.is_exact else "about "


def _many(count: int) -> str:
    """Return a number in words; one of more than a million is rounded.

    >>> _many(1200), _many(1_213_404)
    ('1,200', '1.21 million')
    """
    return f"{count:,}" if count < 1_000_000 else f"{count / 1_000_000:.2f} million"

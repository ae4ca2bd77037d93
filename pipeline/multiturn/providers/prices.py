"""What tokens cost: from a file of the user's, else from the package genai-prices.

Prices go by the name of the model, whatever the address. A model without a known price has none.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from operator import add
from typing import Annotated, Any, Self

from msgspec import Meta, Struct, structs
from msgspec.structs import astuple

from multiturn.documents.input import open_regular, read_at_most
from multiturn.documents.validation import LARGEST_NUMBER, read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError

_MAX_FILE = 2**20
_Dollars = Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)]
# Dollars for a million tokens: those of a request with more input tokens than the number before.
Steps = tuple[tuple[int, float], ...]


class Usage(Struct, frozen=True):
    """The tokens of one request."""

    input: int = 0  # all input tokens
    output: int = 0
    cached: int = 0  # how many of the input tokens are read from the vendor's cache
    written: int = 0  # how many of the input tokens are written into it

    @classmethod
    def counted(cls, counted: Mapping[str, int]) -> Self:
        """Return the tokens of a result, as a vendor has counted them."""
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        return cls(*(counted.get(name, 0) for name in names))

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))


class Rates(Struct, frozen=True, kw_only=True):
    """What tokens cost in one way of sending; where caches have no price, they cost as input."""

    input: Steps
    output: Steps
    cached: Steps = ()
    written: Steps = ()

    def cost(self, usage: Usage) -> float:
        """Return the cost of a request in dollars."""
        return self.cost_of_input(usage) + self.cost_of_output(usage)

    def cost_of_input(self, usage: Usage) -> float:
        """Return the cost of its input tokens."""
        amounts = (
            (usage.input - usage.cached - usage.written, self.input),
            (usage.cached, self.cached or self.input),
            (usage.written, self.written or self.input),
        )
        return sum(count * _at(usage.input, steps) for count, steps in amounts) / 1_000_000

    def cost_of_output(self, usage: Usage) -> float:
        """Return the cost of its output tokens."""
        return usage.output * _at(usage.input, self.output) / 1_000_000


def _at(tokens: int, steps: Steps) -> float:
    """Return the price of the last step that a request with so many input tokens is above."""
    return [steps[0][1], *(price for start, price in steps[1:] if tokens > start)][-1]


class Price(Struct, frozen=True, kw_only=True):
    """What the tokens of a model cost; None is not known."""

    now: Rates  # when requests are sent one by one
    batch: Rates | None = None
    source: str  # who says so, and the day
    most_input: int | None = None  # the most input tokens that the model takes


class _Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of a model in a user's file."""

    input: _Dollars
    output: _Dollars
    cached_input: _Dollars | None = None
    batch_input: _Dollars | None = None
    batch_output: _Dollars | None = None


def price_of(
    model: str, file: str | None = None, *, with_shipped: bool = True, for_an_hour: bool = False
) -> Price | None:
    """Return the price of a model; None if it is not known.

    Args:
        model: its name; of a name with slashes, as gateways have it, also the last part.
        file: path of a file with prices, which wins; a MultiturnError or OSError if it is none.
        with_shipped: whether the package may know it.
        for_an_hour: whether the vendor's cache keeps what is written for an hour.
    """
    names = tuple(dict.fromkeys((model, model.rpartition("/")[2])))
    written = _read(file) if file else {}
    shipped = next(_shipped(names, for_an_hour), None) if with_shipped else None
    for name in names:
        if name in written:
            most_input = shipped.most_input if shipped else None
            return structs.replace(written[name], most_input=most_input)
    return shipped


def _read(file: str) -> dict[str, Price]:
    """Return the prices of a file by model."""
    with open_regular(file, file) as opened:
        changed = datetime.fromtimestamp(os.fstat(opened.fileno()).st_mtime, UTC).date()
        data = read_at_most(_MAX_FILE, opened, file, "a file of prices")
    documents = list(read_documents(data, file))
    if len(documents) != 1 or not isinstance(documents[0].children, dict):
        raise MultiturnError("a file of prices is a mapping from models to prices", where=file)
    source, found = f"prices of {file}, changed on {changed}", {}
    for model, node in documents[0].children.items():
        entry = read_as(node, _Entry, where=file, label=f"model {model!r}")
        cached = () if entry.cached_input is None else ((0, entry.cached_input),)
        now = Rates(input=((0, entry.input),), output=((0, entry.output),), cached=cached)
        batch = None
        if entry.batch_input is not None and entry.batch_output is not None:
            batch = Rates(input=((0, entry.batch_input),), output=((0, entry.batch_output),))
        found[model] = Price(now=now, batch=batch, source=source)
    return found


def _shipped(names: tuple[str, ...], for_an_hour: bool) -> Iterator[Price]:
    """Yield the price that the package has for the first name that it knows."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ModuleNotFoundError:
        return
    snapshot: Any = get_snapshot()
    for name in names:
        try:
            _, model = snapshot.find_provider_model(name, None, None, None)
        except LookupError:
            continue
        today = datetime.now(UTC)
        now = model.get_prices(today)
        batch = model.get_prices(today, {"processing": "batch"})
        if getattr(now, "input_mtok", None) is None or getattr(now, "output_mtok", None) is None:
            continue
        yield Price(
            now=_rates(now, for_an_hour),
            batch=None if batch == now else _rates(batch, for_an_hour),
            source=_source(snapshot, today.date()),
            most_input=model.context_window,
        )


def _rates(price: Any, for_an_hour: bool) -> Rates:
    """Return rates of the package as ours."""
    names = {"input": "input", "output": "output", "cached": "cache_read", "written": "cache_write"}
    if for_an_hour:
        names["written"] = "cache_write_1h"
    found = {ours: getattr(price, f"{theirs}_mtok", None) for ours, theirs in names.items()}
    return Rates(**{name: _steps(value) for name, value in found.items() if value is not None})


def _steps(value: Any) -> Steps:
    tiers = getattr(value, "tiers", ())
    return ((0, float(getattr(value, "base", value))), *((t.start, float(t.price)) for t in tiers))


def _source(snapshot: Any, today: date) -> str:
    """Return the package's version, and the latest day on which one of its prices began."""
    from importlib.metadata import version

    begun = (
        each.constraint.start_date
        for provider in snapshot.providers
        for model in provider.models
        if isinstance(model.prices, list)
        for each in model.prices
        if hasattr(each.constraint, "start_date")
    )
    day = max((day for day in begun if day <= today), default=None)
    return f"prices of {day} or later, from genai-prices {version('genai-prices')}"

"""Keep the last exchanges of a long conversation, or as many as fit into a number of tokens."""

from bisect import bisect_right
from functools import cache
from typing import Annotated, Literal

from msgspec import Meta

from multiturn import Conversion, InputError, PreparedRequest, StageError, stage
from multiturn.model.tokens import Overhead, Tokenizer, sent_of


@stage(requires={"history", "text", "chat", "visible_turns"}, consumes={"history"})
def trim_history(
    conversion: Conversion,
    *,
    exchanges: Annotated[int, Meta(ge=1)] | None = None,
    tokens: Annotated[int, Meta(ge=1)] | None = None,
    keep_first: Annotated[int, Meta(ge=0)] = 0,
    count: Literal["estimate", "o200k_base", "cl100k_base"] = "estimate",
) -> Conversion:
    """Drop the oldest exchanges: a message of the user and what follows it until the next one.

    Calls of tools go with their results. System messages stay, and so do guidelines, also those
    that a dropped message attached. Put it last: what a later stage adds is not counted.

    Args:
        exchanges: how many of the last ones are kept; null: as many as there are.
        tokens: the most that the prompt may have, counted as ``multiturn list --tokens`` does, with
            tools and without media. As many of the last exchanges are kept as fit.
        keep_first: how many of the first exchanges are kept besides.
        count: ``estimate``, or the tokenizer whose tokens are counted, which needs
            ``pip install 'multiturn[tokens]'``.

    Raises:
        MultiturnError: what must stay has more tokens; there is no limit, or no such tokenizer.
    """
    tokenizer = Tokenizer("" if count == "estimate" else count)
    if exchanges is None and tokens is None:
        raise StageError("trim_history has no limit; give it exchanges or tokens")
    if tokenizer.encoding and not tokenizer.is_exact:
        what = f"trim_history counts with {count}, and the package bpe-openai is not installed"
        raise StageError(f"{what}; pip install 'multiturn[tokens]', or leave out count")
    groups, counted = conversion.exchanges, cache(tokenizer.count)
    trimmable = max(len(groups) - keep_first, 1)
    last = trimmable if exchanges is None else min(exchanges, trimmable)

    def kept(last: int, why: str = "-") -> Conversion:
        return conversion.drop(groups[keep_first : max(len(groups) - last, keep_first)], why)

    def size(kept: Conversion) -> int:
        request = PreparedRequest(messages=kept.sent, tools=kept.tools)
        return sent_of(request).size(counted, Overhead())

    limit = ""
    if tokens is not None and size(kept(last)) > tokens:
        last = bisect_right(range(1, last), tokens, key=lambda last: size(kept(last)))
        limit = f", to fit into {tokens:,} tokens"
        if last == 0:
            whole, rest = size(kept(1)), size(conversion.drop(groups, "-"))
            what = f"{whole:,} tokens must stay, more than tokens: {tokens} of trim_history;"
            what += f" {rest:,} without exchanges, {whole - rest:,} of the last one"
            what += f" and the first {keep_first}" if keep_first else ""
            raise InputError(f"{what}; raise tokens, or shorten them")
    number = "exchange is" if last == 1 else f"{last} exchanges are"
    return kept(last, f"only the last {number} kept{limit}")

"""Images, documents and audio in requests: where an API takes them, and their bytes in a body.

A body has a ``Base64`` where the bytes belong; they are read from the store as it is encoded.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from msgspec import structs

from multiturn.errors import quoted
from multiturn.files.media import MEDIA_KINDS, Media, MediaKind
from multiturn.model.turns import Part, Turn
from multiturn.providers.layout import Layout
from multiturn.providers.models import Abilities, Accepted
from multiturn.text import first_of, number_of

_FEATURES: dict[MediaKind, Accepted] = {  # by which models differ
    "image": "images",
    "document": "documents",
    "audio": "audio",
}


def media_in(turns: Iterable[Turn]) -> Iterator[Media]:
    """Yield the media of turns."""
    return (part.media for turn in turns for part in turn.parts if part.media is not None)


class Limit(NamedTuple):
    """How much a vendor takes; what is in base64 counts as that."""

    rule: str
    most: int  # bytes
    kinds: tuple[MediaKind, ...] = MEDIA_KINDS
    is_for_each: bool = False


def want_sizes(layout: Layout, limits: Iterable[Limit]) -> None:
    """Refuse media that are larger than a vendor takes."""
    for rule, most, kinds, is_for_each in limits:
        found = [media for media in media_in(layout.messages) if media.kind in kinds]
        if is_for_each:
            large = {media: _in_base64(media) for media in found if _in_base64(media) > most}
            sizes = (f"{quoted(each.name)} has {size:,}" for each, size in large.items())
            if large:
                layout.refuse(rule, f"{first_of([*sizes])} bytes in base64")
        elif (size := sum(map(_in_base64, found))) > most:
            layout.refuse(rule, f"this one has {size:,} bytes of media in base64")


def _in_base64(media: Media) -> int:
    return (media.size + 2) // 3 * 4


def want_kinds(
    layout: Layout, abilities: Abilities, kinds: tuple[MediaKind, ...] = MEDIA_KINDS
) -> None:
    """Refuse media that the model does not take; note a doubt if that is not known.

    The kinds are those that its API takes.
    """
    first = {media.kind: media for media in reversed([*media_in(layout.messages)])}
    for kind, feature in ((kind, _FEATURES[kind]) for kind in kinds if kind in first):
        advice = f"leave out {quoted(first[kind].name)}, or use a model that takes {feature}"
        layout.judge(abilities.takes(feature), advice)


def want_user_media(layout: Layout, rule: str) -> None:
    """Refuse media in messages of the assistant."""
    found = media_in(turn for turn in layout.messages if turn.role == "assistant")
    if names := _names_of(found):
        layout.refuse(rule, f"attach {names} to a message of the user")


def want_types(layout: Layout, rule: str, takes: Callable[[Media], bool], advice: str) -> None:
    """Refuse media that an API takes in no message; the advice says what to write."""
    if names := _names_of(media for media in media_in(layout.messages) if not takes(media)):
        layout.refuse(rule, f"{advice} in place of {names}")


def _names_of(found: Iterable[Media]) -> str:
    """Return the names of some media, as errors show them; empty for none."""
    return first_of([quoted(name) for name in dict.fromkeys(media.name for media in found)])


def without_detail(layout: Layout) -> None:
    """Name the repair where an API knows no ``detail`` of an image (M3)."""
    for media in dict.fromkeys(media for media in media_in(layout.messages) if media.detail):
        layout.repair("M3", f"left out the detail {media.detail} of {media.name!r}")


def move_from_results(
    layout: Layout, takes: Callable[[Turn, Media], bool], rule: str = "T6"
) -> None:
    """Send the media of results in a user message after them, if they are not taken there."""
    turns: list[Turn] = []
    for _, run in groupby(layout.messages, lambda turn: turn.answers is not None):
        moved: list[Part] = []
        for turn in run:
            parts = [part for part in turn.parts if part.media and not takes(turn, part.media)]
            if turn.answers is not None and parts:
                of_call = f"From the result of the call {turn.answers}:"
                moved += (Part("text", of_call, stage=f"rule {rule}"), *parts)
                said = tuple(_told(part, rule) if part in parts else part for part in turn.parts)
                turn = structs.replace(turn, parts=said)
                count = number_of(len(parts), "file")
                layout.repair(rule, f"sent {count} of a result in a user message after it")
            turns.append(turn)
        if moved:
            turns.append(Turn("user", tuple(moved)))
    layout.messages = turns


def _told(part: Part, rule: str) -> Part:
    """Return a sentence in place of media."""
    assert part.media is not None  # noqa: S101 - only media are moved
    text = f"The {part.media.kind} {part.media.name} is in the next message of the user."
    return Part("text", text, part.separator, stage=f"rule {rule}")

"""Renamed cases: those with another id, or in another suite, and a similar text."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from multiturn.review.snapshots import Key

_K = TypeVar("_K")
_Group = Callable[[Key, str], object]

_ALIKE = 0.5  # share of common words; git requires half of the lines
_MOST = 20  # candidates per text
_PROMPT = "\nchat_prompt:"  # suite and id are above it in a snapshot
_WORD = re.compile(r"\w+")
# These words are in every snapshot, whatever the case says.
_FORM = frozenset(
    _WORD.findall(
        "chat_prompt role content question input_files path resolved_path guideline guidelines"
        " sha256 system user assistant tool System User Assistant Tool Guidelines Attached"
        " true false"
    )
)


def renames(removed: Mapping[Key, str], added: Mapping[Key, str]) -> dict[Key, Key]:
    r"""Match cases that were removed with cases that were added, as git finds renamed files.

    Suites are matched first; in a renamed suite a case keeps its id. Then come cases with the same
    text, then those with at least half of their words in common, the most similar first; always
    within a suite before across suites. Each text is compared with a few that share its rarest
    words, so the time is proportional to the size of the texts.

    Args:
        removed: the text of each case's snapshot, by suite and id.
        added: the same.

    Returns:
        The old suite and id, by the new ones.

    >>> old = {("a.yaml", "case-4"): "\nchat_prompt: Where is my order?"}
    >>> renames(old, {("a.yaml", "refund"): "\nchat_prompt: Where is my refund?"})
    {('a.yaml', 'refund'): ('a.yaml', 'case-4')}
    """
    before, after = _said(removed), _said(added)
    suites = _renamed_suites(before, after)
    found: dict[Key, Key] = {}

    def groups(group: _Group) -> Iterable[tuple[list[Key], list[Key]]]:
        """Return the unmatched cases, old and new ones, in groups."""
        taken, sides = set(found.values()), dict[object, tuple[list[Key], list[Key]]]()
        for was, text in before.items():
            if was not in taken:
                key = suites.get(was[0], was[0]), was[1]
                sides.setdefault(group(key, text), ([], []))[0].append(was)
        for key, text in after.items():
            if key not in found:
                sides.setdefault(group(key, text), ([], []))[1].append(key)
        return sides.values()

    identical: tuple[_Group, ...] = (
        lambda key, _: key,
        lambda key, text: (key[0], text),
        lambda _, text: text,
    )
    for group in identical:
        for old, new in groups(group):
            found.update(zip(new, old, strict=False))
    for group in (lambda key, _: key[0]), (lambda *_: None):
        for old, new in groups(group):
            if old and new:
                words = (
                    {key: _words([side[key]]) for key in keys}
                    for side, keys in ((before, old), (after, new))
                )
                found.update(_similar(*words))
    return found


def _said(side: Mapping[Key, str]) -> dict[Key, str]:
    return {key: text.partition(_PROMPT)[2] or text for key, text in side.items()}


def _words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of some texts, interned to save memory."""
    words = (map(sys.intern, _WORD.findall(text)) for text in texts)
    return frozenset().union(*words) - _FORM


def _renamed_suites(before: Mapping[Key, str], after: Mapping[Key, str]) -> dict[str, str]:
    """Return the new name of each suite whose cases have moved to another one."""
    old, new = dict[str, list[str]](), dict[str, list[str]]()
    for side, suites in ((before, old), (after, new)):
        for (suite, _), text in side.items():
            suites.setdefault(suite, []).append(text)
    found = {suite: suite for suite in old.keys() & new.keys()}
    for units in frozenset, _words:
        sides = (
            {suite: units(texts) for suite, texts in suites.items() if suite not in known}
            for suites, known in ((old, found), (new, found.values()))
        )
        found |= {was: suite for suite, was in _similar(*sides).items()}
    return found


def _similar(old: Mapping[_K, frozenset[str]], new: Mapping[_K, frozenset[str]]) -> dict[_K, _K]:
    """Return pairs of sets that have enough in common, the most similar ones first."""
    holders: dict[str, list[_K]] = {}
    places = {key: at for at, key in enumerate(old)}
    for key, items in old.items():
        for item in items:
            holders.setdefault(item, []).append(key)
    rarest = sorted(holders, key=lambda item: (len(holders[item]), item))
    ranks = {item: rank for rank, item in enumerate(rarest)}
    pairs = []
    for at, (key, items) in enumerate(new.items()):
        candidates: dict[_K, None] = {}
        for item in sorted(items & ranks.keys(), key=ranks.__getitem__):
            those = holders[item]  # in the order of the suites: those nearest to this case
            start = max(0, min(at - _MOST // 2, len(those) - _MOST))
            candidates.update(dict.fromkeys(those[start : start + _MOST]))
            if len(candidates) >= _MOST:
                break
        for was in candidates:
            alike = len(items & old[was]) / max(len(items), len(old[was]))
            if alike >= _ALIKE:
                pairs.append((-alike, abs(places[was] - at), at, key, was))
    found: dict[_K, _K] = {}
    taken = set()
    for *_, key, was in sorted(pairs, key=lambda pair: pair[:3]):
        if key not in found and was not in taken:
            found[key] = was
            taken.add(was)
    return found

"""How many tokens an image is to a model, by the formula that its vendor has published."""

import math
from bisect import bisect_right
from typing import Literal

from msgspec import Struct

_SQUARES = {"tiles": 512, "patches": 32, "cells": 28}  # pixels of an edge


class ImageRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A formula with the numbers of a model.

    Attributes:
        form: what the tokens are for: the `image`; OpenAI's `tiles` or `patches`; Anthropic's
            `cells`; Gemini's `crops`.
        each: tokens of each of these.
        base: tokens of the image beside them.
        edge: the longest edge in pixels that the model sees; a larger image is made smaller.
        short: the same of the shorter edge.
        most: the most patches or cells; an image with more of them is made smaller.
    """

    form: Literal["image", "tiles", "patches", "cells", "crops"]
    each: float
    base: int = 0
    edge: int | None = None
    short: int | None = None
    most: int | None = None

    def tokens(self, width: int, height: int) -> int:
        """Return the tokens of an image.

        >>> ImageRule(form="tiles", each=170, base=85, edge=2048, short=768).tokens(1024, 1024)
        765
        """
        return math.ceil(self.base + self.each * self._number(width, height))

    def _number(self, width: int, height: int) -> int:
        if self.form == "image":
            return 1
        if self.form == "crops":
            unit = max(int(min(width, height) / 1.5), 1)
            is_small = max(width, height) <= 384
            return 1 if is_small else math.ceil(width / unit) * math.ceil(height / unit)
        limits = ((self.edge, max(width, height)), (self.short, min(width, height)))
        scale = min([1.0, *(limit / side for limit, side in limits if limit)])
        width, height = (max(int(side * scale + 1e-9), 1) for side in (width, height))
        if self.most is None or self._cover(width, height) <= self.most:
            return self._cover(width, height)
        if self.form == "cells":  # the largest size with the same ratio that has no more of them
            long, ratio = max(width, height), min(width, height) / max(width, height)
            edges = range(1, long + 1)
            long = bisect_right(edges, self.most, key=lambda edge: self._cover(edge, edge * ratio))
            return self._cover(long, long * ratio)
        shrink = math.sqrt(_SQUARES[self.form] ** 2 * self.most / (width * height))
        fitting = [side * shrink / _SQUARES[self.form] for side in (width, height)]
        shrink *= min(math.floor(each) / each for each in fitting)
        return self._cover(int(width * shrink + 1e-9), int(height * shrink + 1e-9))

    def _cover(self, width: float, height: float) -> int:
        """Return how many squares cover an image."""
        edge = _SQUARES[self.form]
        return math.prod(math.ceil(max(round(side), 1) / edge) for side in (width, height))


class ImageRules(Struct, frozen=True, forbid_unknown_fields=True):
    """The formulas of a model by how closely it looks: ``detail`` of an image, else ``auto``."""

    auto: ImageRule | None = None
    low: ImageRule | None = None
    high: ImageRule | None = None
    original: ImageRule | None = None

"""What turns say, for tests of stages and of views."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from layout import TEXTS, laid_out
from multiturn import Conversion, Turn
from multiturn.testing import conversion
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.render_question import render_question

MARKERS = laid_out().markers
Run = Callable[..., Conversion]  # the fixture run_stage


def contents(turns: Iterable[Turn] | None) -> list[tuple[str, str]] | None:
    """Return the role and the content of each turn; None without a chat."""
    return None if turns is None else [(turn.role, turn.content) for turn in turns]


def viewed(*messages: Any, **case: Any) -> Conversion:
    """Return a conversion of messages, with a chat and a question."""
    given = replace(conversion(*messages, **case), markers=MARKERS)
    chat = consolidate_system(given, **TEXTS["consolidate_system"])
    return render_question(chat, **TEXTS["render_question"])

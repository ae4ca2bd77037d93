"""What turns say, for tests of stages and of views."""

from collections.abc import Callable, Iterable

from multiturn import Conversion, Turn

Run = Callable[..., Conversion]  # the fixture run_stage


def contents(turns: Iterable[Turn] | None) -> list[tuple[str, str]] | None:
    """Return the role and the content of each turn; None without a chat."""
    return None if turns is None else [(turn.role, turn.content) for turn in turns]

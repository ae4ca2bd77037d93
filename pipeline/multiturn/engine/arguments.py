"""What calls in Python must be: their arguments, and where they are made."""

import asyncio
from typing import Any


def want(value: object, kind: Any, words: str) -> None:
    """Raise a TypeError if an argument has the wrong type."""
    if not isinstance(value, kind):
        raise TypeError(f"{words}, not {type(value).__name__}")


def want_no_loop(call: str) -> None:
    """Raise a RuntimeError, with advice, if a call that blocks is made inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    what = f"{call} has an event loop of its own; inside another one, call it in a thread:"
    raise RuntimeError(f"{what} await asyncio.to_thread(list, {call}(...))")

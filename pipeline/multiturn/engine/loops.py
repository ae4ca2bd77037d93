"""Calls that block until an event loop of their own has ended."""

import asyncio


def want_no_loop(call: str) -> None:
    """Raise a RuntimeError, with advice, if a call that blocks is made inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    what = f"{call} has an event loop of its own; inside another one, call it in a thread:"
    raise RuntimeError(f"{what} await asyncio.to_thread(list, {call}(...))")

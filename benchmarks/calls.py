"""What does a call from a program cost, from a mapping, against a Case that is made by hand?

The floor is the same of a case made by hand. Times are CPU, so that a busy machine gives the same
ratios as an idle one. It also prints how much memory 100,000 calls take, which are all different.
"""

import asyncio
import base64
import os
from collections.abc import Callable
from resource import RUSAGE_SELF, getrusage
from time import process_time
from typing import Any

from measuring import medians, show
from multiturn import (
    Case,
    Pipeline,
    TestMessage,
    Tool,
    case_of,
    load_pipeline,
    load_target,
    prepare,
    send,
)

SENTENCE = "Say something about this, please. "
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"type": "string", "enum": ["c", "f"]},
        "more": {"type": "object", "properties": {"a": {"type": "boolean"}}},
    },
    "required": ["city"],
}
TARGET = {"provider": "openai", "model": "gpt-5-mini", "api_key": "key-of-nobody"}
CALLS, MOST = 100_000, 1.3


def mapping(messages: int, tools: int = 0, image: str = "") -> dict[str, Any]:
    """Return messages of 350 characters in the form of OpenAI, with tools or an image."""
    listed: list[dict[str, Any]] = [
        {"role": ("user", "assistant")[at % 2], "content": SENTENCE * 10} for at in range(messages)
    ]
    if image:
        text = {"type": "text", "text": SENTENCE}
        listed[0]["content"] = [text, {"type": "image_url", "image_url": {"url": image}}]
    described = {"description": SENTENCE * 3, "parameters": SCHEMA}
    functions = [{"name": f"tool_{at}", **described} for at in range(tools)]
    given = {"tools": [{"type": "function", "function": each} for each in functions]}
    return {"messages": listed, **(given if tools else {})}


def by_hand(given: dict[str, Any]) -> Case:
    """Return the case that a program would make of what it has."""
    messages = []
    for message in given["messages"]:
        content = message["content"]
        if isinstance(content, list):
            content = [
                content[0]["text"],
                {"type": "image", "value": content[1]["image_url"]["url"]},
            ]
        messages.append(TestMessage(message["role"], content))
    functions = [tool["function"] for tool in given.get("tools", ())]
    tools = tuple(Tool(f["name"], f["description"], f["parameters"]) for f in functions)
    return Case(id="1", input_messages=tuple(messages), tools=tools)


def repeated(
    call: Callable[[Case], object],
    make: Callable[[dict[str, Any]], Case],
    given: dict[str, Any],
) -> Callable[[], None]:
    """Return what makes a case, and a call with it, a hundred times."""

    def work() -> None:
        for _ in range(100):
            call(make(given))

    return work


def cpu_of(work: Callable[[], object]) -> float:
    """Return the microseconds of CPU of each of a hundred calls."""
    start = process_time()
    work()
    return (process_time() - start) * 1e6 / 100


def costs(pipeline: Pipeline) -> None:
    """Print the CPU time of a request, and of the body of OpenAI's API."""
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + os.urandom(50_000)).decode()
    target = load_target(TARGET)
    for words, given in {
        "1 message": mapping(1),
        "5 messages": mapping(5),
        "21 messages": mapping(21),
        "20 tools": mapping(1, tools=20),
        "an image of 50 kB": mapping(1, image=f"data:image/png;base64,{picture}"),
    }.items():
        for what, call in (
            ("request", pipeline.request),
            ("body", lambda case: prepare(case, pipeline, target)),
        ):
            subjects = {
                f"{what} of a Case made by hand": repeated(call, by_hand, given),
                f"mapping to {what}": repeated(call, case_of, given),
            }
            found = medians(15, subjects, cpu_of)
            show(f"{words}, one {what}", found, "µs", mapping=MOST)


def memory(pipeline: Pipeline) -> None:
    """Print the peak memory of calls with texts that are never the same."""
    target = load_target("echo")

    async def calls(count: int) -> None:
        for number in range(count):
            asked = {"role": "user", "content": f"Question {number}"}
            tool = {"name": f"tool_{number % 50}", "parameters": SCHEMA}
            await send({"messages": [asked], "tools": [tool]}, pipeline, target)

    sizes = {}
    for count in (1_000, CALLS):
        asyncio.run(calls(count))
        sizes[f"{count:,} calls"] = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    show("peak memory", sizes, "MiB", **{f"{CALLS:,}": 1.05})


if __name__ == "__main__":
    memory(load_pipeline("spec"))  # first, as the peak is that of the process
    costs(load_pipeline("spec"))

"""What a program is answered: a text, and calls of tools, in the form that its SDK reads."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from multiturn.documents.yaml_reader import read_documents
from multiturn.model.tokens import estimated_tokens
from multiturn.model.turns import Call
from multiturn.providers.settings import Values

Reply = tuple[int, str, str]  # status, type and text


class GivenAnswer(NamedTuple):
    """What a program is answered."""

    text: str = "(captured)"
    calls: tuple[Call, ...] = ()


@cache
def vendors() -> Values:
    """Return what ``vendors.yaml`` says, which describes itself."""
    path = Path(__file__).with_name("vendors.yaml")
    (document,) = read_documents(path.read_bytes(), path.name)
    return dict(document.value)


class Endpoint(NamedTuple):
    """Where a program has sent a request."""

    form: Values  # what ``vendors.yaml`` has of the endpoint
    address: Values  # what the address says of the request: Gemini's model, Azure's deployment

    @property
    def vendor(self) -> str:
        """Whose API it is; nobody's is in OpenAI's form."""
        return str(self.form.get("vendor", "openai"))

    def answer(self, body: Values, said: GivenAnswer, number: int) -> Reply:
        """Return the answer to a body; ``number`` makes its id."""
        sizes = [round(estimated_tokens(each)) for each in (json.dumps(body), said.text)]
        values: Values = dict(zip(("sent", "said"), sizes, strict=True))
        values |= {"total": sum(sizes), "id": f"captured_{number}", "model": body.get("model")}
        values |= {
            "text": said.text or None,
            "ended": self.form.get("ended", "  ")[bool(said.calls)],
        }
        blocks = [("text", dict(values))] if said.text else []
        for at, call in enumerate(said.calls):
            own = {"call": at, "call_id": call.id, "name": call.name, "input": call.arguments}
            blocks.append(("call", {**values, **own, "arguments": json.dumps(call.arguments)}))
        for at, (kind, own) in enumerate(blocks):
            own |= {"at": at, "block": _filled(self.form.get(kind), own)}
        values["blocks"] = [own["block"] for _, own in blocks]
        values["calls"] = [own["block"] for kind, own in blocks if kind == "call"] or None
        values["reply"] = reply = _filled(self.form["reply"], values)
        if body.get("stream") is not True:
            return 200, "application/json", json.dumps(reply)
        stream = self.form["stream"]
        events = _filled(stream.get("begin", []), values)
        for kind, own in blocks:
            events += _filled(stream.get(kind, []), {**own, "reply": reply})
        events += _filled(stream["end"], values)
        if (body.get("stream_options") or {}).get("include_usage"):
            events += _filled(stream.get("usage", []), values)
        return 200, "text/event-stream", "".join(_lines(events)) + stream.get("last", "")

    def refused(self, status: int, what: str) -> "Reply":
        """Return an error as the vendor writes it."""
        error = {"type": "not_found_error", "code": status, "message": what, "status": "NOT_FOUND"}
        kind = {"type": "error"} if self.vendor == "anthropic" else {}
        return status, "application/json", json.dumps({**kind, "error": error})


def _lines(events: list[Values]) -> Iterator[str]:
    """Yield the lines of each server-sent event; those with a type are named and counted."""
    for at, event in enumerate(events):
        if "type" in event:
            yield f"event: {event['type']}\n"
            event = {**event, "sequence_number": at}
        yield f"data: {json.dumps(event)}\n\n"


def endpoint_at(path: str) -> Endpoint:
    """Return the endpoint at a path, whatever stands before it; without a form if it is none."""
    named = re.search(r"/(?:models|deployments)/([^/:]+)(:stream)?", path)
    address: Values = {"model": named[1]} if named else {}
    address |= {"stream": True} if named and named[2] else {}
    forms = vendors()["endpoints"]
    form: Values = next((each for each in forms if re.search(f"{each['path']}$", path)), {})
    return Endpoint(form, address)


def _filled(template: Any, values: Values) -> Any:
    """Return a template with values in place of their names."""
    if isinstance(template, str):
        return values[template[1:]] if template[:1] == "$" else template
    if isinstance(template, list):
        return [_filled(each, values) for each in template]
    if not isinstance(template, dict):
        return template
    found: Values = {}
    for key, child in template.items():
        below = _filled(child, values)
        found |= {**values[key[1:]], **below} if key[:1] == "$" else {key: below}
    return found

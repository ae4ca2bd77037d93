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


class Answer(NamedTuple):
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
    """Where a program has sent a request.

    Attributes:
        form: what ``vendors.yaml`` has of the endpoint.
        address: what the address says of the request: Gemini's model, and Azure's deployment.
        is_listed: whether a stream is one list, which Gemini has if it is not asked for events.
    """

    form: Values
    address: Values
    is_listed: bool = False

    @property
    def vendor(self) -> str:
        """Whose API it is."""
        return str(self.form["vendor"])

    def answer(self, body: Values, said: Answer, number: int) -> tuple[str, str]:
        """Return the type and the text of the answer to a body; ``number`` makes its id."""
        sent, text = round(estimated_tokens(json.dumps(body))), said.text or None
        values: Values = {"id": f"captured_{number}", "model": body.get("model"), "text": text}
        values |= {"sent": sent, "said": round(estimated_tokens(said.text))}
        values["total"] = sent + values["said"]
        values["ended"] = self.form.get("ended", ("", ""))[bool(said.calls)]
        blocks = [*self._blocks(said, values)]
        calls = [each["block"] for kind, each in blocks if kind == "call"]
        values |= {"blocks": [each["block"] for _, each in blocks], "calls": calls or None}
        values["reply"] = _filled(self.form["reply"], values)
        if body.get("stream") is not True:
            return "application/json", json.dumps(values["reply"])
        if self.is_listed:
            return "application/json", json.dumps([values["reply"]])
        return "text/event-stream", "".join(self._events(body, blocks, values))

    def _blocks(self, said: Answer, values: Values) -> Iterator[tuple[str, Values]]:
        """Yield each block of an answer: its kind, and the values that it has itself."""
        if said.text:
            yield "text", {"block": _filled(self.form.get("text"), values)}
        for at, call in enumerate(said.calls):
            own = {"call": at, "call_id": call.id, "name": call.name, "input": call.arguments}
            own["arguments"] = json.dumps(call.arguments)
            yield "call", {**own, "block": _filled(self.form["call"], own)}

    def _events(
        self, body: Values, blocks: list[tuple[str, Values]], values: Values
    ) -> Iterator[str]:
        """Yield the server-sent events of an answer."""
        stream = self.form["stream"]
        found = _filled(stream.get("begin", []), values)
        for at, (kind, own) in enumerate(blocks):
            found += _filled(stream.get(kind, []), {**values, **own, "at": at})
        found += _filled(stream["end"], values)
        if (body.get("stream_options") or {}).get("include_usage"):
            found += _filled(stream.get("usage", []), values)
        for at, event in enumerate(found):
            named = f"event: {event['type']}\n" if "type" in event else ""
            event = {"sequence_number": at, **event} if named else event
            yield f"{named}data: {json.dumps(event)}\n\n"
        if "done" in stream:
            yield f"data: {stream['done']}\n\n"


def endpoint_at(path: str, query: str) -> Endpoint | None:
    """Return the endpoint at a path, whatever stands before it; None if it is none."""
    for form in vendors()["endpoints"]:
        if re.search(f"{form['path']}$", path):
            named = re.search(r"/(?:models|deployments)/([^/:]+)(:stream)?", path)
            address: Values = {"model": named[1]} if named else {}
            is_stream = named is not None and named[2]
            return Endpoint(
                form,
                address | ({"stream": True} if is_stream else {}),
                bool(is_stream) and "alt=sse" not in query,
            )
    return None


def refusal(vendor: str, status: int, what: str) -> Values:
    """Return an error as a vendor writes it."""
    error = {"type": "not_found_error", "code": status, "message": what, "status": "NOT_FOUND"}
    return {"type": "error", "error": error} if vendor == "anthropic" else {"error": error}


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

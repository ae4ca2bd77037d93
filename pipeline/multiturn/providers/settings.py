"""The settings of a request in the vendors' bodies: where each stands, and what `body` may add."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, get_type_hints

import msgspec
from toolz import get_in, identity, update_in

from multiturn.model.settings import JsonSchema, RequestSettings, merged

Values = dict[str, Any]


class Key(NamedTuple):
    """Where the bodies of a vendor have a setting."""

    path: str  # of the key, with dots
    write: Callable[[Any], Any] = identity  # returns None for what is not written
    read: Callable[[Any], Any] = identity  # returns None for a value that no setting has
    values: Collection[str] = ()  # those that the form can have, in words; empty for any


Keys = Mapping[str, Key]  # by the names of settings

# What says how a request travels, or to whom it is billed, and is no part of it; with dots, as the
# paths of keys.
TRANSPORT = (
    *("model", "stream", "stream_options", "streamOptions", "n", "store", "user", "metadata"),
    *("safety_identifier", "prompt_cache_key", "background", "labels", "include"),
    "generationConfig.candidateCount",
)


def in_words(value: Any) -> str:
    """Return the value of a setting as rows of models.yaml have it, and as errors name it.

    >>> in_words(0.5), in_words(True), in_words(JsonSchema(schema={}))
    ('0.5', 'true', 'json_schema')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, JsonSchema):
        return "json_schema"
    if isinstance(value, tuple):
        return str([*value])
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_settings(settings: RequestSettings, keys: Keys) -> Values:
    """Return the settings as the keys of a body, those in mappings there, too."""
    found: Values = {}
    said = settings.said()
    for name, key in keys.items() if said else ():
        written = key.write(said[name]) if name in said else None
        if written is not None:
            path = key.path.split(".")
            found = update_in(found, path, lambda old, new=written: {**old, **new} if old else new)
    return found


_TYPES = get_type_hints(RequestSettings, include_extras=True)


def _read(name: str, key: Key, value: Any) -> Any:
    """Return the setting of a value in a body; None for one that no suite can have."""
    try:
        found = None if value is None else key.read(value)
        msgspec.convert(found, _TYPES[name])
    except (TypeError, ValueError):
        return None
    return found


def taken(body: Values, path: str) -> Any:
    """Remove the key at a path with dots, and mappings that are empty then; return its value."""
    key, _, below = path.partition(".")
    if not below or not isinstance(body.get(key), dict):
        return None if below else body.pop(key, None)
    inner = dict(body.pop(key))
    value = taken(inner, below)
    if inner:
        body[key] = inner
    return value


def read_settings(body: Mapping[str, Any], keys: Keys, used: Iterable[str]) -> RequestSettings:
    """Return the settings of a body; `body` has the keys that are none, and are not in ``used``."""
    used = {*used}
    rest = {key: each for key, each in body.items() if key not in used and each not in (None, {})}
    found: Values = {}
    for name, key in keys.items():
        value = _read(name, key, get_in(key.path.split("."), rest))
        if value is not None:
            found[name] = value
            taken(rest, key.path)
    if rest:
        found["body"] = rest
    return RequestSettings(**found)


def with_body(written: Values, settings: RequestSettings) -> Values:
    """Return a body with what `body` adds to it, and without what is None."""
    found = {key: value for key, value in written.items() if value is not None}
    return merged(found, settings.body) if settings.body else found


def wrong_body(body: Mapping[str, Any], keys: Keys, closed: Collection[str]) -> Iterable[str]:
    """Yield what is wrong with the keys that a `body` adds to a vendor's, each with what to do."""
    for name, key in keys.items():
        value = get_in(key.path.split("."), body, ...)
        if value is None or (value is not ... and _read(name, key, value) is not None):
            yield f"{key.path} is a setting; write it as {name}"
    for path in TRANSPORT:
        if path in body or get_in(path.split("."), body) is not None:
            yield f"leave out {path}, which says how a request is sent"
    for name in (name for name in closed if name in body and name not in TRANSPORT):
        yield f"leave out {name}, which would be prompt that nobody has reviewed"


def write_format(form: Any) -> Values:
    """Return the form of an answer as Chat Completions has it.

    >>> write_format("json")
    {'type': 'json_object'}
    """
    if isinstance(form, str):
        return {"type": {"json": "json_object"}.get(form, form)}
    return {"type": "json_schema", "json_schema": schema_keys(form)}


def schema_keys(form: JsonSchema) -> Values:
    """Return a JSON Schema with its name, as OpenAI's APIs have it."""
    described = {"description": form.description} if form.description else {}
    strict = {} if form.strict is None else {"strict": form.strict}
    return {"name": form.name, **described, "schema": form.schema, **strict}


def read_format(form: Any) -> Any:
    """Return the form of an answer of Chat Completions, or of Responses; None for another."""
    match form:
        case {"type": "text", **rest} if not rest:
            return "text"
        case {"type": "json_object", **rest} if not rest:
            return "json"
        case {"type": "json_schema", **flat}:
            given: Any = flat.get("json_schema", flat)
            names = {"schema", "name", "description", "strict"}
            is_known = isinstance(given, dict) and given.keys() <= names
            if is_known and isinstance(given.get("schema"), dict):
                return JsonSchema(**given)
    return None

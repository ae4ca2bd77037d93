"""The JSON Schema of a value in a target: text, into which variables are filled.

The `u` flag of JavaScript, by which editors read patterns, refuses needless backslashes, and so
do these.
"""

from typing import Any

from multiturn.providers.targets import VARIABLE

_VARIABLE = VARIABLE.pattern
_OTHER = r"(?:(?!\$\{\{)[\s\S])*"
_TEXT = rf"{_OTHER}(?:{_VARIABLE}{_OTHER})*"
_FILLED = rf"{_OTHER}(?:{_VARIABLE}{_OTHER})+"
_DIGITS = "(?:0|[1-9][0-9]*)"
_POWER = "[eE][-+]?[0-9]+"
_WRITTEN = {
    "number": rf"{_DIGITS}(?:\.[0-9]+)?(?:{_POWER})?|[Ii]nf(?:inity)?|[Nn]a[Nn]",
    # 1.5e1 is a whole number, and 1.55e1 is not, which no pattern tells.
    "integer": rf"{_DIGITS}(?:\.0+|(?:\.[0-9]+)?{_POWER})?",
    "boolean": "[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[01]",
    "null": "[Nn][Uu][Ll][Ll]",
}


def in_text(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a target's value, which is text, read as what is wanted."""
    schema = dict(schema)
    if "enum" in schema:
        filled = {"type": "string", "pattern": f"^{_FILLED}$"}
        return {"anyOf": [{"enum": schema.pop("enum")}, filled], **schema}
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema[key] = in_text(schema[key])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if types[0] in _WRITTEN:
        written = "|".join(_written(type_, schema) for type_ in types)
        wanted = f"must be of type {types[0]}, or a variable: ${{{{ NAME }}}}"
        schema |= {"pattern": f"^(?:{written}|{_FILLED})$", "patternErrorMessage": wanted}
        schema["type"] = [*types, "string"]
        if "boolean" in types:
            schema |= {"type": [*types, "string", "integer"], "minimum": 0, "maximum": 1}
    if "string" in types:
        not_blank = r"(?=[\s\S]*\S)" if "pattern" in schema else ""
        schema |= {
            "type": [*types, "number", "boolean"],
            "pattern": f"^{not_blank}{_TEXT}$",
            "patternErrorMessage": "a variable is written as ${{ NAME }}",
        }
    return schema


def _written(type_: str, schema: dict[str, Any]) -> str:
    """Return the pattern of a type's text: of a number, within the bounds that a schema sets."""
    pattern = _WRITTEN[type_]
    if type_ not in ("number", "integer"):
        return pattern
    if not {"minimum", "exclusiveMinimum"} & schema.keys():
        return f"-?(?:{pattern})"
    positive = "exclusiveMinimum" in schema or schema["minimum"] > 0
    return f"(?=[^eE]*[1-9]|[Ii])(?:{pattern})" if positive else f"(?:{pattern})"

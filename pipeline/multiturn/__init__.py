"""Eval conversations in YAML become the structured chat prompts that LLM APIs expect.

>>> from multiturn import Case, Conversion, TestMessage, load_pipeline
>>> pipeline = load_pipeline("spec")
>>> case = Case(id="hello", input_messages=(TestMessage("user", "Hello"),))
>>> pipeline(Conversion(case)).chat[0].content
'Hello'
"""

from importlib import import_module

# The stub names each public name and its module; both are written there only.
_IMPORTS = (line.split() for line in __loader__.get_data(f"{__file__}i").decode().splitlines())
_HOMES = {words[3]: words[1] for words in _IMPORTS if words[:1] == ["from"]}

__all__ = [*_HOMES]


def __getattr__(name):
    """Import a name when it is first used: ``multiturn --help`` needs none of them."""
    if name == "__version__":
        value = import_module("importlib.metadata").version("multiturn")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'multiturn' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    """Return the public names, for ``help`` and for completion."""
    return sorted({*globals(), *__all__, "__version__"} - {"import_module"})

"""The settings under ``execution`` of a suite or a case."""

from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.files.finding import Files
from multiturn.model.settings import RequestSettings, SettingsKeys, settled
from multiturn.suites.keys import KeyCheck


def read_settings(owner: Node, files: Files, check: KeyCheck, label: str = "") -> RequestSettings:
    """Return what the ``execution`` of a suite or a case says of the answer wanted.

    Raises:
        MultiturnError: a setting has a value that it cannot have, or another tool's name.
    """
    execution = owner.children.get("execution")
    if execution is None or not isinstance(execution.children, dict):
        return RequestSettings()
    label = f"{label}: execution".removeprefix(": ")
    check.check(execution, "execution", label=label)
    keys = read_as(execution, SettingsKeys, where=check.name, label=label)
    return RequestSettings(**settled(keys, execution, files, check.name, f"{label}.").said())

"""``target.lock``: what a target is sent of every case, beside the snapshots of the cases."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from multiturn.documents.dump import dump
from multiturn.documents.yaml_events import read_documents
from multiturn.model.request import ChatMessage, ProviderRequest, prompt_of
from multiturn.providers.base import TargetProvider
from multiturn.providers.failures import ProviderError
from multiturn.snapshots.changes import FileChange
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.text import utf8

LOCK = "target.lock"
COMMENT = """\
# What the target is sent of a case that only says "Hi"; each snapshot has what is different.
"""
_VERSIONS = ("api_version", "version")  # settings that say which version of an API is asked
_REQUEST = ProviderRequest(question="Hi", chat_prompt=(ChatMessage("user", "Hi"),), system="")
_PROMPT = prompt_of(_REQUEST)


def shared_parameters(provider: TargetProvider) -> Mapping[str, Any]:
    """Return what the body of every request says, such as the model; a case may say otherwise."""
    with suppress(ProviderError):  # it refuses every case for the same reason, and says so there
        return provider.preview(_REQUEST, _PROMPT, _PROMPT[-1].parts).parameters
    return {}


def recorded_target(folder: SnapshotFolder) -> str:
    """Return the name of the target that ``target.lock`` is of; empty if there is none."""
    text = folder.read(LOCK) or ""
    for document in read_documents(text, folder.shown(LOCK)) if text else ():
        if isinstance(document.value, dict):
            return str(document.value.get("target", ""))
    return ""


def change_of_lock(folder: SnapshotFolder, provider: TargetProvider | None) -> FileChange | None:
    """Return how ``target.lock`` must change; without a target, there is none."""
    old, new = folder.read(LOCK) or "", "" if provider is None else target_text(provider)
    return None if old == new else FileChange(folder.shown(LOCK), None, old, new)


def is_lock(file: FileChange) -> bool:
    """Return whether a file is ``target.lock``; the other lists have digests, which say nothing."""
    return os.path.basename(file.name) == LOCK


def target_text(provider: TargetProvider) -> str:
    """Return the text of ``target.lock``."""
    versions = {name: getattr(provider.settings, name, None) for name in _VERSIONS}
    recorded = {
        "target": provider.name,
        "provider": provider.settings.provider,
        **{name: version for name, version in versions.items() if version is not None},
        "example": _example(provider),
    }
    return COMMENT + utf8(dump(recorded))


def _example(provider: TargetProvider) -> Any:
    """Return the body of a request that says only "Hi", which shows what all of them have."""
    try:
        body = provider.wire(_REQUEST).body
    except ProviderError as refusal:
        return f"refused: {refusal.what}"
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:  # an agent's prompt is text
        return body.decode()

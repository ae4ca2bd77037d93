"""``target.lock``: what a target is sent of every case, beside the snapshots of the cases."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from multiturn.documents.dump import dump
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError, ProviderError, option
from multiturn.model.request import ChatMessage, ProviderRequest, prompt_of
from multiturn.providers.base import TargetProvider
from multiturn.review.changes import FileChange
from multiturn.review.folder import SnapshotFolder
from multiturn.review.locations import folder_of
from multiturn.review.scope import Scope
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


def refuse_other_target(
    folder: SnapshotFolder, provider: TargetProvider | None, scope: Scope, *, is_partial: bool
) -> None:
    """Refuse another target if snapshots stay that are compared with what the recorded one gets.

    Raises:
        MultiturnError: only a part of the cases, or of the suites, would have the other target.
    """
    recorded, name = _recorded_target(folder), provider.name if provider else ""
    if not recorded or recorded == name:
        return
    covered = {folder_of(suite) for suite in scope.names.values()}
    names = (n for n in folder.snapshots("", below=True) if os.path.dirname(n) not in covered)
    cases = filter(None, map(folder.case_of, names))
    if is_partial or any(not scope.is_removed(suite) for suite, _ in cases):
        what = f"the snapshots are of the target {recorded!r}: name it with {option('target')}"
        what += ", or run this for all suites and cases"
        raise MultiturnError(what, where=folder.shown(LOCK))


def _recorded_target(folder: SnapshotFolder) -> str:
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


def is_lock(change: FileChange) -> bool:
    """Return whether a file is ``target.lock``; the other lists have digests, which say nothing."""
    return os.path.basename(change.name) == LOCK


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

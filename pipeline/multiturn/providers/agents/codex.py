"""Codex: ``codex exec``, the prompt on its standard input, JSON events on its standard output."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from multiturn.errors import MalformedReplyError, ProviderError
from multiturn.providers.agents.agent import AgentProvider, AgentSettings, Written
from multiturn.providers.base import ProviderResponse
from multiturn.providers.replies import counts


class CodexSettings(AgentSettings, frozen=True, kw_only=True):
    """The settings of a ``codex`` target.

    Attributes:
        model: the model to ask for; empty for Codex's own choice.
    """

    executable: str = "codex"
    pass_env: tuple[str, ...] = ("CODEX_API_KEY", "OPENAI_API_KEY")
    model: str = ""


class CodexProvider(AgentProvider):
    """Gives the transcript to ``codex exec``."""

    kind = "codex"
    title = "Codex"
    media_intro = (
        "The conversation has these files in brackets. Images are attached in this order; open the"
        " others:"
    )
    settings: CodexSettings

    async def work(self, folder: Path, body: bytes, files: Written) -> ProviderResponse:
        """Return the agent's last message."""
        settings = self.settings
        model = ("--model", settings.model) if settings.model else ()
        # With a space, Codex would take the dash for another image; and it splits a path at commas,
        # which the working folder may have.
        images = (
            f"--image={path.relative_to(folder.parent)}"
            for file, path in files
            if file.media is not None and file.media.kind == "image"
        )
        command = ("exec", "--json", "--skip-git-repo-check", *model, *settings.args, *images, "-")
        output, failed = bytearray(), None
        try:
            await self.run(*command, stdout=output, stdin=body)
        except ProviderError as error:
            failed = error
        text, failure, usage, last = _read(output)
        if failure is not None:
            kind = "process" if failed is None else failed.kind
            raise ProviderError(f"codex: {failure}", kind=kind)
        if failed is not None:
            raise failed
        if text is None:
            raise MalformedReplyError("codex gave no answer: no agent_message event")
        return ProviderResponse(text=text, usage=usage, raw=last, finish_reason="stop")


def _read(output: bytearray) -> tuple[str | None, str | None, Mapping[str, int], Any]:
    """Return the answer, the failure and the usage that events tell of, and the last event."""
    text = failure = last = None
    usage: Mapping[str, int] = {}
    for line in output.split(b"\n"):
        try:
            last = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            continue  # it is no event
        match last:
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(said)}}:
                text = said
            case {"type": "turn.completed"}:
                failure = None  # Codex has recovered from an earlier error
                usage = counts(
                    last.get("usage"),
                    input_tokens="input_tokens",
                    output_tokens="output_tokens",
                    cached_tokens="cached_input_tokens",
                )
            case {"type": "turn.failed", "error": {"message": str(said)}} | {
                "type": "error",
                "message": str(said),
            }:
                failure = said
    return text, failure, usage, last

"""Codex: ``codex exec``, the prompt on its standard input, JSON events on its standard output."""

from collections.abc import Iterable, Mapping
from pathlib import Path

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
        lines: list[bytes] = []
        failed = None
        try:
            await self.run(*command, take_line=lines.append, stdin=body)
        except ProviderError as error:
            failed = error
        answer, failure = _said_in(lines)
        if failure is not None:
            kind = "process" if failed is None else failed.kind
            raise ProviderError(f"codex: {failure}", kind=kind)
        if failed is not None:
            raise failed
        if answer is None:
            raise MalformedReplyError("codex gave no answer: no agent_message event")
        return answer


def _said_in(lines: Iterable[bytes]) -> tuple[ProviderResponse | None, str | None]:
    """Return what the events of a run say: the answer, and why it failed."""
    event = text = failure = None
    usage: Mapping[str, int] = {}
    for line in lines:
        try:
            event = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            continue
        match event:
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(said)}}:
                text = said
            case {"type": "turn.completed"}:
                failure = None  # Codex has recovered from an earlier error
                usage = counts(
                    event.get("usage"),
                    input_tokens="input_tokens",
                    output_tokens="output_tokens",
                    cached_tokens="cached_input_tokens",
                )
            case {"type": "turn.failed", "error": {"message": str(message)}} | {
                "type": "error",
                "message": str(message),
            }:
                failure = message
    if text is None:
        return None, failure
    return ProviderResponse(text=text, usage=usage, raw=event, finish_reason="stop"), failure

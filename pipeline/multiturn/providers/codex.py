"""Codex: ``codex exec``, the prompt on its standard input, JSON events on its standard output."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta

from multiturn.providers.agent import AgentProvider, AgentSettings, Executable, PassEnv
from multiturn.providers.base import LARGEST_ANSWER, ProviderError, ProviderResponse, counts


class CodexSettings(AgentSettings, frozen=True, kw_only=True):
    """The settings of a ``codex`` target."""

    executable: Executable = "codex"
    pass_env: PassEnv = ("CODEX_API_KEY", "OPENAI_API_KEY")
    model: Annotated[
        str, Meta(description="the model to ask for; empty for Codex's own choice.")
    ] = ""


class CodexProvider(AgentProvider):
    """Gives the transcript to ``codex exec``."""

    kind = "codex"
    settings: CodexSettings

    async def work(self, folder: Path, body: bytes) -> ProviderResponse:
        """Return the agent's last message."""
        settings = self.settings
        model = ("--model", settings.model) if settings.model else ()
        command = ("exec", "--json", "--skip-git-repo-check", *model, *settings.args, "-")
        failed = None
        with tempfile.TemporaryFile() as output:
            try:
                await self.run(*command, output=output, stdin=body)
            except ProviderError as error:
                failed = error
            text, failure, last = None, None, None
            usage: Mapping[str, int] = {}
            for event in _events(output):
                last = event
                match event:
                    case {
                        "type": "item.completed",
                        "item": {"type": "agent_message", "text": str(said)},
                    }:
                        text = said
                    case {"type": "turn.completed"}:
                        failure = None  # Codex has recovered from an earlier error
                        usage = counts(
                            event.get("usage"),
                            input_tokens="input_tokens",
                            output_tokens="output_tokens",
                        )
                    case {"type": "turn.failed", "error": {"message": str(message)}} | {
                        "type": "error",
                        "message": str(message),
                    }:
                        failure = message
        if failure is not None:
            kind = "process" if failed is None else failed.kind
            raise ProviderError(f"codex: {failure}", kind=kind)
        if failed is not None:
            raise failed
        if text is None:
            raise ProviderError("codex gave no answer: no agent_message event", kind="malformed")
        return ProviderResponse(text=text, usage=usage, raw=last, finish_reason="stop")


def _events(output: IO[bytes]) -> Iterator[Any]:
    """Yield the events among the lines of an output."""
    output.seek(0)
    while line := output.readline(LARGEST_ANSWER + 1):
        if len(line) > LARGEST_ANSWER:
            what = f"an event of codex is larger than {LARGEST_ANSWER // 2**20} MiB"
            raise ProviderError(what, kind="malformed")
        with suppress(ValueError, RecursionError):
            yield msgspec.json.decode(line)

"""Codex: ``codex exec``, the prompt on its standard input, JSON events on its standard output."""

import tempfile
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta

from multiturn.providers.agent import AgentProvider, AgentSettings, Executable, PassEnv
from multiturn.providers.base import LARGEST_ANSWER, ProviderError, ProviderResponse, counts
from multiturn.providers.command import run_command


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

    def model(self) -> str:
        """Return the target's model."""
        return self.settings.model

    async def ask(self, folder: Path, body: bytes) -> ProviderResponse:
        """Return the agent's last message."""
        settings = self.settings
        model = ("--model", settings.model) if settings.model else ()
        command = (self.executable(), "exec", "--json", "--skip-git-repo-check")
        with tempfile.TemporaryFile() as output:
            try:
                await run_command(
                    (*command, *model, *settings.args, "-"),
                    output=output,
                    stdin=body,
                    cwd=settings.cwd,
                    env=self.environment(),
                    secrets=self.secrets,
                    timeout_seconds=settings.timeout_seconds,
                )
            except ProviderError as error:
                failure = _Events(output).failure
                if failure is None:
                    raise
                raise ProviderError(f"codex: {failure}", kind=error.kind) from None
            events = _Events(output)
        if events.failure is not None:
            raise ProviderError(f"codex: {events.failure}", kind="process")
        if events.text is None:
            raise ProviderError("codex gave no answer: no agent_message event", kind="malformed")
        return ProviderResponse(
            text=events.text, usage=events.usage, raw=events.last, finish_reason="stop"
        )


class _Events:
    """The answer, usage and error among the events of a run."""

    def __init__(self, output: IO[bytes]) -> None:
        self.text: str | None = None
        self.usage: Any = {}
        self.failure: str | None = None
        self.last: Any = None
        output.seek(0)
        while line := output.readline(LARGEST_ANSWER + 1):
            if len(line) > LARGEST_ANSWER:
                what = f"an event of codex is larger than {LARGEST_ANSWER // 2**20} MiB"
                raise ProviderError(what, kind="malformed")
            self.read(line)

    def read(self, line: bytes) -> None:
        """Read one line; skip it if it is not an event."""
        try:
            event = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            return
        match event:
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                self.text = text
            case {"type": "turn.completed"}:
                self.failure = None  # Codex has recovered from an earlier error
                self.usage = counts(
                    event.get("usage"), input_tokens="input_tokens", output_tokens="output_tokens"
                )
            case {"type": "turn.failed", "error": {"message": str(message)}} | {
                "type": "error",
                "message": str(message),
            }:
                self.failure = message
        self.last = event

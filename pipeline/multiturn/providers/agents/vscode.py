"""VS Code: its chat in agent mode reads the prompt from a file, and writes its answer to one."""

import asyncio
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from multiturn.errors import MalformedReplyError
from multiturn.files.paths import FILE
from multiturn.model.request import InputFile
from multiturn.providers.agents.agent import AgentProvider, AgentSettings, Written
from multiturn.providers.base import LARGEST_ANSWER, ProviderResponse

if TYPE_CHECKING:
    from multiturn.providers.agents.command import Command


class VSCodeSettings(AgentSettings, frozen=True, kw_only=True):
    """The settings of a ``vscode`` target.

    Attributes:
        system: `include` sends the system prompt and guidelines without a file.
    """

    executable: str = "code"
    # Without them, a window opens nowhere, or not where the terminal is.
    pass_env: tuple[str, ...] = (
        *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"),
        "VSCODE_IPC_HOOK_CLI",
    )
    system: Literal["omit", "include"] = "omit"


class InsidersSettings(VSCodeSettings, frozen=True, kw_only=True):
    """The settings of a ``vscode-insiders`` target."""

    executable: str = "code-insiders"


class VSCodeProvider(AgentProvider):
    """Gives the transcript to the chat of VS Code."""

    kind = "vscode"

    def __init__(self, settings: VSCodeSettings, secrets: Iterable[str] = ()) -> None:
        super().__init__(settings, secrets)
        self.gets_instructions = settings.system == "include"
        self._kept: list[Command] = []

    def closing(self, files: tuple[InputFile, ...], folder: str) -> str:
        """Return the end of the prompt, which asks for a response file.

        The file is renamed when it is complete, so that no partial answer is read.
        """
        return (
            f"{super().closing(files, folder)}\n\n"
            f"Write your whole answer, as Markdown, to the file {folder}/response.tmp.md."
            f" When it is complete, rename that file to {folder}/response.md.\n"
        )

    async def work(self, folder: Path, body: bytes, files: Written) -> ProviderResponse:
        """Open the chat, and wait for the response file."""
        prompt = folder / "prompt.md"
        prompt.write_bytes(body)
        paths = (prompt, *(path for _, path in files))
        attached = [word for path in paths for word in ("--add-file", str(path))]
        # The prompt is a file: an argument has a limit (F1), and may not begin with a dash.
        sentence = f"Follow the instructions in {prompt.relative_to(folder.parent)}."
        command = ("chat", "--mode", "agent", *self.settings.args, *attached, sentence)
        answer = folder / "response.md"
        await self.run(*command, answer=answer, kept=self._kept)
        text = _read_answer(answer).decode("utf-8", "replace")
        return ProviderResponse(text=text, finish_reason="stop")

    async def aclose(self) -> None:
        """End the window that the requests have used."""
        kept, self._kept = self._kept, []
        try:
            await asyncio.gather(*(command.end() for command in kept))
        finally:
            for command in kept:
                command.close()


def _read_answer(path: Path) -> bytes:
    """Return the content of a regular file; nothing that it may be instead can hang the run."""
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, FILE)) as file:
            what = "is not a regular file"
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                content = file.read(LARGEST_ANSWER + 1)
                if len(content) <= LARGEST_ANSWER:
                    return content
                what = f"is larger than {LARGEST_ANSWER // 2**20} MiB"
    except OSError as error:  # also of a link, which is not followed
        what = f"cannot be read: {error.strerror}"
    raise MalformedReplyError(f"the agent's {path.name} {what}")

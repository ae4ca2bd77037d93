"""What the providers of agents share: the transcript, and a folder with the attached files."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

from multiturn.errors import MultiturnError
from multiturn.model import InputFile, ProviderRequest, is_blank
from multiturn.provider import ProviderError, ProviderResponse, Settings, Wire, hide
from multiturn.wire import named, refused

# Stands for the request's folder in the body until there is one.
FOLDER = ".multiturn/request"
_MENTION = re.compile(r"^@", re.MULTILINE)


class AgentSettings(Settings, frozen=True, kw_only=True):
    """What every target that starts an agent may set.

    Attributes:
        executable: the agent's command line.
        args: further arguments.
        cwd: working folder; None for the current one.
        env: set in its environment; the values are hidden like keys.
        timeout_seconds: how long one case may take.
    """

    executable: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = {}
    timeout_seconds: float = 1800

    def secrets(self) -> Iterator[str]:
        """Yield what the environment is given."""
        yield from self.env.values()


class AgentProvider:
    """A provider that hands an agent the transcript; ``chat_prompt`` is for LLM APIs only.

    Args:
        settings: of the target.
        secrets: what else must be hidden, beside the values of ``env``.
    """

    kind: ClassVar[str]

    def __init__(self, settings: AgentSettings, secrets: Iterable[str] = ()) -> None:
        self.settings = settings
        self.name = settings.name
        self.secrets = (*settings.secrets(), *secrets)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: no process outlives its request."""

    def prompt(self, request: ProviderRequest) -> str:
        """Return what the agent reads: the question, and where the attached files are."""
        files = file_names(request.input_files)
        guidelines = [path for file, path in files if file.guideline]
        others = [path for file, path in files if not file.guideline]
        text = request.question
        for intro, paths in (
            ("Read these guidelines first, and follow them:", guidelines),
            ("The files attached above, if you need them as files:", others),
        ):
            if paths:
                text += "\n\n" + "\n".join((intro, *(f"- {FOLDER}/{path}" for path in paths)))
        return text

    def wire(self, request: ProviderRequest) -> Wire:
        """Return the prompt.

        Raises:
            ProviderError: the question is empty.
        """
        if is_blank(request.question):
            raise refused("C1", "the transcript is empty; add a user message")
        text, mentions = _MENTION.subn(r" @", self.prompt(request))
        return Wire(
            provider=self.kind,
            parameters=(self.settings.executable, *self.settings.args),
            body=text.encode("utf-8", "replace"),
            files=request.input_files,
            repairs=(named("F2", f"put a space before {mentions} line(s) that start with @"),)
            if mentions
            else (),
        )

    async def send(self, wire: Wire) -> ProviderResponse:
        """Run the agent.

        Raises:
            ProviderError: it gave no answer.
        """
        with request_folder(self.settings.cwd, wire) as (folder, body):
            try:
                return await self.ask(folder, body)
            except ProviderError as error:
                what = hide(error.what, self.secrets)
                raise ProviderError(what, kind=error.kind, wire=body) from None

    async def ask(self, folder: Path, body: bytes) -> ProviderResponse:
        """Return the agent's answer to the prompt; the folder holds the files."""
        raise NotImplementedError

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer a request.

        Raises:
            ProviderError: it was refused, or there is no answer.
        """
        return await self.send(self.wire(request))

    def check(self) -> None:
        """Make sure that the agent is installed.

        Raises:
            MultiturnError: it is not.
        """
        executable = self.settings.executable
        if shutil.which(executable) is None:
            raise MultiturnError(
                f"the target {self.name!r} needs {executable!r}, and there is no such command;"
                " install it, or set executable"
            )

    async def aclose(self) -> None:
        """Do nothing: no process outlives its request."""


def file_names(files: tuple[InputFile, ...]) -> list[tuple[InputFile, str]]:
    """Return each file with the path that it gets in the request's folder."""
    return [
        (file, f"files/{number}/{_plain(os.path.basename(file.resolved_path))}")
        for number, file in enumerate(files, 1)
    ]


def _plain(name: str) -> str:
    """Return a file's name without what a prompt or a command line would trip over."""
    return re.sub(r"[^\w.-]", "_", name).lstrip("-") or "file"


@contextmanager
def request_folder(cwd: str | None, wire: Wire) -> Iterator[tuple[Path, bytes]]:
    """Make a folder for a request with its files in it, below the working folder.

    Yields:
        The folder, and the body with the folder's name in it. Both are gone when the block ends.

    Raises:
        ProviderError: the working folder cannot be written to.
    """
    try:
        above = Path(cwd or ".", ".multiturn").absolute()
        above.mkdir(exist_ok=True)
        ignore = above / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        folder = Path(tempfile.mkdtemp(prefix="request-", dir=above))
        for file, path in file_names(wire.files):
            target = folder / path
            target.parent.mkdir(parents=True)
            target.write_bytes(file.text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        what = f"cannot make a request folder: {error.filename}: {error.strerror}"
        raise ProviderError(what, kind="process") from None
    try:
        yield folder, wire.body.replace(FOLDER.encode(), f".multiturn/{folder.name}".encode())
    finally:
        shutil.rmtree(folder, ignore_errors=True)

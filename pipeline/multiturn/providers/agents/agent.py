"""The base of the providers of agents: the transcript, and a folder with the attached files."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from multiturn.errors import MultiturnError, ProcessFailedError, ProviderError, RefusedError, cut
from multiturn.model import request as requests
from multiturn.model.turns import Part, Turn, is_blank, joined, separate_first
from multiturn.providers import base
from multiturn.providers.agents.command import ADVICE, hidden_values, inherited, run_command
from multiturn.providers.rules import broken
from multiturn.providers.secrets import hide, secrets_among
from multiturn.providers.settings import in_words

_FOLDER = ".multiturn-"  # prefix of the folder of a request
_PLACEHOLDER = f"{_FOLDER}request"  # stands for its name, which is random
_SYSTEM_HEADING = "[[ ## System Prompt ## ]]"
_CONVERSATION_HEADING = "[[ ## Conversation ## ]]"
_MENTION = re.compile("(^|[\n\r\v\f\x85\u2028\u2029])@")

Written = Sequence[tuple[requests.InputFile, Path]]  # files, and where they are in the folder


class AgentSettings(base.Settings, frozen=True, kw_only=True):
    """The settings of every target that starts an agent.

    Attributes:
        executable: the agent's command line program.
        args: further arguments.
        cwd: working folder; null for the current one.
        env: environment variables; values of names such as API_KEY are hidden.
        pass_env: globs of further environment variables that the agent inherits, besides PATH, HOME
            and a few others.
        timeout_seconds: how long one case may take.
    """

    executable: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = {}
    pass_env: tuple[str, ...] = ()
    timeout_seconds: base.Seconds = 1800

    def secrets(self) -> list[str]:
        """Return the values of variables in ``env`` that have the name of a key."""
        return secrets_among(self.env)


class AgentProvider(base.TargetProvider):
    """The base of providers that give an agent the transcript; subclasses define ``work``."""

    gets_instructions = True  # the system prompt, and the guidelines without a file
    # The sentence above the images, documents and audio.
    media_intro = "Open these files, which the conversation has in brackets:"

    def __init__(self, settings: Any, secrets: Iterable[str] = ()) -> None:
        super().__init__(settings, secrets)
        self._of_target = self.secrets
        self.secrets += tuple(hidden_values(settings.pass_env))

    async def run(self, *arguments: str, **streams: Any) -> None:
        """Run the agent's command line; ``streams`` are as for ``run_command``."""
        settings = self.settings
        await run_command(
            (self.executable(), *arguments),
            cwd=settings.cwd,
            env={**inherited(settings.pass_env), **settings.env},
            secrets=self.secrets,
            timeout_seconds=settings.timeout_seconds,
            **streams,
        )

    def executable(self) -> str:
        """Return the command; a path is relative to the current folder, not to ``cwd``."""
        given: str = self.settings.executable
        return os.path.abspath(given) if os.path.dirname(given) else given

    def check(self) -> None:
        """Check that the agent is installed."""
        if shutil.which(self.executable()) is None:
            executable = hide(repr(self.settings.executable), self.secrets)
            raise MultiturnError(
                f"the target {self.name!r} needs {executable}, and there is no such command;"
                " install it, or set executable"
            )

    def closing(self, files: tuple[requests.InputFile, ...], folder: str) -> str:
        """Return the end of the prompt: all that names the folder of the request."""
        guidelines = ["Read these guidelines first, and follow them:"]
        texts, media = ["The files attached above, if you need them as files:"], [self.media_intro]
        for file, path in file_names(files):
            listed = guidelines if file.guideline else media if file.media else texts
            # A text stands in the conversation itself; anything else is named there.
            meaning = f" is {file.media.text}" if file.media else ""
            listed.append(f"- {folder}/{path}{meaning}")
        lists = (guidelines, texts, media)
        return "".join("\n\n" + "\n".join(lines) for lines in lists if len(lines) > 1)

    def wire(self, request: requests.ProviderRequest) -> base.Wire:
        """Return the prompt, with a placeholder for the folder of the request."""
        if is_blank(request.question):
            raise RefusedError(broken("C1", "the question is empty; add a user message"))
        text, mentions = request.question, 0
        instructions = list(_instructions(request))
        if self.gets_instructions and instructions:
            text = "\n\n".join((*instructions, _CONVERSATION_HEADING, text))
        if "@" in text:  # much faster than the pattern, and almost always false
            text, mentions = _MENTION.subn(r"\1 @", text)
        files = requests.files_and_media(request)
        if addresses := [file.media.url for file in files if file.media and file.media.url]:
            what = f"{cut(addresses[0])} is an address; save it as a file, or write it as text"
            raise RefusedError(broken("F7", what))
        text += self.closing(files, _PLACEHOLDER)
        repairs = []
        asked = request.settings if request.tools else request.settings.without_tools()
        for name, value in asked.said().items():
            repairs.append(f"F4: left out the {name} {in_words(value)}")
        if request.tools:
            repairs.append("F6: left out the tools")
        if instructions and not self.gets_instructions:
            what = "F5: left out the system prompt or guidelines"
            repairs.append(f"{what}; system: include of the target sends them")
        if mentions:
            repairs.append(f"F2: put a space before {mentions} line(s) that start with @")
        settings = self.settings
        env = (f"{name}={value}" for name, value in sorted(settings.env.items()))
        parameters = (settings.executable, settings.cwd or "", *settings.args, *env)
        return base.Wire(
            provider=self.kind,
            model=getattr(settings, "model", ""),
            parameters=tuple(hide(text, self._of_target) for text in parameters),
            shown=text.encode("utf-8", "replace"),
            repairs=tuple(repairs),
            files=files,
            request=request,
        )

    def preview(self, request: requests.ProviderRequest) -> base.Preview:
        """Return the transcript, with the text around it, as one message."""
        wire, question = self.wire(request), requests.question_of(request)
        text = wire.shown.decode()
        before, found, after = text.partition(joined(question))
        shown = separate_first("", question) if found else ()  # a repair may have changed it
        first, last = (Part("text", around, "", stage=self.kind) for around in (before, after))
        parts = (first, *shown, last)
        return base.Preview(messages=(Turn("user", parts),), repairs=wire.repairs)

    async def ask(self, wire: base.Wire) -> base.ProviderResponse:
        """Run the agent with a folder for the request, which is removed afterwards.

        The folder is in the working folder, where the agent may read.
        """
        above = Path(self.settings.cwd or ".").absolute()
        body = b""
        try:
            with TemporaryDirectory("", _FOLDER, above, ignore_cleanup_errors=True) as name:
                folder = Path(name)
                # Only the end of the body: a message may contain the placeholder, too.
                end = self.closing(wire.files, _PLACEHOLDER).encode()
                body = wire.shown.removesuffix(end) + self.closing(wire.files, folder.name).encode()
                (folder / ".gitignore").write_text("*\n")
                files = [(file, folder / path) for file, path in file_names(wire.files)]
                for file, path in files:
                    path.parent.mkdir(parents=True)
                    text = file.text.encode("utf-8", "surrogatepass")
                    path.write_bytes(file.media.data if file.media else text)
                answer = await self.work(folder, body, files)
        except OSError as error:
            what = f"cannot use the request folder: {error}"
            raise ProcessFailedError(what, wire=body) from None
        except ProviderError as error:
            error.wire = body
            if error.kind == "process":
                error.what += f"; {ADVICE}"
            raise
        return structs.replace(answer, wire=body)

    async def work(self, folder: Path, body: bytes, files: Written) -> base.ProviderResponse:
        """Return the agent's answer to a prompt; the folder of the request holds the files."""
        raise NotImplementedError


def _instructions(request: requests.ProviderRequest) -> Iterator[str]:
    """Yield the system prompt that LLM APIs get, and the guidelines without a file, with headings.

    Guidelines of files are in the folder of the request, system messages in the question.
    """
    system = requests.spoken_prompt(request)
    messages = [m.content for m in request.chat_prompt or () if m.role == "system"]
    if not system and not messages and not request.guidelines:
        # With guidelines, it has them, too, and an agent gets those apart.
        system = request.system if request.system and not is_blank(request.system) else ""
    if system and (not messages or any(system in text for text in messages)):
        yield from (_SYSTEM_HEADING, system)
    texts = [text for text, file in requests.guidelines_with_files(request) if file is None]
    if texts:
        yield from (requests.GUIDELINES_HEADING, *texts)


def file_names(files: tuple[requests.InputFile, ...]) -> list[tuple[requests.InputFile, str]]:
    """Return each file with its path in the folder of the request."""
    return [(file, f"files/{number}/{_name(file)}") for number, file in enumerate(files, 1)]


def _name(file: requests.InputFile) -> str:
    """Return a name of a file; of bytes in a suite, the one that their digest gives."""
    if file.media is not None and not file.resolved_path:
        return file.media.replace(path=None).name
    # Only what is safe in a prompt and on a command line.
    name = os.path.basename(file.resolved_path)
    return re.sub(r"[^\w.-]", "_", name)[-100:].lstrip("-.") or "file"

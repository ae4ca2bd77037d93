"""Providers of a user's own: any object with ``name`` and ``invoke``, or a target's class."""

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import structs

from multiturn import errors
from multiturn.documents.imports import import_path
from multiturn.model.request import ProviderRequest, files_and_media, prompt_of
from multiturn.providers import base
from multiturn.providers.rules import broken
from multiturn.providers.secrets import hide, secrets_among

# The fields that an answer depends on; the other fields are for evaluating the answer.
_SENT = (*("question", "guidelines", "chat_prompt", "input_files", "metadata", "eval_id"),)


def complete(provider: base.Provider) -> base.TargetProvider:
    """Return a provider with every method that a run needs; a TypeError if it has no ``invoke``."""
    if isinstance(provider, base.TargetProvider):
        return provider
    if not (hasattr(provider, "name") and callable(getattr(provider, "invoke", None))):
        hint = "; load_target gives the provider of a target" if isinstance(provider, str) else ""
        what = f"a provider has a name and a method invoke, and {provider!r} has not"
        raise TypeError(f"{what}{hint}")
    return InvokedProvider(provider, base.Settings(name=provider.name, provider=provider.name))


class InvokedProvider(base.TargetProvider):
    """Completes an object that has only ``invoke``: its wire is the whole request as JSON."""

    def __init__(self, provider: Any, settings: base.Settings, secrets: Iterable[str] = ()) -> None:
        super().__init__(settings, secrets)
        self.provider = provider
        self.accepts = frozenset(getattr(provider, "accepts", ()))

    def wire(self, request: ProviderRequest) -> base.Wire:
        """Return the request as JSON, unless it has calls or media, and the provider takes none."""
        if "media" not in self.accepts and any(file.media for file in files_and_media(request)):
            advice = f"add accepts = {{'media'}} to {self.settings.provider}, if it sends them"
            raise errors.RefusedError(broken("C7", advice))
        has_calls = request.tools or any(turn.is_more for turn in prompt_of(request))
        if has_calls and "calls" not in self.accepts:
            advice = f"add accepts = {{'calls'}} to {self.settings.provider}, if it sends them"
            raise errors.RefusedError(broken("C6", advice))
        return base.Wire(provider=self.settings.provider, shown=body_of(request), request=request)

    async def ask(self, wire: base.Wire) -> base.ProviderResponse:
        """Return the answer of the user's provider."""
        path = self.settings.provider
        try:
            answer: Any = self.provider.invoke(wire.request)
            if inspect.isawaitable(answer):
                answer = await answer
            elif isinstance(answer, base.ProviderResponse):
                raise errors.OwnProviderError(f"invoke of {path} must be async def")
        except errors.ProviderError:
            raise
        except base.passing():
            raise
        except BaseException as error:  # whatever the provider raises
            place = errors.line_of(self.provider.invoke, error)
            what = f"{path} failed{place}: {errors.exception_in_words(error)}"
            raise errors.OwnProviderError(what) from None
        if not isinstance(answer, base.ProviderResponse):
            what = f"{path} returned {type(answer).__name__} instead of a ProviderResponse"
            raise errors.OwnProviderError(what)
        try:  # only its text, and what is raw, may be what results cannot hold
            checked = msgspec.convert(structs.asdict(answer), base.ProviderResponse)
            msgspec.json.encode(structs.replace(checked, text="", raw=None))
        except (TypeError, ValueError, RecursionError) as error:
            what = f"{path} returned an answer of the wrong form: {error}"
            raise errors.OwnProviderError(what) from None
        return checked


def body_of(request: ProviderRequest) -> bytes:
    """Return the fields of a request that an answer depends on, as JSON."""
    fields = {field: getattr(request, field) for field in _SENT}
    files = map(structs.asdict, request.input_files)
    # A text has no media, so that digests stay as they were before there were any.
    fields["input_files"] = [
        {key: given for key, given in file.items() if key != "media" or given is not None}
        for file in files
    ]
    fields |= {"tools": request.tools} if request.tools else {}
    fields |= {"settings": request.settings} if request.settings.said() else {}
    if request.system and not any(m.role == "system" for m in request.chat_prompt or ()):
        fields["system"] = request.system
    return msgspec.json.encode(fields)


class CustomSettings(base.Settings, frozen=True, kw_only=True):
    """The settings of a target with a class of the user's: ``options`` are its arguments."""

    options: Mapping[str, Any]

    def secrets(self) -> list[str]:
        """Return the options that have the name of a key."""
        return secrets_among(self.options)


class CustomProvider(InvokedProvider):
    """An instance of a class that a target names by import path."""

    settings: CustomSettings

    def __init__(self, settings: CustomSettings, folder: Path, secrets: Iterable[str] = ()) -> None:
        path = settings.provider
        found = import_path(path, str(folder), kind="provider", is_kind=_is_provider)
        if not _is_provider(found):
            what = f"{path!r} is not a provider; a provider is a class with a method invoke"
            raise errors.MultiturnError(what)
        try:
            super().__init__(found(**settings.options), settings, secrets)
        except base.passing():
            raise
        except BaseException as error:  # whatever the class raises
            what = f"{path} does not start: {errors.exception_in_words(error)}"
            raise errors.MultiturnError(hide(what, (*settings.secrets(), *secrets))) from error

    def wire(self, request: ProviderRequest) -> base.Wire:
        """Return the request as JSON; the options are part of its digest, keys are not."""
        options = hide(dict(self.settings.options), self.secrets)
        return structs.replace(
            super().wire(request),
            parameters=(msgspec.json.encode(options).decode(),),
            files=request.input_files,
        )

    async def __aenter__(self) -> Self:
        await self._call("__aenter__", "does not open")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._call("__aexit__", "does not close", *error)

    async def _call(self, method: str, fails: str, *arguments: object) -> None:
        """Call a method that the class may have; no secret is in its error."""
        try:
            if (found := getattr(self.provider, method, None)) is not None:
                await found(*arguments)
        except base.passing():
            raise
        except BaseException as error:
            what = f"{self.settings.provider} {fails}: {errors.exception_in_words(error)}"
            raise errors.MultiturnError(hide(what, self.secrets)) from None


def _is_provider(value: Any) -> bool:
    return inspect.isclass(value) and callable(getattr(value, "invoke", None))

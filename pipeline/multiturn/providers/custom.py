"""Providers of a user's own, which a target names by import path."""

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from multiturn.documents.imports import import_path
from multiturn.errors import MultiturnError, line_of
from multiturn.providers.base import (
    Provider,
    ProviderError,
    ProviderResponse,
    Settings,
    TargetProvider,
    Wire,
    body_of,
    hide,
    secrets_among,
)
from multiturn.request import ProviderRequest


class CustomSettings(Settings, frozen=True, kw_only=True):
    """The settings of a target with a class of the user's: ``options`` are its arguments."""

    options: Mapping[str, Any]

    def secrets(self) -> list[str]:
        """Return the options that have the name of a key."""
        return secrets_among(self.options)


class CustomProvider(TargetProvider):
    """Asks a provider of the user's own, whose module may be in the folder, by a target's name."""

    settings: CustomSettings

    def __init__(self, settings: CustomSettings, folder: Path, secrets: Iterable[str] = ()) -> None:
        super().__init__(settings, secrets)
        path = settings.provider
        found = import_path(path, folder, kind="provider", is_kind=_is_provider)
        if not _is_provider(found):
            what = f"{path!r} is not a provider; a provider is a class with a method invoke"
            raise MultiturnError(what)
        try:
            self.provider: Provider = found(**settings.options)
        except Exception as error:  # whatever the class raises
            what = f"{path} does not start: {type(error).__name__}: {error}"
            raise MultiturnError(hide(what, self.secrets)) from error

    def wire(self, request: ProviderRequest) -> Wire:
        """Return the request as JSON; the options are part of its digest, keys are not."""
        options = hide(dict(self.settings.options), self.secrets)
        return Wire(
            provider=self.settings.provider,
            parameters=(msgspec.json.encode(options).decode(),),
            body=body_of(request),
            request=request,
        )

    async def ask(self, wire: Wire) -> ProviderResponse:
        """Return the answer of the user's provider."""
        assert wire.request is not None  # noqa: S101 - wire() sets it
        path = self.settings.provider
        try:
            answer: Any = self.provider.invoke(wire.request)
            if inspect.isawaitable(answer):
                answer = await answer
            elif isinstance(answer, ProviderResponse):
                raise ProviderError(f"invoke of {path} must be async def", kind="provider")
        except ProviderError:
            raise
        except Exception as error:  # whatever the provider raises
            place = line_of(self.provider.invoke, error)
            what = f"{path} failed{place}: {type(error).__name__}: {error}"
            raise ProviderError(what, kind="provider") from None
        if not isinstance(answer, ProviderResponse):
            what = f"{path} returned {type(answer).__name__} instead of a ProviderResponse"
            raise ProviderError(what, kind="provider")
        return answer

    async def __aenter__(self) -> Self:
        enter = getattr(self.provider, "__aenter__", None)
        if enter is not None:
            await enter()
        return self

    async def __aexit__(self, *error: object) -> None:
        leave = getattr(self.provider, "__aexit__", None)
        if leave is not None:
            await leave(*error)


def _is_provider(value: Any) -> bool:
    return inspect.isclass(value) and callable(getattr(value, "invoke", None))

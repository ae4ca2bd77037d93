"""The most tokens that a prompt may have: what its suite, or else the project, says."""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from multiturn.engine.project import find_defaults
from multiturn.errors import InputError
from multiturn.explaining.explanation import size_of
from multiturn.model.conversion import Conversion
from multiturn.text import first_of

if TYPE_CHECKING:
    from multiturn.providers.base import TargetProvider


class PromptLimit:
    """Finds prompts with more tokens than ``max_prompt_tokens`` allows.

    Args:
        provider: of the target that gets them, whose tokenizer counts; None for an estimate.
    """

    def __init__(self, provider: "TargetProvider | None") -> None:
        self._most = find_defaults()[0].max_prompt_tokens
        self._provider = provider
        self._count = lru_cache(256)(lambda text: self._target.tokenizer.count(text))

    @cached_property
    def _target(self) -> "TargetProvider":
        from multiturn.engine.target import load_target  # most suites have no limit

        return self._provider or load_target("echo", sends=False)

    def error_of(self, conversion: Conversion) -> InputError | None:
        """Return the error of a prompt that is too long, with its largest parts."""
        case = conversion.case
        most = case.max_prompt_tokens or self._most
        if most is None:
            return None
        tokens, parts = size_of(conversion, self._target, self._count)
        if tokens.count <= most:
            return None
        about, where = "" if tokens.is_exact else "about ", case.where()
        named = first_of([f"{number:,} in {part}" for part, number in parts.items()])
        # The numbers are in the label: the words are the same for many cases, and printed once.
        where = where._replace(label=f"{where.label}: {about}{tokens.count:,} tokens, {named}")
        what = f"max_prompt_tokens is {most:,}; shorten the prompt, or allow more"
        return InputError(what, where=where, case_id=case.id)

"""Chat templates of models: what they refuse is foreseen, and ``roles: alternate`` meets it."""

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiturn import ProviderError
from multiturn.documents.yaml_reader import read_documents
from multiturn.logs import Notice, warnings_to
from vendors import chat, openai

(TEMPLATES,) = read_documents(
    (Path(__file__).parent / "templates.yaml").read_bytes(), "templates.yaml"
)
ALL = {"final_assistant": True, "later_system": True}
Messages = list[tuple[str, str]]
each_model = pytest.mark.parametrize("model", TEMPLATES.value)
prompts = st.lists(
    st.sampled_from(["system", "user", "assistant", "tool"]), min_size=1, max_size=6
).map(lambda roles: [(role, f"text-{at}") for at, role in enumerate(roles)])


@cache
def template(model: str) -> jinja2.Template:
    environment = jinja2.Environment(autoescape=False)
    return environment.from_string(TEMPLATES.value[model]["template"])


def rendered(model: str, body: bytes) -> str:
    """Return what a server makes of a request.

    Raises:
        ValueError: the model's chat template refuses it.
    """

    def refuse(what: str) -> None:
        raise ValueError(what)

    messages = msgspec.json.decode(body)["messages"]
    return template(model).render(messages=messages, raise_exception=refuse)


@each_model
@given(prompts)
def test_with_the_settings_of_its_template_a_prompt_is_rendered_whole_or_refused_before(
    model: str, messages: Messages
) -> None:
    settings: dict[str, Any] = {"roles": "alternate", "later_system": "merge", "model_takes": ALL}
    settings["system_role"] = TEMPLATES.value[model].get("system_role", "system")
    try:
        wire = openai(model=model, **settings).wire(chat(*messages))
    except ProviderError:
        assert "user" not in [role for role, _ in messages[:2]] or messages[0][0] == "assistant"
        return
    text = rendered(model, wire.body)
    assert all(content in text for _, content in messages)


@each_model
@given(prompts)
def test_what_the_template_refuses_is_foreseen(model: str, messages: Messages) -> None:
    doubts: list[Notice] = []
    target = openai(model=model)
    try:
        with warnings_to(doubts.append):
            wire = target.wire(chat(*messages))
    except ProviderError:
        return
    try:
        rendered(model, wire.body)
    except ValueError:
        assert doubts


@each_model
def test_a_plain_conversation_is_no_doubt_unless_the_template_takes_no_system_message(
    model: str,
) -> None:
    doubts: list[Notice] = []
    with warnings_to(doubts.append):
        openai(model=model).wire(
            chat(("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"))
        )
    takes_none = TEMPLATES.value[model].get("system_role") == "user"
    assert ["takes no system message" in doubt.why for doubt in doubts] == [True] * takes_none


def test_the_target_says_that_its_server_takes_any_roles() -> None:
    doubts: list[Notice] = []
    target = openai(model="mistral-7b-instruct-v0.2", roles="any", model_takes=ALL)
    with warnings_to(doubts.append):
        target.wire(chat(("user", "a"), ("user", "b")))
    assert doubts == []

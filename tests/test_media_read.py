"""Images, documents and audio in suites: our own form, and those of other tools."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from loading import cases
from media_files import data_uri, image, pdf, wav, write_bytes
from multiturn import ChatMessage, Media, MultiturnError, load_pipeline

SPEC = load_pipeline("spec")
PNG, PDF, WAV = image(), pdf(), wav()
FILES = {"shots/a.png": PNG, "bill.pdf": PDF, "q.wav": WAV, "notes.txt": b"Notes.\n"}
ADDRESS = "https://example.com/a"

# What is sent of a block: the kind, the bytes or the address, the name and the detail.
Said = tuple[str, bytes | str, str | None, str | None]


@pytest.fixture(autouse=True)
def _files(root: Path) -> None:
    write_bytes(Path(), FILES)


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def said(media: Media) -> Said:
    return (media.kind, media.url or media.data, media.path, media.detail)


def contents(*messages: dict[str, Any]) -> list[Any]:
    """Return the contents of the messages that a suite becomes, which has no warnings."""
    with capture_logs() as logs:
        (case,) = cases(json.dumps({"id": "a", "messages": messages}))
        prompt = SPEC.request(case).chat_prompt or ()
    assert logs == []
    return [message.content for message in prompt]


OURS: list[tuple[dict[str, Any], Said]] = [
    ({"type": "image", "value": "shots/a.png"}, ("image", PNG, "shots/a.png", None)),
    ({"type": "file", "value": "/shots/a.png"}, ("image", PNG, "/shots/a.png", None)),
    ({"type": "document", "value": "bill.pdf"}, ("document", PDF, "bill.pdf", None)),
    ({"type": "audio", "value": "q.wav", "name": "q.wav"}, ("audio", WAV, "q.wav", None)),
    (
        {"type": "image", "value": ADDRESS, "detail": "original"},
        ("image", ADDRESS, None, "original"),
    ),
    (
        {"type": "file", "value": data_uri(WAV), "name": "q.wav"},
        ("audio", WAV, "q.wav", None),
    ),
    (
        {"type": "image", "value": f"data:;base64,{in_base64(PNG)}", "detail": None},
        ("image", PNG, None, None),
    ),
    (
        {"type": "file", "value": f"DATA:image/png;BASE64,{in_base64(PNG)}", "name": "a.png"},
        ("image", PNG, "a.png", None),
    ),
    (
        {"type": "document", "value": "HTTPS://example.com/a"},
        ("document", "HTTPS://example.com/a", None, None),
    ),
]
OPENAI: list[tuple[dict[str, Any], Said]] = [
    (
        {"type": "image_url", "image_url": {"url": data_uri(PNG), "detail": "low"}},
        ("image", PNG, None, "low"),
    ),
    ({"type": "image_url", "image_url": ADDRESS}, ("image", ADDRESS, None, None)),
    (
        {"type": "file", "file": {"file_data": data_uri(PDF), "filename": "b.pdf"}},
        ("document", PDF, "b.pdf", None),
    ),
    ({"type": "file", "file": {"file_data": in_base64(PDF)}}, ("document", PDF, None, None)),
    (
        {"type": "input_audio", "input_audio": {"data": in_base64(WAV), "format": "wav"}},
        ("audio", WAV, None, None),
    ),
]
RESPONSES: list[tuple[dict[str, Any], Said]] = [
    (
        {"type": "input_image", "image_url": data_uri(PNG), "detail": "auto", "file_id": None},
        ("image", PNG, None, "auto"),
    ),
    (
        {"type": "input_file", "file_data": data_uri(PDF), "filename": "b.pdf"},
        ("document", PDF, "b.pdf", None),
    ),
    ({"type": "input_file", "file_url": ADDRESS}, ("document", ADDRESS, None, None)),
]
ANTHROPIC: list[tuple[dict[str, Any], Said]] = [
    (
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": in_base64(PNG)},
            "cache_control": {"type": "ephemeral"},
        },
        ("image", PNG, None, None),
    ),
    ({"type": "image", "source": {"type": "url", "url": ADDRESS}}, ("image", ADDRESS, None, None)),
    (
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": in_base64(PDF)},
            "title": None,
            "citations": {"enabled": False},
        },
        ("document", PDF, None, None),
    ),
    (
        {"type": "document", "source": {"type": "url", "url": ADDRESS}},
        ("document", ADDRESS, None, None),
    ),
]
INSPECT: list[tuple[dict[str, Any], Said]] = [
    (
        {"type": "image", "image": data_uri(PNG), "detail": "auto", "internal": None},
        ("image", PNG, None, "auto"),
    ),
    ({"type": "image", "image": "shots/a.png"}, ("image", PNG, "shots/a.png", None)),
    ({"type": "audio", "audio": data_uri(WAV), "format": "wav"}, ("audio", WAV, None, None)),
    (
        {
            "type": "document",
            "document": "bill.pdf",
            "filename": "bill.pdf",
            "mime_type": "application/pdf",
            "citations": False,
        },
        ("document", PDF, "bill.pdf", None),
    ),
    (
        {"type": "document", "document": data_uri(PDF), "filename": "document.pdf"},
        ("document", PDF, "document.pdf", None),
    ),
    (
        {"type": "document", "document": ADDRESS, "filename": "a"},
        ("document", ADDRESS, None, None),
    ),
]
AGENTV: list[tuple[dict[str, Any], Said]] = [
    (
        {"type": "image", "source": "shots/a.png", "media_type": "image/png"},
        ("image", PNG, "shots/a.png", None),
    )
]


@pytest.mark.parametrize(
    ("block", "meant"), OURS + OPENAI + RESPONSES + ANTHROPIC + INSPECT + AGENTV
)
def test_a_block_is_read_as_what_its_tool_means(block: dict[str, Any], meant: Said) -> None:
    ((text, media, behind), (alone,)) = contents(
        {"role": "user", "content": ["Look:", block, "Well?"]}, {"role": "user", "content": block}
    )
    assert (text, said(media), behind) == ("Look:", meant, "Well?")
    assert said(alone) == meant


@pytest.mark.parametrize(
    "block",
    [
        {"type": "input_text", "text": "Hi {x}\n"},
        {"type": "output_text", "text": "Hi {x}\n", "annotations": [], "logprobs": []},
        {"type": "document", "source": {"type": "text", "data": "Hi {x}\n"}},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Hi {x}\n"},
            "cache_control": {"type": "ephemeral"},
        },
    ],
)
def test_a_text_of_another_tool_is_a_text(block: dict[str, Any]) -> None:
    assert contents({"role": "user", "content": [block]}) == ["Hi {x}\n"]


def test_a_text_that_inspect_ai_names_as_a_document_is_embedded() -> None:
    block = {"type": "document", "document": "notes.txt", "mime_type": "text/plain"}
    assert contents({"role": "user", "content": ["See:", block]}) == [
        "See:\n=== notes.txt ===\nNotes."
    ]


def test_media_in_a_result_stay_in_it_in_their_order() -> None:
    block, meant = ANTHROPIC[0]
    answer = {"type": "tool_result", "tool_use_id": "c", "content": ["A", block, "B", block]}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f"}]},
        {"role": "user", "content": [answer, {"type": "text", "text": "So?"}]},
    ]
    _, (first, image_1, second, image_2), rest = contents(*messages)
    assert (first, said(image_1), second, said(image_2), rest) == ("A", meant, "B", meant, "So?")


@pytest.mark.parametrize(("block", "meant"), [OURS[0], OPENAI[0], RESPONSES[0], INSPECT[0]])
def test_media_in_a_message_of_a_tool_are_read(block: dict[str, Any], meant: Said) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": ["A", block]},
    ]
    _, (text, media) = contents(*messages)
    assert (text, said(media)) == ("A", meant)


def test_messages_in_a_text_of_json_may_have_media() -> None:
    block, meant = OPENAI[0]
    text = json.dumps([{"role": "user", "content": ["Look:", block]}])
    suite = {"prompts": ["{{ chat }}"], "tests": [{"id": "a", "vars": {"chat": text}}]}
    (case,) = cases(json.dumps(suite))
    (message,) = SPEC.request(case).chat_prompt or ()
    assert isinstance(message, ChatMessage)
    assert [each if isinstance(each, str) else said(each) for each in message.content] == [
        "Look:",
        meant,
    ]


def test_a_suite_whose_messages_share_a_block_by_an_alias_has_it_in_each() -> None:
    block = json.dumps(OPENAI[0][0])
    (case,) = cases(
        f"messages:\n- {{role: user, content: &c [&b {block}, Hi, *b]}}\n"
        "- {role: assistant, content: Ho}\n- {role: user, content: *c}\n"
    )
    prompt = SPEC.request(case).chat_prompt or ()
    shown = [[isinstance(each, Media) for each in message.content] for message in prompt[::2]]
    assert shown == [[True, False, True]] * 2


@pytest.mark.parametrize(
    ("block", "warning"),
    [
        (
            {"type": "image", "value": ADDRESS, "detai": "low"},
            'unknown key "detai"; did you mean "detail"?',
        ),
        (
            {"type": "image_url", "image_url": {"url": ADDRESS, "size": 5}},
            'unknown key "size"; choose from: detail, url',
        ),
        (
            {
                "type": "document",
                "source": {"type": "url", "url": ADDRESS},
                "citations": {"enabled": True},
            },
            "citations are not asked for; they are left out",
        ),
    ],
)
def test_a_key_that_is_left_out_is_a_warning(block: dict[str, Any], warning: str) -> None:
    with capture_logs() as logs:
        cases(json.dumps({"id": "a", "messages": [{"role": "user", "content": [block]}]}))
    assert [log["why"] for log in logs] == [warning]


def test_a_line_holds_as_many_bytes_as_a_case_may_have() -> None:
    """50 MB in three images are 67 MB in base64."""
    sizes = [20_000_000, 20_000_000, 10_000_000]
    blocks = []
    for number, size in enumerate(sizes):
        data = b"\x89PNG\r\n\x1a\n" + bytes([number]) * (size - 8)
        blocks.append({"type": "image", "value": f"data:image/png;base64,{in_base64(data)}"})
    line = {"id": "a", "input_messages": [{"role": "user", "content": blocks}]}
    (case,) = cases(json.dumps(line), "x.eval.jsonl")
    (message,) = SPEC.request(case).chat_prompt or ()
    assert [isinstance(each, Media) and each.size for each in message.content] == sizes


def test_bytes_in_a_suite_may_be_as_many_as_in_a_file() -> None:
    """20 MB are 26 million characters, more than a case may have of text."""
    most = b"\x89PNG\r\n\x1a\n" + bytes(20_000_000 - 8)
    sizes = []
    for data in (most, most + b"\0"):
        block = {"type": "image", "value": f"data:image/png;base64,{in_base64(data)}"}
        line = {"id": "a", "input_messages": [{"role": "user", "content": [block]}]}
        (case,) = cases(json.dumps(line), "x.eval.jsonl")
        try:
            (message,) = SPEC.request(case).chat_prompt or ()
            sizes.append(message.content[0].size)  # type: ignore[union-attr]
        except MultiturnError as error:
            sizes.append(str(error).partition("content[0]: ")[2])
    assert sizes[0] == 20_000_000
    assert str(sizes[1]).startswith("it is larger than 20,000,000 bytes; raise")

"""Images, documents and audio, on the wire: each vendor's form, order, bytes and limits."""

import asyncio
import base64
import io
import os
import re
import wave
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from PIL import Image

from loopback import Server
from media_files import image, mp3, padded, pdf, wav
from media_histories import MAKERS, TAKEN, media_history
from multiturn import Call, ChatMessage, Media, ProviderError, ProviderRequest
from multiturn.logs import Notice, warnings_to
from multiturn.model.request import turn_of
from strict import judge_anthropic, judge_gemini, judge_openai, judge_responses
from vendors import PROVIDERS

HISTORIES = int(os.environ.get("HISTORIES", "150"))  # make test-tools tries 3000
PNG, JPEG, GIF, PDF = image(), image("JPEG"), image("GIF"), pdf()
URL = "https://example.org/a.png"
SHOT, PAGE = Media.of(PNG, "shots/a.png"), Media.of(PDF, "in/b.pdf")
PHOTO, MOVING = Media.of(JPEG, "c.jpg", detail="low"), Media.of(GIF, "d.gif")
NOISE, SONG = Media.of(wav(), "e.wav"), Media.of(mp3(), "f.mp3")
FAR = Media("image", url=URL)
CALL = Call("c1", "look", {}, "c2ln")
ASKED = ChatMessage("assistant", "", (CALL,))
JUDGES: dict[str, Any] = {
    "openai": judge_openai,
    "azure": judge_openai,
    "responses": judge_responses,
    "anthropic": lambda body: judge_anthropic(
        body, {"anthropic-version": "2026-10-21", "authorization": "Bearer x"}
    ),
    "gemini": lambda body: judge_gemini(body, "gemini-2.5-flash"),
}


def asked(*messages: tuple[Any, Any] | ChatMessage) -> ProviderRequest:
    """Return a request with a system message and these."""
    prompt = [m if isinstance(m, ChatMessage) else ChatMessage(*m) for m in messages]
    given = (ChatMessage("system", "Be brief."), *prompt)
    return ProviderRequest(question="(for logs only)", chat_prompt=given)


def result(*content: str | Media) -> ProviderRequest:
    """Return a request with a result of a call."""
    return asked(("user", "Look."), ASKED, ChatMessage("tool", content, tool_call_id="c1"))


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sent(vendor: str, request: ProviderRequest, **settings: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the decoded body and the repairs; doubts are no affair of most tests."""
    with warnings_to(lambda _: None):
        wire = PROVIDERS[vendor](**settings).wire(request)
    return msgspec.json.decode(wire.body), wire.repairs


def refusal(vendor: str, request: ProviderRequest, **settings: Any) -> str:
    """Return why a request is refused."""
    with pytest.raises(ProviderError) as caught:
        sent(vendor, request, **settings)
    return str(caught.value)


def test_chat_completions_get_images_documents_and_audio_in_order() -> None:
    content = ("What?", SHOT, PHOTO, "And?", PAGE, NOISE, SONG, FAR)
    for vendor in ("openai", "azure"):
        body, repairs = sent(vendor, asked(("user", content)))
        png, jpeg = f"data:image/png;base64,{in_base64(PNG)}", in_base64(JPEG)
        document = f"data:application/pdf;base64,{in_base64(PDF)}"
        assert body["messages"][1:] == [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What?"},
                    {"type": "image_url", "image_url": {"url": png}},
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:image/jpeg;base64,{jpeg}", "detail": "low"},
                    },
                    {"type": "text", "text": "And?"},
                    {"type": "file", "file": {"filename": "b.pdf", "file_data": document}},
                    {
                        "type": "input_audio",
                        "input_audio": {"data": in_base64(wav()), "format": "wav"},
                    },
                    {
                        "type": "input_audio",
                        "input_audio": {"data": in_base64(mp3()), "format": "mp3"},
                    },
                    {"type": "image_url", "image_url": {"url": URL}},
                ],
            }
        ]
        assert repairs == ()


def test_anthropic_gets_images_and_documents_in_order() -> None:
    letter = Media("document", url="https://example.org/b.pdf")
    body, repairs = sent("anthropic", asked(("user", ("What?", SHOT, PAGE, "And?", FAR, letter))))
    png = {"type": "base64", "media_type": "image/png", "data": in_base64(PNG)}
    page = {"type": "base64", "media_type": "application/pdf", "data": in_base64(PDF)}
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What?"},
                {"type": "image", "source": png},
                {"type": "document", "source": page},
                {"type": "text", "text": "And?"},
                {"type": "image", "source": {"type": "url", "url": URL}},
                {"type": "document", "source": {"type": "url", "url": letter.url}},
            ],
        }
    ]
    assert repairs == ()


def test_gemini_gets_images_documents_and_audio_in_order() -> None:
    letter = Media("document", url="https://example.org/x?file=b.pdf")
    content = ("What?", SHOT, PAGE, "And?", NOISE, SONG, FAR, letter)
    given = asked(("user", content), ("assistant", ("It is", PHOTO)), ("user", "Yes?"))
    body, repairs = sent("gemini", given)
    user, model, _ = body["contents"]
    assert user["parts"] == [
        {"text": "What?"},
        {"inlineData": {"mimeType": "image/png", "data": in_base64(PNG)}},
        {"inlineData": {"mimeType": "application/pdf", "data": in_base64(PDF)}},
        {"text": "And?"},
        {"inlineData": {"mimeType": "audio/wav", "data": in_base64(wav())}},
        {"inlineData": {"mimeType": "audio/mp3", "data": in_base64(mp3())}},
        {"fileData": {"fileUri": URL, "mimeType": "image/png"}},
        {"fileData": {"fileUri": letter.url}},  # its ending tells no type
    ]
    jpeg = {"mimeType": "image/jpeg", "data": in_base64(JPEG)}
    assert model == {"role": "model", "parts": [{"text": "It is"}, {"inlineData": jpeg}]}
    assert repairs == ("M3: left out the detail low of 'c.jpg'",)


def test_an_image_alone_is_a_message() -> None:
    for vendor in JUDGES:
        body, repairs = sent(vendor, asked(("user", (SHOT,))))
        message = (body.get("contents") or body.get("input") or body["messages"])[-1]
        assert (message["role"], repairs) == ("user", ())
        assert len(message.get("content") or message["parts"]) == 1


def test_a_name_with_folders_is_sent_without_them() -> None:
    for name, expected in [("../secret/b.pdf", "b.pdf"), ("C:\\Users\\me\\b.pdf", "b.pdf")]:
        body, _ = sent("openai", asked(("user", (Media.of(PDF, name),))))
        assert body["messages"][1]["content"][0]["file"]["filename"] == expected
    body, _ = sent("openai", asked(("user", (Media.of(PDF),))))
    name = f"{sha256(PDF).hexdigest()[:12]}.pdf"
    assert body["messages"][1]["content"][0]["file"]["filename"] == name


@pytest.mark.parametrize(
    ("vendor", "rule"), [("anthropic", "A3"), ("gemini", "G5"), ("openai", ""), ("azure", "")]
)
def test_blank_texts_beside_media_are_left_out_where_they_are_refused(
    vendor: str, rule: str
) -> None:
    body, repairs = sent(vendor, asked(("user", (" \n", SHOT, "\t", SHOT, "Hi"))))
    message = (body.get("contents") or body["messages"])[-1]
    parts = message.get("content") or message["parts"]
    what = f"{rule}: left out an empty text beside media of the user"
    assert repairs == ((what, what) if rule else ())
    assert len(parts) == (3 if rule else 5)


def test_neighbors_of_one_role_are_merged_with_their_media() -> None:
    given = asked(("user", ("One", SHOT)), ("user", "Two"), ("user", (SHOT, "Three")))
    for vendor, rule in (("anthropic", "A6"), ("gemini", "G3")):
        body, repairs = sent(vendor, given)
        (message,) = body.get("contents") or body["messages"]
        parts = message.get("content") or message["parts"]
        texts = [part.get("text") for part in parts]
        assert texts == ["One", None, "Two", None, "Three"]
        assert repairs == (f"{rule}: merged 3 neighboring user messages",)


def test_a_result_with_an_image_is_sent_as_it_is_where_that_is_taken() -> None:
    body, repairs = sent("anthropic", result("Here:", SHOT))
    png = {"type": "base64", "media_type": "image/png", "data": in_base64(PNG)}
    assert body["messages"][-1]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "text", "text": "Here:"}, {"type": "image", "source": png}],
        }
    ]
    assert repairs == ()
    settings = {"model": "gemini-3.1-pro-preview"}
    body, repairs = sent("gemini", result("Here:", SHOT, "and", PAGE), **settings)
    data = [
        {"inlineData": {"mimeType": "image/png", "data": in_base64(PNG)}},
        {"inlineData": {"mimeType": "application/pdf", "data": in_base64(PDF)}},
    ]
    said = {"id": "c1", "name": "look", "response": {"output": "Here:\nand"}, "parts": data}
    assert body["contents"][-1] == {"role": "user", "parts": [{"functionResponse": said}]}
    assert repairs == ()


MOVED = "From the result of the call c1:"
TOLD = "Here:\nThe image shots/a.png is in the next message of the user."


@pytest.mark.parametrize("vendor", ["openai", "azure"])
def test_t6_chat_completions_get_an_image_of_a_result_in_a_user_message(vendor: str) -> None:
    body, repairs = sent(vendor, result("Here:", SHOT))
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{in_base64(PNG)}"}}
    assert body["messages"][-2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": TOLD},
        {"role": "user", "content": [{"type": "text", "text": MOVED}, image]},
    ]
    assert repairs == ("T6: sent 1 file of a result in a user message after it",)


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-4-neon"])
def test_t6_older_models_of_gemini_and_unknown_ones_get_it_after_the_result(model: str) -> None:
    body, repairs = sent("gemini", result("Here:", SHOT), model=model)
    response = {"id": "c1", "name": "look", "response": {"output": TOLD}}
    data = {"inlineData": {"mimeType": "image/png", "data": in_base64(PNG)}}
    assert body["contents"][-2:] == [
        {"role": "user", "parts": [{"functionResponse": response}]},
        {"role": "user", "parts": [{"text": MOVED}, data]},
    ]
    assert repairs == ("T6: sent 1 file of a result in a user message after it",)


def test_t6_audio_of_a_result_goes_after_it_for_every_model_of_gemini() -> None:
    given = result(NOISE, SHOT)
    body, _ = sent("gemini", given, model="gemini-3.1-pro-preview")
    (response,), (text, noise) = (content["parts"] for content in body["contents"][-2:])
    assert [*response["functionResponse"]["parts"][0]] == ["inlineData"]
    assert (text["text"], noise["inlineData"]["mimeType"]) == (MOVED, "audio/wav")


def test_t6_the_target_can_say_that_its_model_takes_images_in_results() -> None:
    takes = {"result_media": True, "images": True}
    body, repairs = sent("gemini", result(SHOT), model="gemini-4-neon", model_takes=takes)
    assert "parts" in body["contents"][-1]["parts"][0]["functionResponse"]
    assert repairs == ()


def test_a17_anthropic_gets_an_image_of_a_failed_call_after_its_result() -> None:
    failed = ChatMessage("tool", ("No:", SHOT), tool_call_id="c1", is_error=True)
    body, repairs = sent("anthropic", asked(("user", "Look."), ASKED, failed, ("user", "And?")))
    png = {"type": "base64", "media_type": "image/png", "data": in_base64(PNG)}
    told = TOLD.replace("Here:", "No:")
    result = {"type": "tool_result", "tool_use_id": "c1", "content": told, "is_error": True}
    assert body["messages"][-1]["content"] == [
        result,
        {"type": "text", "text": MOVED},
        {"type": "image", "source": png},
        {"type": "text", "text": "And?"},
    ]
    assert repairs == (
        "A17: sent 1 file of a result in a user message after it",
        "A6: merged 2 neighboring user messages",
        "A6: sent results and the user message after them as one message",
    )


OF_ASSISTANT = asked(("user", "Hi"), ("assistant", ("See", SHOT)), ("user", "And?"))
REFUSED: dict[str, tuple[str, dict[str, Any], ProviderRequest, str]] = {
    "O19 of the assistant": (
        *("openai", {}, OF_ASSISTANT),
        "O19: in Chat Completions, images, documents and audio must be in user messages (OpenAI);"
        " attach 'shots/a.png' to a message of the user",
    ),
    "O20 the address of a document": (
        *("azure", {}, asked(("user", (Media("document", url="https://example.org/b.pdf"),)))),
        "O20: in Chat Completions, a document or audio must not be an address (OpenAI);"
        " write the path of a file in place of 'https://example.org/b.pdf' (an address)",
    ),
    "A13 of the assistant": (
        *("anthropic", {}, OF_ASSISTANT),
        "A13: an assistant message must not have images or documents (Anthropic);"
        " attach 'shots/a.png' to a message of the user",
    ),
    "A14 audio": (
        *("anthropic", {}, asked(("user", ("Hear:", NOISE)))),
        "A14: a message must not have audio (Anthropic);"
        " write its words in place of 'e.wav' (audio/wav)",
    ),
    "A14 of many, with long addresses": (
        "anthropic",
        {},
        asked(("user", tuple(Media("audio", url=f"https://a/{n}{'x' * 300}") for n in range(9)))),
        "A14: a message must not have audio (Anthropic); write its words in place of "
        + ", ".join(f"'https://a/{n}{'x' * 189}…' (an address)" for n in range(3))
        + " and 6 more",
    ),
    "A15 a large image": (
        *("anthropic", {}, asked(("user", (Media.of(padded(PNG, 3_932_161), "large.png"),)))),
        "A15: an image must not exceed 5 MB (5,242,880 bytes) in base64 (Anthropic);"
        " 'large.png' has 5,242,884 bytes in base64",
    ),
    "A16 a large request": (
        "anthropic",
        {},
        asked(("user", tuple(Media.of(padded(PDF, 13_000_000 + n), "p") for n in range(2)))),
        "A16: a request must not exceed 32 MB (Anthropic);"
        " this one has 34,666,672 bytes of media in base64",
    ),
    "G12 a GIF": (
        *("gemini", {}, asked(("user", (MOVING,)))),
        "G12: an image must be PNG, JPEG or WebP (Gemini);"
        " attach a PNG in place of 'd.gif' (image/gif)",
    ),
    "G12 a GIF that is named as something else": (
        *("gemini", {}, asked(("user", (MOVING.replace(path="lies.png"),)))),
        "G12: an image must be PNG, JPEG or WebP (Gemini);"
        " attach a PNG in place of 'lies.png' (image/gif)",
    ),
    "G13 an address": (
        *("gemini", {"model": "gemini-2.0-flash"}, asked(("user", (FAR,)))),
        "G13: some models take no address of a file (Gemini); attach the file itself;"
        " say model_takes: {addresses: true} if gemini-2.0-flash takes one",
    ),
    "M1 in a system message": (
        "openai",
        {},
        replace(
            asked(), chat_prompt=(ChatMessage("system", ("S", SHOT)), ChatMessage("user", "U"))
        ),
        "M1: a system message must not have images, documents or audio;"
        " attach them to a message of the user",
    ),
    "M2 a model that sees nothing": (
        *("openai", {"model": "gpt-3.5-turbo-0125"}, asked(("user", (SHOT,)))),
        "M2: some models take no images, documents or audio; leave out 'shots/a.png',"
        " or use a model that takes images;"
        " say model_takes: {images: true} if gpt-3.5-turbo-0125 takes one",
    ),
    "M2 two kinds": (
        *("openai", {"model": "gpt-4"}, asked(("user", (SHOT, PAGE)))),
        "M2: some models take no images, documents or audio; leave out 'shots/a.png', or use a"
        " model that takes images; say model_takes: {images: true} if gpt-4 takes one; leave out"
        " 'in/b.pdf', or use a model that takes documents; say model_takes: {documents: true} if"
        " gpt-4 takes one",
    ),
    "C4 the target's word": (
        *("gemini", {"model_takes": {"audio": False}}, asked(("user", (SONG,)))),
        "C4: a target gets only what it is said to take; leave out 'f.mp3',"
        " or use a model that takes audio",
    ),
}


@pytest.mark.parametrize(
    ("vendor", "settings", "request_", "expected"), REFUSED.values(), ids=REFUSED
)
def test_is_refused(
    vendor: str, settings: dict[str, Any], request_: ProviderRequest, expected: str
) -> None:
    if vendor == "openai":
        settings = {"base_url": "https://api.openai.com/v1", **settings}
    assert refusal(vendor, request_, **settings) == expected


def test_an_image_of_exactly_5_mb_is_sent() -> None:
    body, _ = sent("anthropic", asked(("user", (Media.of(padded(PNG, 3_932_160)),))))
    assert len(body["messages"][0]["content"][0]["source"]["data"]) == 5_242_880


@pytest.mark.parametrize(
    ("vendor", "model", "takes"),
    [  # images, documents, audio; None is a doubt
        ("anthropic", "claude-opus-4-8", (True, True, None)),
        ("anthropic", "claude-3-haiku-20240307", (True, None, None)),
        ("anthropic", "claude-2.1", (False, None, None)),
        ("anthropic", "claude-zeta", (None, None, None)),
        ("gemini", "gemini-2.5-flash", (True, True, True)),
        ("gemini", "gemini-4-neon", (None, None, None)),
        ("openai", "gpt-4o-2024-08-06", (True, True, None)),
        ("openai", "ft:gpt-4o:acme::1", (True, True, None)),
        ("openai", "gpt-audio", (False, False, True)),  # without audio it answers nothing (O23)
        ("openai", "o3-mini", (False, False, None)),
        ("openai", "gpt-7", (None, None, None)),
        ("azure", "gpt-4o", (None, None, None)),
    ],
)
def test_which_models_see_is_known_or_doubted(
    vendor: str, model: str, takes: tuple[bool | None, ...]
) -> None:
    settings = {"base_url": "https://api.openai.com/v1"} if vendor == "openai" else {}
    provider = PROVIDERS[vendor](model=model, **settings)
    found: list[bool | None] = []
    for media in (SHOT, PAGE, NOISE)[: 2 if vendor == "anthropic" else 3]:
        doubts: list[Notice] = []
        try:
            with warnings_to(doubts.append):
                provider.wire(asked(("user", (media,))))
            found.append(None if doubts else True)
        except ProviderError:
            found.append(False)
    assert tuple(found) == takes[: len(found)]


def test_a_doubt_says_what_to_do() -> None:
    doubts: list[Notice] = []
    with warnings_to(doubts.append):
        PROVIDERS["openai"](model="llava").wire(asked(("user", (SHOT, PAGE))))
    assert [doubt.why for doubt in doubts] == [
        "not known whether llava takes an image; say model_takes: {images: true}, or use a model"
        " that does",
        "not known whether llava takes a document; say model_takes: {documents: true}, or use a"
        " model that does",
    ]


FILES = ("image", "document", "image_url", "file", "input_audio", "input_image", "input_file")


def output_of(item: Any) -> list[Any]:
    """Return the images and documents of a result of the Responses API."""
    output = item.get("output")
    return [each for each in output if "text" not in each] if isinstance(output, list) else []


def pieces(body: Any) -> Iterator[str]:
    """Yield the texts of messages, without white space, and what identifies each file."""
    for message in body.get("contents") or body.get("input") or body["messages"]:
        content = message.get("content", message.get("parts"))
        parts: Any = [{"text": content}] if isinstance(content, str) else content or ()
        for part in (*parts, *output_of(message)):
            is_result = "functionResponse" in part or part.get("type") == "tool_result"
            if is_result or message.get("role") == "tool":
                inside = part.get("functionResponse", part)
                inside = inside.get("parts", inside.get("content"))
                if isinstance(inside, list):
                    yield from (file_of(each) for each in inside if "text" not in each)
            elif "text" in part and message.get("role") != "system" and not part.get("thought"):
                yield part["text"]
            elif part.get("type") in FILES or part.keys() & {"inlineData", "fileData"}:
                yield file_of(part)


def file_of(part: Any) -> str:
    """Return the digest of the bytes in a part of a body, or its address."""
    if part.get("type") in ("input_image", "input_file"):
        source = {"data": part.get("image_url") or part["file_data"]}
    else:
        source = part.get("source", part.get("inlineData", part.get("fileData", {})))
    image_, file, audio = (part.get(key, {}) for key in ("image_url", "file", "input_audio"))
    if address := source.get("url") or source.get("fileUri"):
        return str(address)
    data = source.get("data") or image_.get("url") or file.get("file_data") or audio["data"]
    if data.startswith("https:"):
        return str(data)
    return sha256(base64.b64decode(data.rpartition(",")[2], validate=True)).hexdigest()


def expected_pieces(request: ProviderRequest, vendor: str) -> Iterator[str]:
    """Yield the same of a request; the files of results are after the message with their calls.

    For Anthropic, those of failed calls are after the others (A17).
    """
    results: dict[str, list[ChatMessage]] = {}
    messages = request.chat_prompt or ()
    owner = {
        call.id: message.tool_calls[0].id for message in messages for call in message.tool_calls
    }
    for message in messages:
        if message.tool_call_id is not None:
            results.setdefault(owner[message.tool_call_id], []).append(message)
    for answers in results.values():
        answers.sort(key=lambda answer: vendor == "anthropic" and answer.is_error)
    for message in messages:
        if message.role != "system" and message.tool_call_id is None:
            content = message.content
            for piece in (content,) if isinstance(content, str) else content:
                yield piece if isinstance(piece, str) else piece.digest or piece.url or ""
        for each in results.get(message.tool_calls[0].id, ()) if message.tool_calls else ():
            found = each.content if isinstance(each.content, tuple) else ()
            yield from (m.digest or m.url or "" for m in found if isinstance(m, Media))


def joined(found: Iterator[str]) -> list[str]:
    """Return texts between files as one, without white space."""
    whole: list[str] = [""]
    for piece in found:
        if re.fullmatch(r"[0-9a-f]{64}|https://example\.org/shots/.*", piece):
            whole += [piece, ""]
        elif not re.fullmatch("From the result of the call .*:", piece, re.DOTALL):
            whole[-1] += "".join(piece.split())
    return whole


@pytest.mark.parametrize("vendor", TAKEN)
def test_a_vendor_takes_the_body_of_any_history_with_media_and_all_is_there_in_order(
    vendor: str,
) -> None:
    for number in range(HISTORIES):
        request = media_history(number, vendor)
        body, _ = sent(vendor, request)
        JUDGES[vendor](body)
        expected = joined(expected_pieces(request, vendor))
        assert (number, joined(pieces(body))) == (number, expected)


def test_gemini_3_takes_any_history_with_media_in_its_results() -> None:
    for number in range(HISTORIES // 2):
        request = media_history(number, "gemini")
        settings = {"model": "gemini-3.1-pro-preview", "thought_signature": "skip"}
        body, _ = sent("gemini", request, **settings)
        judge_gemini(body, "gemini-3.1-pro-preview")
        files = [each.media for m in request.chat_prompt or () for each in turn_of(m).parts]
        sent_files = [each for each in pieces(body) if re.fullmatch("[0-9a-f]{64}", each)]
        assert sorted(sent_files) == sorted(m.digest for m in files if m and m.digest)


@pytest.mark.parametrize("vendor", TAKEN)
def test_what_stands_for_media_in_a_text_is_never_sent(vendor: str) -> None:
    for number in range(20):
        request = media_history(number, vendor)
        given = [each for message in request.chat_prompt or () for each in turn_of(message).parts]
        body = msgspec.json.encode(sent(vendor, request)[0]).decode()
        for part in given:
            if part.media is not None:
                assert part.text not in body or part.text == "[image: a.png]"


@pytest.mark.parametrize("vendor", TAKEN)
def test_real_files_arrive_as_they_are(vendor: str) -> None:
    with Server() as server:
        provider = PROVIDERS[vendor](server.url)
        for kind in TAKEN[vendor][:-1]:
            data = MAKERS[kind](7)

            async def main(data: bytes = data) -> None:
                async with provider:
                    await provider.invoke(asked(("user", ("Look.", Media.of(data)))))

            with warnings_to(lambda _: None):
                asyncio.run(main())
            body = server.requests[-1].body
            encoded = max(re.findall(rb"[A-Za-z0-9+/]{40,}={0,2}", body), key=len)
            assert base64.b64decode(encoded, validate=True) == data
            assert_decodes(kind, base64.b64decode(encoded))


def assert_decodes(kind: str, data: bytes) -> None:
    if kind == "wav":
        with wave.open(io.BytesIO(data)) as sound:
            assert (sound.getframerate(), sound.getnframes()) == (8_000, 800)
    elif kind in ("pdf", "mp3"):
        assert data.startswith((b"%PDF-", b"ID3"))
    else:
        with Image.open(io.BytesIO(data)) as picture:
            picture.load()
            assert picture.size == (8, 8)


def test_bytes_are_read_only_where_a_body_is_encoded() -> None:
    class Unread(Media, frozen=True):
        @property
        def data(self) -> bytes:
            raise AssertionError("somebody reads it")

    unread = Unread("image", "image/png", 10, "0" * 64, "a.png")
    request = asked(("user", ("Look.", unread)))
    for vendor in JUDGES:
        provider = PROVIDERS[vendor]()
        with warnings_to(lambda _: None):
            provider.preview(request)
            wire = provider.wire(request)
        assert f"SHA-256 {'0' * 64}".encode() in wire.shown
        assert wire.digest()
        provider.tokens(wire)
        with pytest.raises(AssertionError, match="somebody reads it"):
            _ = wire.body


def test_what_is_refused_is_not_read() -> None:
    large = Media("image", "image/png", 20_000_000, "0" * 64, "a.png")  # has no bytes at all
    assert refusal("anthropic", asked(("user", (large,)))).startswith("A15: ")

"""Images, documents and audio for agents, which are processes here: as files in their folder."""

import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import standins
from loading import cases
from media_files import data_uri, image, pdf, wav, write_bytes
from multiturn import ChatMessage, InputFile, Media, ProviderRequest, load_pipeline
from multiturn.errors import ProviderError
from standins import agent, ask, left

pytestmark = pytest.mark.parametrize("kind", list(standins.KINDS))

INTROS = {
    "codex": "The conversation has these files in brackets. Images are attached in this order; open"
    " the others:",
    "vscode": "Open these files, which the conversation has in brackets:",
}
CASE = """
input_messages:
- role: user
  content:
  - What is wrong here?
  - {type: image, value: "shots/check,out.png"}
  - {type: file, value: notes.md}
  - {type: file, value: invoice.pdf}
- {role: assistant, content: A typo.}
- role: user
  content:
  - {type: audio, value: question.wav}
  - {type: image, value: "DATA"}
"""
DRAWN = image("GIF", seed=7)
FILES = {
    "shots/check,out.png": image(),
    "notes.md": b"A note.",
    "invoice.pdf": pdf(),
    "question.wav": wav(),
}


@pytest.fixture
def request_(root: Path) -> ProviderRequest:
    """Return the request of a case with media of every kind."""
    write_bytes(root, FILES)
    (case,) = cases(CASE.replace("DATA", data_uri(DRAWN)))
    return load_pipeline("spec").request(case)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_an_agent_finds_each_file_by_what_the_transcript_says(
    kind: str, tmp_path: Path, request_: ProviderRequest
) -> None:
    record = json.loads(asked(agent(kind, tmp_path, standins.SEES), request_).text)
    question = (
        "[User]: What is wrong here?\n[image: shots/check,out.png]\n=== notes.md ===\nA note."
        f"\n[image: {sha256(DRAWN)[:12]}.gif]"
    )
    assert question.partition("\n=")[0] in record["prompt"]
    folder = next(iter(record["files"])).partition("/")[0]
    drawn = f"{sha256(DRAWN)[:12]}.gif"
    assert (
        f"\n\nThe files attached above, if you need them as files:\n- {folder}/files/2/notes.md"
        f"\n\n{INTROS[kind]}"
        f"\n- {folder}/files/1/check_out.png is [image: shots/check,out.png]"
        f"\n- {folder}/files/3/invoice.pdf is [document: invoice.pdf]"
        f"\n- {folder}/files/4/question.wav is [audio: question.wav]"
        f"\n- {folder}/files/5/{drawn} is [image: {drawn}]"
    ) in record["prompt"]
    assert {path.removeprefix(folder): digest for path, digest in record["files"].items()} == {
        "/files/1/check_out.png": sha256(image()),
        "/files/2/notes.md": sha256(b"A note."),
        "/files/3/invoice.pdf": sha256(pdf()),
        "/files/4/question.wav": sha256(wav()),
        f"/files/5/{drawn}": sha256(DRAWN),
    }
    assert left(tmp_path) == []


def test_codex_gets_images_as_options_and_vs_code_every_file(
    kind: str, tmp_path: Path, request_: ProviderRequest
) -> None:
    """Without an equals sign, Codex would take the dash after the option for another image."""
    record = json.loads(asked(agent(kind, tmp_path, standins.SEES), request_).text)
    args = [re.sub(r"[^=\s]*\.multiturn-\w+", "FOLDER", arg) for arg in record["args"]]
    drawn = f"FOLDER/files/5/{sha256(DRAWN)[:12]}.gif"
    if kind == "codex":
        images = ["--image=FOLDER/files/1/check_out.png", f"--image={drawn}"]
        assert args == ["exec", "--json", "--skip-git-repo-check", *images, "-"]
    else:
        assert [path for option, path in pairwise(args) if "--add" in option] == [
            "FOLDER/prompt.md",
            "FOLDER/files/1/check_out.png",
            "FOLDER/files/2/notes.md",
            "FOLDER/files/3/invoice.pdf",
            "FOLDER/files/4/question.wav",
            drawn,
        ]


def test_an_image_that_a_stage_has_added_is_a_file_too(kind: str, tmp_path: Path) -> None:
    media = Media.of(image(), "added.png")
    message = ChatMessage("user", ("Look", media, media))
    request = ProviderRequest(question="Look\n[image: added.png]", chat_prompt=(message,))
    record = json.loads(asked(agent(kind, tmp_path, standins.SEES), request).text)
    assert list(record["files"].values()) == [sha256(image())]
    assert " is [image: added.png]" in record["prompt"]


@pytest.mark.parametrize("name", ["../../escape.png", "/etc/passwd", "-rf", "a b\"'$(x).png"])
def test_the_name_of_an_image_in_a_suite_names_no_file(
    kind: str, tmp_path: Path, root: Path, name: str
) -> None:
    shown = {"type": "image", "value": data_uri(image()), "name": name}
    (case,) = cases(json.dumps({"input_messages": [{"role": "user", "content": shown}]}))
    request = load_pipeline("spec").request(case)
    record = json.loads(asked(agent(kind, tmp_path, standins.SEES), request).text)
    ((path, digest),) = record["files"].items()
    assert path.partition("/")[2] == f"files/1/{sha256(image())[:12]}.png"
    assert digest == sha256(image())
    assert f" is [image: {name}]" in record["prompt"]


@pytest.mark.parametrize("where", ["content", "file"])
def test_an_address_is_refused_as_an_agent_may_not_fetch_it(
    kind: str, root: Path, where: str
) -> None:
    shown = {"type": "image", "value": "https://pictures.example/a.png"}
    (case,) = cases(json.dumps({"input_messages": [{"role": "user", "content": ["Hi", shown]}]}))
    request = load_pipeline("spec").request(case)
    if where == "content":
        request = ProviderRequest(question="Hi", chat_prompt=request.chat_prompt)
    with pytest.raises(ProviderError) as caught:
        agent(kind, root, executable="agent").wire(request)
    assert caught.value.kind == "refused"
    assert caught.value.what == (
        "F7: images, documents and audio must be files (agents); https://pictures.example/a.png is"
        " an address; save it as a file, or write it as text"
    )


def test_another_image_under_the_same_name_is_another_request(kind: str, root: Path) -> None:
    def digest(data: bytes) -> str:
        shown = InputFile("a.png", "a.png", media=Media.of(data, "a.png"))
        request = ProviderRequest(question="[image: a.png]", input_files=(shown,))
        return agent(kind, root, executable="agent").wire(request).digest()

    assert digest(image(seed=1)) == digest(image(seed=1))
    assert digest(image(seed=1)) != digest(image(seed=2))


def asked(provider: Any, request: ProviderRequest) -> Any:
    """Return the answer of an agent."""
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return ask(provider, **fields)

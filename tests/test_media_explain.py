"""What ``explain`` and ``list`` say of images, documents and audio."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from commands import run
from loading import cases
from media_files import data_uri, image, pdf, wav, write_bytes
from multiturn import Conversion, Media, Part, Pipeline, Turn, explain, load_pipeline, stage
from multiturn.pipelines.contract import Stage
from running import write_stage

SUITE = """\
evalcases:
  - id: page
    input_messages:
      - role: user
        content:
          - What is wrong?
          - {type: image, value: shots/a.png}
          - "[image: shots/a.png]"
      - role: assistant
        content: [{type: file, value: b.pdf}, {type: image, value: "https://example.org/c.png"}]
      - {role: user, content: [{type: audio, value: d.wav}, {type: image, value: "%s"}]}
"""
OF_A = f"image/png, {len(image()):,} bytes, SHA-256 {sha256(image()).hexdigest()}"
SPEC = load_pipeline("spec")


@pytest.fixture
def project(root: Path) -> Path:
    """A suite with an image, a document, audio, an address, and an image of its own."""
    write_bytes(root, {"shots/a.png": image(), "b.pdf": pdf(), "d.wav": wav()})
    (root / "s.eval.yaml").write_text(SUITE % data_uri(image("GIF")))
    return root


def test_explain_says_what_an_image_is_where_no_text_can(project: Path) -> None:
    lines = run("explain", "s.eval.yaml", folder=project).stdout.splitlines()
    assert lines[:8] == [
        "s.eval.yaml · page",
        "user",
        "  s.eval.yaml:6",
        "  | What is wrong?",
        f"  shots/a.png, attached at s.eval.yaml:7: {OF_A}",
        "  | [image: shots/a.png]",
        "  s.eval.yaml:8",
        "  | [image: shots/a.png]",
    ]
    digests = {kind: sha256(data).hexdigest() for kind, data in (("pdf", pdf()), ("wav", wav()))}
    gif = sha256(image("GIF")).hexdigest()
    assert {
        f"  b.pdf, attached at s.eval.yaml:10: application/pdf, {len(pdf()):,} bytes,"
        f" SHA-256 {digests['pdf']}",
        "  s.eval.yaml:10: an address, which is not read",
        "  | [image: https://example.org/c.png]",
        f"  d.wav, attached at s.eval.yaml:11: audio/wav, 844 bytes, SHA-256 {digests['wav']}",
        f"  s.eval.yaml:11: image/gif, {len(image('GIF')):,} bytes, SHA-256 {gif}",
        f"  | [image: {gif[:12]}.gif]",
    } <= {*lines}


def test_explain_as_json_has_what_is_known_of_each(project: Path) -> None:
    done = run("explain", "s.eval.yaml", "--at", "7", "--format", "json", folder=project)
    (line,) = map(json.loads, done.stdout.splitlines())
    ((span,),) = (message["spans"] for message in line["chat_prompt"])
    assert span["path"] == "shots/a.png"
    assert (span["line"], span["column"]) == (7, 13)
    assert span["media"] == {
        "kind": "image",
        "media_type": "image/png",
        "size": len(image()),
        "digest": sha256(image()).hexdigest(),
        "path": "shots/a.png",
        "url": None,
        "detail": None,
    }
    done = run("explain", "s.eval.yaml", "--at", "10", "--format", "json", folder=project)
    spans = json.loads(done.stdout)["chat_prompt"][0]["spans"]
    of_address = next(span["media"] for span in spans if "example.org" in span["text"])
    assert (of_address["url"], of_address["size"]) == ("https://example.org/c.png", None)
    done = run("explain", "s.eval.yaml", "--at", "6", "--format", "json", folder=project)
    assert json.loads(done.stdout)["chat_prompt"][0]["spans"][0]["media"] is None


def test_list_names_each_by_what_it_is(project: Path) -> None:
    gif = sha256(image("GIF")).hexdigest()[:12]
    assert run("list", "s.eval.yaml", folder=project).stdout.splitlines()[1] == (
        "  page: 3 messages, image shots/a.png, document b.pdf, image https://example.org/c.png,"
        f" audio d.wav, image {gif}.gif"
    )
    done = run("list", "s.eval.yaml", "--format", "json", folder=project)
    line = json.loads(done.stdout)
    assert line["files"] == ["shots/a.png", "b.pdf", "d.wav"]
    assert [media["kind"] for media in line["media"]] == [
        *("image", "document", "image", "audio", "image"),
    ]


def test_list_cuts_a_long_address(project: Path) -> None:
    suite, address = project / "s.eval.yaml", f"https://example.org/{'a' * 100_000}.png"
    suite.write_text(suite.read_text().replace("https://example.org/c.png", address))
    done = run("list", "s.eval.yaml", folder=project)
    assert f"document b.pdf, image https://example.org/{'a' * 180}…, audio d.wav" in done.stdout


@stage()
def without_images(conversion: Conversion) -> Conversion:
    """Drop each image."""
    return conversion.replace(turns=tuple(map(_without_images, conversion.turns)))


def _without_images(turn: Turn) -> Turn:
    return replace(turn, parts=tuple(p for p in turn.parts if not _is_image(p)))


def _is_image(part: Part) -> bool:
    return part.media is not None and part.media.kind == "image"


@stage(requires={"chat"})
def chat_without_images(conversion: Conversion) -> Conversion:
    """Drop each image from the chat."""
    return conversion.edit_chat(_chat_without_images)


def _chat_without_images(chat: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(map(_without_images, chat))


@stage()
def with_a_sentence(conversion: Conversion) -> Conversion:
    """Put a sentence in place of each image."""
    return _replaced(conversion, lambda part: replace(part, kind="text", text="Gone.", media=None))


@stage()
def with_another_image(conversion: Conversion) -> Conversion:
    """Put another image in place of each."""
    blank = Media.of(image(seed=9), "blank.png")
    return _replaced(conversion, lambda part: replace(part, text=blank.text, media=blank))


def _replaced(conversion: Conversion, change: Callable[[Part], Part]) -> Conversion:
    turns = (
        replace(turn, parts=tuple(change(p) if _is_image(p) else p for p in turn.parts))
        for turn in conversion.turns
    )
    return conversion.replace(turns=tuple(turns))


@pytest.mark.parametrize(
    ("stage_", "after", "fate", "why"),
    [
        pytest.param(
            *(without_images, "resolve_segments", "lost"),
            "no rule explains it; the stage without_images took it away",
            id="dropped from its turn",
        ),
        pytest.param(
            *(chat_without_images, "render_question", "lost"),
            "no rule explains it; the stage chat_without_images took it away",
            id="dropped from the chat",
        ),
        pytest.param(
            *(with_a_sentence, "resolve_segments", "changed"),
            "by with_a_sentence",
            id="replaced by text",
        ),
        pytest.param(
            *(with_another_image, "resolve_segments", "changed"),
            "by with_another_image",
            id="replaced by another image",
        ),
    ],
)
def test_the_stage_that_dropped_or_replaced_an_image_is_named(
    project: Path, stage_: Stage, after: str, fate: str, why: str
) -> None:
    pipeline: Pipeline = SPEC.insert(stage_, after=after)
    (case,) = cases((project / "s.eval.yaml").read_text())
    fates = explain(pipeline(Conversion(case))).fates
    assert [(each.where.line, each.fate, each.why) for each in fates if each.fate != "shown"] == [
        (7, fate, why),
        (10, fate, why),
        (11, fate, why),
    ]
    assert {each.fate for each in explain(SPEC(Conversion(case))).fates} == {"shown"}


SPACED = """
from msgspec.structs import replace

def spaced(turns):
    parts = [tuple(replace(part, separator=", ") for part in turn.parts) for turn in turns]
    return tuple(replace(turn, parts=p) for turn, p in zip(turns, parts))
"""


def test_a_line_break_is_beside_media_whatever_a_stage_has_put_there(project: Path) -> None:
    write_stage(project, "conversion = conversion.edit_chat(spaced)", before=SPACED)
    suite = project / "s.eval.yaml"
    suite.write_text(suite.read_text().replace("What is wrong?", "What\n          - is wrong?"))
    words = ("s.eval.yaml", "--pipeline", "p.yaml")
    lines = ["What, is wrong?", "[image: shots/a.png]", "[image: shots/a.png]"]
    as_text = run("convert", *words, "--format", "text", folder=project).stdout
    assert as_text.splitlines()[2:5] == [f"  {line}" for line in lines]
    explained = json.loads(run("explain", *words, "--format", "json", folder=project).stdout)
    spans = explained["chat_prompt"][0]["spans"]
    assert "".join(span["text"] for span in spans) == "\n".join(lines)
    assert run("snapshot", *words, folder=project).returncode == 0
    (snapshot,) = (project / "snapshots").rglob("page.yaml")
    (_, content) = snapshot.read_text().split("    content:\n", 1)
    assert content.splitlines()[:5] == [
        '    - "What, is wrong?"',
        "    - image: shots/a.png",
        "      type: image/png",
        f"      size: {len(image())}",
        '    - "[image: shots/a.png]"',
    ]

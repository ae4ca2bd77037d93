"""Images in the page of a report, in a real browser, and how many pixels a header tells."""

import base64
import io
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from playwright.sync_api import Page

from browser import Reader
from comparing import report_of
from media_files import data_uri, image, padded, pdf, wav
from multiturn.files.media import HEAD, Media, type_of
from multiturn.files.pixels import SHOWN, pixels_of
from multiturn.report.html import to_html
from multiturn.report.images import Images, may_be_shown

SUITE = "evals/s.eval.yaml"
Files = Mapping[str, str | bytes]


def suite(*cases: str) -> str:
    """Return a suite; each case is the content of its only message."""
    return "evalcases:\n" + "".join(
        f"  - {{id: c{at}, input_messages: [{{role: user, content: [{content}]}}]}}\n"
        for at, content in enumerate(cases)
    )


def attach(*paths: str) -> str:
    return ", ".join(f"{{type: file, value: {path!r}}}" for path in paths)


def page_of(folder: Path, *states: Files) -> Path:
    """Write the page of files, or of what differs between two states of them."""
    (folder / "r").mkdir()
    page = folder / "r.html"
    page.write_bytes(to_html(report_of(folder / "r", *({".git/x": "", **s} for s in states))))
    return page


def images(page: Page) -> list[bytes]:
    """Return the bytes of each image that is shown, when all have been loaded."""
    found = page.evaluate("""async () => {
        const shown = [...document.querySelectorAll("#case img")];
        for (const image of shown) image.loading = "eager";
        await Promise.allSettled(shown.map((image) => image.decode()));
        return shown.map((image) => [image.src, image.naturalWidth]);
    }""")
    assert all(width for _, width in found)
    return [base64.b64decode(source.partition(";base64,")[2]) for source, _ in found]


def sentences(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("#case .media small").all_text_contents()]


@pytest.mark.parametrize(
    ("scheme", "address"), [("light", ""), ("dark", f"#suite={SUITE}&case=c0")]
)
def test_an_image_as_it_was_is_beside_it_as_it_is(
    reader: Reader, tmp_path: Path, scheme: Literal["light", "dark"], address: str
) -> None:
    then, now = image(side=40), image("JPEG", side=50)
    both: Files = {
        SUITE: suite(f"What is this?, {attach('a.png', 'b.webp')}"),
        "evals/b.webp": image("WEBP"),
    }
    states: list[Files] = [{**both, "evals/a.png": then}, {**both, "evals/a.png": now}]
    page = reader.open(page_of(tmp_path, *states), address, scheme=scheme)
    assert images(page)[:2] == [then, now]
    assert page.locator("#case del.media img").count() == 1
    assert page.locator("#case ins.media img").get_attribute("alt") == "[image: a.png]"
    words = f"evals/a.png: image changed: image/png, {len(then) / 1000:.0f} kB, to image/jpeg, "
    assert words in page.locator("#case").inner_text()
    page.evaluate(Axe().axe_script)
    rules = "axe.run({reporter: 'no-passes'}).then((found) => found.violations)"
    assert page.evaluate(rules) == []


def test_a_page_of_one_side_shows_images_and_names_documents_and_audio(
    reader: Reader, tmp_path: Path
) -> None:
    gif = data_uri(image("GIF"))
    shown = f"{attach('a.png', 'b.pdf', 'c.wav')}, {{type: image, value: '{gif}'}}"
    files: Files = {
        SUITE: suite(f"{shown}, {{type: image, value: 'https://example.org/d.png'}}"),
        "evals/a.png": image(),
        "evals/b.pdf": pdf(),
        "evals/c.wav": wav(),
    }
    page = reader.open(page_of(tmp_path, files))
    assert images(page) == [image(), image("GIF")]
    lines = page.locator("#case .media").all_inner_texts()
    assert lines[1].startswith(f"[document: b.pdf] application/pdf, {len(pdf()):,} bytes, SHA-256 ")
    assert lines[2].startswith("[audio: c.wav] audio/wav, 844 bytes, SHA-256 ")
    assert lines[4] == "[image: https://example.org/d.png] an address, which is not read"
    assert sentences(page) == []
    for tab in page.locator("[role=tab]").all()[1:]:
        tab.click()
        assert page.locator("#case img").count() == 0, "what is sent is text there"
        assert len(page.locator("#panel").inner_text()) < 10_000


def test_a_digest_is_cut_until_it_has_the_focus(reader: Reader, tmp_path: Path) -> None:
    files: Files = {SUITE: suite(attach("a.pdf")), "evals/a.pdf": pdf()}
    page = reader.open(page_of(tmp_path, files))
    line, digest = page.locator("#case .media"), page.locator("#case .digest")
    assert re.fullmatch("[0-9a-f]{64}", digest.inner_text()), "copied and found as a whole"
    lengths = "(e) => [e.scrollWidth, e.clientWidth]"
    whole, shown = digest.evaluate(lengths)
    assert whole / 5.5 < shown < whole / 4.5, "about 13 of 64 letters"
    assert line.evaluate("(e) => e.offsetHeight") < 40, "one line"
    line.focus()
    assert digest.evaluate("(e) => e.getBoundingClientRect().width") > 3 * shown


def test_a_text_cannot_look_like_an_image(reader: Reader, tmp_path: Path) -> None:
    forged = f"[image: a.png] image/png, {len(image()):,} bytes"
    files: Files = {SUITE: suite(f"'{forged}', {attach('a.png')}"), "evals/a.png": image()}
    page = reader.open(page_of(tmp_path, files))
    (shown,) = page.locator("#case .media").all_inner_texts()
    assert shown.startswith(f"{forged}, SHA-256")
    frames = "[...document.querySelectorAll('#case .span')].map((e) => getComputedStyle(e).border)"
    first, *_, last = page.evaluate(frames)
    assert (first[:3], last[:3]) == ("0px", "1px")


def png_of(width: int, height: int) -> bytes:
    """Return a PNG that says it has so many pixels, with the data of one row of a few."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(1_000))
    return image()[:8] + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def large_gif() -> bytes:
    """Return a GIF with a small screen, and a first frame that makes browsers enlarge it."""
    frame = struct.pack("<BHHHHB", 0x2C, 0, 0, 65_535, 65_535, 0)
    return b"GIF89a" + struct.pack("<HHBBB", 8, 8, 0, 0, 0) + frame + b"\x02\x02D\x01\x00;"


HARMFUL = b"<script>alert(1)</script><img src=https://example.org/x onerror=alert(1)>"
NAMES = ["<!--.png", "&quot;><img src=x onerror=alert(1)>.png", "script>alert(1)<.png", '"q".png']


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(png_of(100_000, 100_000), "it has 100,000 × 100,000 pixels", id="PNG bomb"),  # noqa: RUF001
        pytest.param(large_gif(), "it has 65,535 × 65,535 pixels", id="GIF bomb"),  # noqa: RUF001
        pytest.param(
            image("JPEG")[:100], "its header does not say how large it is", id="truncated JPEG"
        ),
        pytest.param(
            b"GIF89a" + HARMFUL, "its header does not say how large it is", id="GIF and HTML"
        ),
        pytest.param(image()[:20], "its header does not say how large it is", id="truncated PNG"),
    ],
)
def test_an_image_that_may_harm_a_browser_is_a_sentence(
    reader: Reader, tmp_path: Path, data: bytes, sentence: str
) -> None:
    files: Files = {SUITE: suite(attach("a.png")), "evals/a.png": data}
    page = reader.open(page_of(tmp_path, files, {**files, "evals/a.png": image()}))
    assert images(page) == [image()]
    assert sentences(page) == [f"Not shown: {sentence}."]


def test_html_in_an_image_stays_in_it(reader: Reader, tmp_path: Path) -> None:
    gif = image("GIF")
    colors = 13 + 3 * 2 ** ((gif[10] & 7) + 1)
    comment = b"!\xfe" + bytes([len(HARMFUL)]) + HARMFUL + b"\0"
    both = gif[:colors] + comment + gif[colors:]
    files: Files = {SUITE: suite(attach("a.html")), "evals/a.html": both}
    page = reader.open(page_of(tmp_path, files))
    assert images(page) == [both]
    assert b"alert(1)" not in (tmp_path / "r.html").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_image_is_text(reader: Reader, tmp_path: Path, name: str) -> None:
    path = f"a</{name}"
    files: Files = {SUITE: suite(attach(path)), f"evals/{path}": image()}
    page = reader.open(page_of(tmp_path, files))
    assert images(page) == [image()]
    assert page.locator("#case img").get_attribute("alt") == f"[image: {path}]"
    assert f"[image: {path}] image/png" in page.locator("#case .media").inner_text()
    assert page.locator("#case img").count() == 1
    assert page.locator("#case script").count() == 0


def test_a_page_has_at_most_5_mb_of_images_those_that_have_changed_first(
    reader: Reader, tmp_path: Path
) -> None:
    size = 1_600_000
    first, then, now = (padded(image(seed=seed), size) for seed in (1, 2, 3))
    other = padded(image(seed=4), size)
    hi = suite(f"Hi, {attach('a.png', 'b.png', 'c.png')}")
    files: dict[str, str | bytes] = {
        SUITE: hi,
        "evals/a.png": first,
        "evals/b.png": then,
        "evals/c.png": other,
    }
    changed: Files = {"evals/b.png": now, SUITE: hi.replace("Hi", "Ho")}
    file = page_of(tmp_path, files, {**files, **changed})
    assert len(file.read_bytes()) < 8_000_000
    page = reader.open(file, f"#suite={SUITE}&case=c0")
    assert images(page) == [first, first, then, now]  # on both sides, but only once in the page
    why = "Not shown: the images of a page have at most 5.0 MB."
    assert sentences(page) == [why, why]


def test_the_policy_of_the_page_allows_no_image_but_data(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, {SUITE: suite("Hi")}))
    refused = page.evaluate("""async () => {
        const refusal = new Promise((done) => {
            addEventListener("securitypolicyviolation", done);
            setTimeout(() => done({}), 5000);
        });
        document.body.append(Object.assign(new Image(), { src: "https://example.org/a.png" }));
        const { blockedURI, effectiveDirective } = await refusal;
        return [blockedURI, effectiveDirective];
    }""")
    assert refused == ["https://example.org/a.png", "img-src"]
    assert all("https://example.org/a.png" in error for error in reader.errors)
    reader.errors.clear()


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "GIF", "WEBP"])
@given(width=st.integers(1, 300), height=st.integers(1, 300), options=st.data())
def test_pixels_are_those_that_the_header_tells(
    format_: str, width: int, height: int, options: st.DataObject
) -> None:
    file = io.BytesIO()
    mode = options.draw(st.sampled_from(["L", "RGB", *(["RGBA"] if format_ != "JPEG" else [])]))
    given_: dict[str, object] = {"lossless": options.draw(st.booleans())}
    if format_ in ("JPEG", "WEBP"):
        given_["exif"] = options.draw(
            st.sampled_from([b"", b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"])
        )
    if format_ == "JPEG":
        given_["progressive"] = options.draw(st.booleans())
    Image.new(mode, (width, height)).save(file, format_, **given_)
    data = file.getvalue()
    assert pixels_of(data, type_of(data[:HEAD]) or "") == (width, height)


@given(st.sampled_from([image(kind) for kind in ("PNG", "JPEG", "GIF", "WEBP")]), st.data())
def test_no_bytes_are_an_error(data: bytes, cut: st.DataObject) -> None:
    at = cut.draw(st.integers(0, len(data)))
    for broken in (data[:at], data[:at] + cut.draw(st.binary(max_size=40)), bytes(30)):
        for media_type in SHOWN:
            found = pixels_of(broken, media_type)
            assert found is None or min(found) > 0


def test_an_image_at_a_limit_is_shown_and_one_beyond_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = image()
    width, height = pixels_of(data, "image/png") or (0, 0)
    media = Media("image", "image/png", len(data), digest="0a")
    for limit, most in (("MOST_BYTES", len(data)), ("MOST_PIXELS", width * height)):
        for allowed, is_shown in ((most, True), (most - 1, False)):
            monkeypatch.setattr(f"multiturn.report.images.{limit}", allowed)
            page = Images(lambda _: data)
            page.number(media)
            (record,) = page.records([], lambda _: 0)
            assert ("image" in record) == is_shown, (limit, allowed)
            assert may_be_shown(media) == (is_shown or limit == "MOST_PIXELS")
        monkeypatch.undo()

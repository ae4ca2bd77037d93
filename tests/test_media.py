"""Images, documents and audio: known by their first bytes, kept in a store, and never leaked."""

import base64
import gc
import hashlib
import io
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from commands import full_disk, start
from comparing import write
from limits import limited
from media_files import image, padded, pdf, wav
from multiturn import (
    Case,
    Conversion,
    Files,
    Media,
    MultiturnError,
    Part,
    TestMessage,
    Turn,
    load_pipeline,
    load_suite,
    stage,
)
from multiturn.engine.converting import convert_cases
from multiturn.engine.revision import SmallPickler
from multiturn.engine.selection import select
from multiturn.errors import AttachmentError, OutsideRootError
from multiturn.files.media import HEAD, MAX_MEDIA_SIZE, Store, type_of
from multiturn.report.sides import side_items
from multiturn_stages.guard_markers import guard_markers

GIF = b"GIF89a"
LIMITS = (1_048_576, MAX_MEDIA_SIZE)


MP3 = b"\xff\xfb\x90\x64" + bytes(413)  # one frame of MPEG 1, layer III, 128 kbit/s
TAGGED = b"ID3\x04\x00\x00\x00\x00\x00\x00" + MP3


# What a file is


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (image(), "image/png"),
        (image("JPEG"), "image/jpeg"),
        (image("GIF"), "image/gif"),
        (image("WEBP"), "image/webp"),
        (pdf(), "application/pdf"),
        (wav(), "audio/wav"),
        (MP3, "audio/mpeg"),
        (TAGGED, "audio/mpeg"),
        (image("BMP"), None),
        (image("TIFF"), None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        ("# Größe".encode(), None),
        (b"ID3 is a format", None),
        ("\ufeffa".encode("utf-16-le"), None),
        (b"", None),
        (b"\x89PNG", None),
    ],
)
def test_the_first_bytes_tell_the_type(data: bytes, media_type: str | None) -> None:
    assert type_of(data[:HEAD]) == media_type


@pytest.fixture
def attach(root: Path) -> Callable[..., Any]:
    """Attach a file of some bytes, and return what ``Files`` makes of it."""

    def attached(data: bytes, name: str = "a.bin", limits: tuple[int, int] = LIMITS) -> Any:
        (root / name).write_bytes(data)
        files = Files(root, root)
        return files.attached(files.find(name), name, *limits, keep=False)

    return attached


def test_the_name_of_a_file_tells_nothing(attach: Callable[..., Any]) -> None:
    data = image("GIF")
    media = attach(data, "a.png")
    assert (media.kind, media.media_type, media.size) == ("image", "image/gif", len(data))
    assert media.digest == hashlib.sha256(data).hexdigest()
    assert (media.path, media.data, media.text) == ("a.png", data, "[image: a.png]")
    assert media.data_uri == "data:image/gif;base64," + base64.b64encode(data).decode()
    assert attach(b"text in a.png", "b.png") == "text in a.png"


@pytest.mark.parametrize(
    ("data", "limits", "error"),
    [
        (GIF + bytes(15), (100, 20), "'a.bin' is larger than 20 bytes; raise max_media_bytes"),
        (b"x" * 21, (20, 100), "'a.bin' is larger than 20 bytes; raise max_file_bytes"),
        (b"x" * 11, (10, 100), "'a.bin' is larger than 10 bytes; raise max_file_bytes"),
        (
            b"BM\xff\x00",
            (10, 10),
            "is neither UTF-8 text (byte 2) nor PNG, JPEG, GIF, WebP, PDF, WAV or MP3",
        ),
    ],
)
def test_a_file_that_is_refused(
    attach: Callable[..., Any], data: bytes, limits: tuple[int, int], error: str
) -> None:
    with pytest.raises(AttachmentError, match=re.escape(error)):
        attach(data, "a.bin", limits)


def test_a_file_at_its_limit_is_taken(attach: Callable[..., Any]) -> None:
    assert attach(GIF + bytes(14), "a.bin", (5, 20)).size == 20
    assert attach(b"x" * 20, "a.bin", (20, 5)) == "x" * 20


def test_a_limit_holds_for_a_file_that_was_read_before(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF + bytes(94))
    files = Files(root, root)
    files.attached("a.gif", "a.gif", *LIMITS, keep=False)
    with pytest.raises(AttachmentError, match="larger than 99 bytes"):
        files.attached("a.gif", "a.gif", 5, 99, keep=False)


def test_media_is_read_inside_the_root_only(root: Path) -> None:
    (root.parent / "secret.png").write_bytes(image())
    (root / "link.png").symlink_to(root.parent / "secret.png")
    (root / ".env.png").write_bytes(image())
    os.mkfifo(root / "pipe.png")
    files = Files(root, root)
    for written in ("link.png", "../secret.png"):
        with pytest.raises(OutsideRootError):
            files.find(written)
    with pytest.raises(OutsideRootError, match="became a symbolic link"):
        files.attached("link.png", "link.png", *LIMITS, keep=False)
    with pytest.raises(MultiturnError, match="may hold keys"):
        files.find(".env.png")
    with pytest.raises(AttachmentError, match="not a regular file"):
        files.attached("pipe.png", "pipe.png", *LIMITS, keep=False)


def test_a_file_is_read_once_for_all_the_paths_that_name_it(root: Path) -> None:
    write(root, {"sub/a.gif": GIF.decode()})
    files = Files(root / "sub", root)
    found = []
    for name in ("a.gif", "./a.gif", "/sub/a.gif"):
        media = files.attached(files.find(name), name, *LIMITS, keep=False)
        assert isinstance(media, Media)
        found.append((media.path, media.data))
        (root / "sub" / "a.gif").write_bytes(b"GIF87a")  # it would be seen if it were read again
    assert found == [("a.gif", GIF), ("./a.gif", GIF), ("/sub/a.gif", GIF)]


# Where the bytes lie


def test_bytes_lie_on_disk() -> None:
    store = Store()
    blocks = [bytes([number]) * 1_000_000 for number in range(20)]
    with limited(seconds=20, megabytes=5):
        found = [Media.of(GIF + block, store=store) for block in blocks]
        assert all(media.data == GIF + block for media, block in zip(found, blocks, strict=True))


def test_a_store_of_one_needs_no_file() -> None:
    """Programs may make media of many files, each with a store of its own."""
    media = Media.of(GIF + bytes(5_000_000))
    assert media.__dict__["bytes"] == {media.digest: media.data}
    assert media.size == len(media.data) == 5_000_000 + len(GIF)


FORKS = """
import os
from multiturn.files.media import Store

store = Store()
known = {store.add(each): each for each in (bytes([at]) * 1_000_000 for at in range(40))}
waiting, told = os.pipe()
children = []
for number in range(3):
    children.append(os.fork())
    if not children[-1]:
        os.read(waiting, 1)
        break
own = b"%d" % os.getpid() * 100_000
known[store.add(own)] = own
if children[-1]:
    os.write(told, b"123")
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
assert all(store[digest] == data for digest, data in known.items())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_processes_that_share_a_store_read_and_write_their_own_bytes() -> None:
    """Processes that fork share an open file, and the position in it."""
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=60)


FORKS_MEANWHILE = """
import os, signal, threading, time
from multiturn.files.media import Store

for at in range(30):
    store, known = Store(), {}

    def fill():
        for data in (bytes([number]) * 300_000 for number in range(30)):
            known[store.add(data)] = data

    thread = threading.Thread(target=fill)
    thread.start()
    time.sleep(at / 3000)
    seen = dict(known)
    child = os.fork()
    if not child:
        signal.alarm(2)
        os._exit(not all(store[digest] == data for digest, data in seen.items()))
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_process_may_fork_while_another_thread_fills_a_store() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS_MEANWHILE], check=True, timeout=60)


def test_a_full_disk_is_an_error_that_leaves_no_image_out(tmp_path: Path) -> None:
    case = (
        "{{id: {0}, input_messages: [{{role: user, content: [{{type: file, value: {0}.gif}}]}}]}}"
    )
    suite = f"evalcases: [{case.format('a')}, {case.format('b')}]"
    write(tmp_path, {"s.yaml": suite})
    for name in ("a", "b"):  # together, they are too many for memory
        (tmp_path / f"{name}.gif").write_bytes(GIF + name.encode() * 17_000_000)
    options = ("--pipeline", "p.yaml", "--format", "openai")
    write(
        tmp_path, {"p.yaml": "extends: spec\nconfigure: {resolve_segments: {missing_file: warn}}"}
    )
    full = full_disk(20_000_000)
    process = start("convert", "s.yaml", *options, folder=tmp_path, preexec_fn=full)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, len(out.splitlines())) == (1, 1)
    assert "s.yaml:1: case 'b': input_messages[0].content[0]: cannot keep media in a" in errors


def test_equal_bytes_lie_in_a_store_once() -> None:
    store = Store()
    first = store.add(GIF * 100)
    assert [store.add(GIF * 100), store.add(GIF)] == [first, hashlib.sha256(GIF).hexdigest()]
    assert (store[first], len(store._places)) == (GIF * 100, 2)


def test_a_store_is_read_and_written_by_many_threads() -> None:
    store, wrong = Store(), []

    def work(number: int) -> None:
        for at in range(200):
            data = b"%d-%d" % (number, at) * (at + 1)
            if store[store.add(data)] != data:
                wrong.append((number, at))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_bytes_stay_as_long_as_something_needs_them(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF)
    suite = f"evalcases: [{{id: a, input_messages: [{{role: user, content: [{_FILE}]}}]}}]"
    (root / "s.eval.yaml").write_text(suite, encoding="utf-8")
    (request,) = map(load_pipeline("spec").request, load_suite(root / "s.eval.yaml"))
    (root / "a.gif").unlink()
    gc.collect()
    assert request.chat_prompt is not None
    media = request.chat_prompt[0].content[0]
    assert isinstance(media, Media)
    assert media.data == request.input_files[0].media.data == GIF  # type: ignore[union-attr]


_FILE = "{type: file, value: a.gif}"


def test_a_path_in_place_of_bytes_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"takes bytes; write Media\.of\("):
        Media.of("a.gif")  # type: ignore[arg-type]


def test_a_copy_with_other_attributes_has_the_same_bytes() -> None:
    changed = Media.of(GIF, "a.gif").replace(path="b.gif")
    assert (changed.path, changed.data) == ("b.gif", GIF)


def test_a_copy_of_pythons_has_the_same_bytes() -> None:
    media = Media.of(GIF, "a.gif")
    assert [each(media).data for each in (copy, deepcopy)] == [GIF, GIF]


@pytest.mark.parametrize(
    "copied", [deepcopy, pytest.param(lambda each: pickle.loads(pickle.dumps(each)), id="pickled")]
)
def test_a_copy_of_a_case_that_was_converted_attaches_the_same_again(
    copied: Callable[[Case], Case], root: Path
) -> None:
    (root / "a.gif").write_bytes(GIF)
    message = TestMessage("user", [{"type": "image", "value": "a.gif"}])
    case = Case(id="a", input_messages=(message,), files=Files(root, root))
    load_pipeline("spec").request(case)
    request = load_pipeline("spec").request(copied(case))
    (prompt,) = request.chat_prompt or ()
    assert [each.data for each in prompt.content if isinstance(each, Media)] == [GIF]


def test_bytes_are_in_no_repr_log_or_json(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    canary = b"CANARY" * 20
    (root / "a.gif").write_bytes(GIF + canary)
    message = TestMessage("user", ["Look:", {"type": "file", "value": "a.gif"}])
    with caplog.at_level(logging.DEBUG):
        conversion = load_pipeline("spec")(
            Conversion(Case(id="a", input_messages=(message,), files=Files(root, root)))
        )
        request = load_pipeline("spec").request(conversion.case)
    media = request.chat_prompt[0].content[1]  # type: ignore[index]
    told = [repr(each) for each in (media, request, conversion, conversion.case.files)]
    told += [small(each).decode("latin-1") for each in (media, request, conversion)]
    told += [msgspec.json.encode(request).decode(), caplog.text]
    encoded = base64.b64encode(canary).decode()[:20]
    assert not any(leak in text for text in told for leak in ("CANARY", encoded))


# Pickles


def small(value: Any) -> bytes:
    """Return what our own processes hand each other."""
    file = io.BytesIO()
    SmallPickler(file).dump(value)
    return file.getvalue()


READ = """
import pickle, sys
from multiturn import Media, load_pipeline
given = pickle.load(open(sys.argv[1], "rb"))
request = given["request"], load_pipeline("spec").request(given["case"])
parts = [part.media for turn in given["conversion"].chat for part in turn.parts if part.media]
found = [each for one in request for each in one.chat_prompt[0].content if isinstance(each, Media)]
print([(each.size, len(each.data)) for each in (*found, *parts)])
"""


def test_another_process_gets_the_bytes_in_a_pickle(root: Path) -> None:
    """The bytes are in it once, and the file is not read again."""
    size = 300_000
    (root / "a.gif").write_bytes(padded(GIF, size))
    message = TestMessage("user", [{"type": "image", "value": "a.gif"}])
    conversion = load_pipeline("spec")(
        Conversion(Case(id="a", input_messages=(message,), files=Files(root, root)))
    )
    request = load_pipeline("spec").request(conversion.case)
    given = {"request": request, "case": conversion.case, "conversion": conversion}
    for each in given.values():
        assert size < len(pickle.dumps(each)) < size + 10_000
        assert len(small(each)) < 10_000
    (root / "given.pickle").write_bytes(pickle.dumps(given))
    (root / "a.gif").unlink()
    command = [sys.executable, "-c", READ, str(root / "given.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{[(size, size)] * 3}\n"


def test_a_pickled_case_has_no_media_of_other_cases(root: Path) -> None:
    files, sizes = Files(root, root), (100_000, 200_000)
    for size in sizes:
        (root / f"{size}.gif").write_bytes(padded(GIF, size))
    messages = [TestMessage("user", {"type": "image", "value": f"{size}.gif"}) for size in sizes]
    cases = [Case(id="a", input_messages=(each,), files=files) for each in messages]
    conversions = [load_pipeline("spec")(Conversion(case)) for case in cases]
    for size, case, conversion in zip(sizes, cases, conversions, strict=True):
        assert size < len(pickle.dumps(case)) < size + 10_000
        assert size < len(pickle.dumps(conversion)) < size + 10_000
        assert pickle.loads(pickle.dumps(case)).input_messages == case.input_messages


def test_a_side_of_a_report_has_no_bytes_in_its_cases(root: Path) -> None:
    (root / "a.gif").write_bytes(padded(GIF, 300_000))
    message = "[{role: user, content: [{type: image, value: a.gif}]}]"
    write(root, {"a.eval.yaml": f"evalcases: [{{id: a, input_messages: {message}}}]\n"})
    selection, pipeline = select([str(root / "a.eval.yaml")], root=str(root)), load_pipeline("spec")
    found = convert_cases(selection, pipeline)
    _, item = side_items(found, selection, pipeline, lambda _: None)
    assert isinstance(item, tuple)
    assert len(item[1]) < 10_000


def test_without_its_bytes_a_pickled_image_is_still_the_same(root: Path) -> None:
    media = Media.of(GIF, "a.gif")
    elsewhere = pickle.loads(small(media))
    assert (elsewhere, elsewhere.has_bytes) == (media, False)
    assert pickle.loads(pickle.dumps(media)) == media
    with pytest.raises(AttachmentError, match=re.escape("it was copied other than by Media")):
        _ = elsewhere.data


# What a suite may hold or name


def converted(root: Path, *content: Any, role: Any = "user", **options: Any) -> Conversion:
    case = Case(id="a", input_messages=(TestMessage(role, [*content]),), files=Files(root, root))
    return load_pipeline("spec").configure("resolve_segments", **options)(Conversion(case))


def uri(data: bytes, media_type: str = "image/gif") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("segment", "error"),
    [
        ({"type": "image", "value": "a.pdf"}, "'a.pdf' is a document, by its first bytes"),
        ({"type": "document", "value": "a.gif"}, "write type: image, or type: file"),
        ({"type": "image", "value": "a.svg"}, "'a.svg' is text; write type: file"),
        ({"type": "audio", "value": uri(GIF)}, "the audio is an image, by its first bytes"),
        ({"type": "image", "value": "data:image/png,x"}, "not in base64"),
        ({"type": "image", "value": "data:image/png;base64,QUJ"}, "not in base64: "),
        ({"type": "image", "value": "data:image/png;base64,iVBOR…"}, "not in base64: string arg"),
        ({"type": "image", "value": uri(b"<svg/>")}, "the image is not PNG, JPEG, GIF"),
        ({"type": "image", "value": "http://example.org/a.png"}, "write an https: address"),
        ({"type": "image", "value": "file:///etc/passwd"}, "write an https: address"),
        ({"type": "image", "value": "https://a b"}, "write an https: address"),
        ({"type": "image", "value": "https:///a.png"}, "write an https: address"),
        ({"type": "file", "value": "https://example.org/a.png"}, "write type: image, document"),
        ({"type": "image"}, "a segment of type image needs a value that is text; write one"),
        ({"type": "image", "value": 5}, "a segment of type image needs a value that is text"),
        ({"type": "image", "value": uri(GIF), "name": "x" * 256}, "x…' has a control"),
        ({"type": "image", "value": "none.png"}, "no file 'none.png'"),
    ],
)
def test_media_that_is_refused(root: Path, segment: dict[str, Any], error: str) -> None:
    (root / "a.gif").write_bytes(GIF)
    (root / "a.pdf").write_bytes(b"%PDF-1.7")
    (root / "a.svg").write_text("<svg/>", encoding="utf-8")
    with pytest.raises(MultiturnError, match=re.escape(error)) as caught:
        converted(root, segment)
    assert "input_messages[0].content[0]" in str(caught.value)


def test_a_name_has_at_most_255_characters(root: Path) -> None:
    name = "x" * 251 + ".gif"
    (turn,) = converted(root, {"type": "image", "value": uri(GIF), "name": name}).chat or ()
    assert turn.content == f"[image: {name}]"


def test_an_address_is_handed_on_and_never_fetched(root: Path) -> None:
    address = "https://example.invalid/a.png?x=1"
    (turn,) = converted(root, {"type": "image", "value": address}).chat or ()
    (part,) = turn.parts
    assert part.media == Media("image", url=address)
    with pytest.raises(AttachmentError, match="it is only an address"):
        _ = part.media.data


@pytest.mark.parametrize("segment", ["a.gif", uri(GIF + bytes(100))])
def test_the_limit_of_one_is_an_option_for_files_and_bytes_in_a_suite(
    root: Path, segment: str
) -> None:
    (root / "a.gif").write_bytes(GIF + bytes(100))
    shown = {"type": "image", "value": segment}
    with pytest.raises(MultiturnError, match="is larger than 105 bytes; raise max_media_bytes of"):
        converted(root, shown, max_media_bytes=105)
    assert converted(root, shown, max_media_bytes=106).question


def test_the_limit_of_one_can_be_raised(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF + bytes(20_000_000))
    shown = {"type": "image", "value": "a.gif"}
    with pytest.raises(MultiturnError, match="is larger than 20,000,000 bytes; raise max_media"):
        converted(root, shown)
    assert converted(root, shown, max_media_bytes=20_000_006).question == "[image: a.gif]"


def test_the_media_of_a_case_have_a_limit(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF + bytes(17_000_000))
    segment = {"type": "file", "value": "a.gif"}
    assert converted(root, segment, segment)
    with pytest.raises(MultiturnError, match=r"larger than 50,000,000 bytes with its images"):
        converted(root, segment, segment, segment)


def test_a_system_message_has_no_media(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF)
    with pytest.raises(MultiturnError, match="an image cannot be in a system message"):
        converted(root, {"type": "image", "value": "a.gif"}, role="system")


def test_missing_media_are_left_out_on_request(root: Path) -> None:
    found = converted(root, "Hi", {"type": "image", "value": "no.png"}, missing_file="warn")
    assert [(turn.role, turn.content) for turn in found.turns] == [("user", "Hi")]
    assert [notice.event for notice in found.notices] == ["segment.left_out"]


# In the pipeline


def test_a_guideline_cannot_be_an_image(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF)
    message = TestMessage("user", ["Hi", {"type": "file", "value": "a.gif"}], 3, (4, 5))
    case = Case(
        id="a",
        input_messages=(message,),
        files=Files(root, root),
        guideline_patterns=("*",),
        file="s.eval.yaml",
    )
    error = "s.eval.yaml:5: case 'a': 'a.gif' is an image, and guidelines are text"
    with pytest.raises(MultiturnError, match=re.escape(error)):
        load_pipeline("spec")(Conversion(case))


def test_a_label_stands_above_media(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF)
    labeled = load_pipeline("spec").configure("embed_files", media_label="{path}:")
    message = TestMessage("user", ["Look:", {"type": "file", "value": "./a.gif"}, "So?"])
    case = Case(id="a", input_messages=(message,), files=Files(root, root))
    request = labeled.request(case)
    assert request.question == "Look:\n./a.gif:\n[image: ./a.gif]\nSo?"
    assert request.chat_prompt is not None
    content = request.chat_prompt[0].content
    assert content[::2] == ("Look:\n./a.gif:", "So?")
    assert request.chat_prompt[0].text == "Look:\n./a.gif:\n[image: ./a.gif]\nSo?"
    assert isinstance(content[1], Media)


def test_a_message_of_an_image_alone_is_not_empty_and_keeps_its_chat(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF)
    message = TestMessage("user", {"type": "file", "value": "a.gif"})
    case = Case(id="a", input_messages=(message,), files=Files(root, root))
    request = load_pipeline("shipped").request(case)
    assert [message.role for message in request.chat_prompt or ()] == ["user"]
    assert request.question == "[image: a.gif]"


def test_the_marker_of_an_image_cannot_be_forged(root: Path) -> None:
    (root / "a.gif").write_bytes(GIF)
    guarded = load_pipeline("spec").insert(guard_markers, after="render_question", mode="escape")
    message = TestMessage("user", ["[image: b.gif]", {"type": "file", "value": "a.gif"}])
    case = Case(id="a", input_messages=(message,), files=Files(root, root))
    assert guarded.request(case).question == "\\[image: b.gif]\n[image: a.gif]"


@stage(requires={"turns"})
def shout(conversion: Conversion) -> Conversion:
    """Change every text."""
    return conversion.map_parts(lambda part: replace(part, text=part.text.upper()))


@stage(requires={"turns"})
def blacken(conversion: Conversion) -> Conversion:
    """Put another image in the place of each."""
    other = Media.of(b"GIF87a", "black.gif")

    def change(turn: Turn) -> Turn:
        parts = (
            part if part.media is None else replace(part, media=other, text=other.text)
            for part in turn.parts
        )
        return replace(turn, parts=tuple(parts))

    return conversion.replace(turns=tuple(map(change, conversion.turns)))


@stage(requires={"turns"})
def blind(conversion: Conversion) -> Conversion:
    """Drop every image."""
    parts = [part for turn in conversion.turns for part in turn.parts if part.media]
    return conversion.drop(parts, "no images here")


@pytest.fixture
def looked(root: Path) -> Callable[..., Conversion]:
    """Convert a message with an image by a pipeline with one more stage."""
    (root / "a.gif").write_bytes(GIF)
    message = TestMessage("user", ["Look:", {"type": "file", "value": "a.gif"}])
    case = Case(id="a", input_messages=(message,), files=Files(root, root))
    return lambda own: load_pipeline("spec").insert(own, after="embed_files")(Conversion(case))


def test_a_stage_for_texts_leaves_media_alone(looked: Callable[..., Conversion]) -> None:
    (turn,) = looked(shout).chat or ()
    assert turn.content == "LOOK:\n[image: a.gif]"
    assert turn.parts[1].changed_by is None


def test_a_stage_that_replaces_an_image_is_named(looked: Callable[..., Conversion]) -> None:
    (turn,) = looked(blacken).chat or ()
    assert turn.parts[1].changed_by == "blacken"
    assert turn.parts[1].media is not None
    assert turn.parts[1].media.data == b"GIF87a"


def test_a_stage_that_drops_an_image_is_named(looked: Callable[..., Conversion]) -> None:
    conversion = looked(blind)
    assert conversion.question == "Look:"
    assert [notice.why for notice in conversion.notices] == ["no images here (the stage blind)"]


@pytest.mark.parametrize(
    "part",
    [
        Part("media", "x"),
        Part("text", "x", media=Media("image", url="https://a")),
        Part("media", "x", media="a.png"),  # type: ignore[arg-type]
    ],
)
def test_a_stage_that_makes_an_odd_part_is_refused(
    looked: Callable[..., Conversion], part: Part
) -> None:
    @stage(requires={"turns"})
    def odd(conversion: Conversion) -> Conversion:
        return conversion.replace(turns=(Turn("user", (part,)),))

    with pytest.raises(MultiturnError, match="the stage odd returned a Part"):
        looked(odd)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda part: replace(part, media=part.media.replace(path="b.gif")), "text=media.text, to"),
        (lambda part: replace(part, media=replace(part.media, detail="low")), "without its bytes"),
    ],
)
def test_a_stage_that_shows_or_sends_another_image_is_refused(
    looked: Callable[..., Conversion], change: Callable[[Part], Part], error: str
) -> None:
    @stage(requires={"turns"})
    def odd(conversion: Conversion) -> Conversion:
        (turn,) = conversion.turns
        parts = tuple(part if part.media is None else change(part) for part in turn.parts)
        return conversion.replace(turns=(replace(turn, parts=parts),))

    with pytest.raises(MultiturnError, match=f"the stage odd returned .*{error}"):
        looked(odd)


def test_a_stage_cannot_put_media_into_the_system_message(
    looked: Callable[..., Conversion],
) -> None:
    @stage(requires={"turns"})
    def lead(conversion: Conversion) -> Conversion:
        (turn,) = conversion.turns
        return conversion.replace(turns=(Turn("system", turn.parts, 0), turn))

    with pytest.raises(MultiturnError, match="a system message with media, which is only text"):
        looked(lead)

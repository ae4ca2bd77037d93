"""Images, documents and audio: what their first bytes say of them, and where their bytes are."""

import binascii
import os
import re
from threading import RLock
from typing import IO, Any, Literal, get_args

from msgspec import Struct, structs

from multiturn.errors import AccessError, AttachmentError, MultiturnError, quoted
from multiturn.text import CONTROL, has_host

_LOCK = RLock()  # of all stores
if hasattr(os, "register_at_fork"):  # a process forked while a thread holds it would wait for ever
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )


class Store:
    """The bytes of the media that a run reads, each once, in a temporary file."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}  # where each begins, and ends, by digest
        self._file: IO[bytes] | None = None
        self._process = 0  # whose file it is

    def add(self, data: bytes) -> str:
        """Keep some bytes, and return their digest; a full disk is a MultiturnError."""
        digest = _digest(data)
        with _LOCK:
            if digest not in self._places:
                try:
                    self._places[digest] = _append(self._own_file(), data)
                except OSError as error:
                    raise no_room(error) from None
        return digest

    def __getitem__(self, digest: str) -> bytes:
        with _LOCK:
            start, end = self._places[digest]
            assert self._file is not None  # noqa: S101 - there is no place without a file
            if hasattr(os, "pread"):
                # A forked process shares the position of the file, which this leaves alone.
                return os.pread(self._file.fileno(), end - start, start)
            self._file.seek(start)
            return self._file.read(end - start)

    def _own_file(self) -> IO[bytes]:
        """Return the file, or, after a fork, a copy of it that is of this process."""
        import weakref
        from tempfile import TemporaryFile

        if self._file is None or self._process != os.getpid():
            file = TemporaryFile()  # noqa: SIM115 - closed below
            weakref.finalize(self, file.close)
            self._places = {digest: _append(file, self[digest]) for digest in self._places}
            self._file, self._process = file, os.getpid()
        return self._file


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def no_room(error: OSError) -> MultiturnError:
    """Return the error for media that cannot be written where temporary files are."""
    return AccessError(
        f"cannot keep media in a temporary file: {error.strerror}; make room there, or set TMPDIR"
    )


def _append(file: IO[bytes], data: bytes) -> tuple[int, int]:
    """Write bytes at the end of a file; return where they begin and end."""
    start = file.seek(0, os.SEEK_END)
    file.write(data)
    file.flush()
    return start, start + len(data)


Detail = Literal["auto", "low", "high", "original"]  # how closely a model looks at an image
MediaKind = Literal["image", "document", "audio"]
MEDIA_KINDS: tuple[MediaKind, ...] = get_args(MediaKind)
FILE_TYPES: tuple[str, ...] = ("file", *MEDIA_KINDS)  # of segments that are no text
MARKERS = tuple(f"[{kind}:" for kind in MEDIA_KINDS)  # of what stands for them in a text
HEAD = 16  # bytes of a file that tell its type
MAX_MEDIA_SIZE = 20_000_000  # bytes of one file
MAX_MEDIA_OF_CASE = 50_000_000
_LONGEST_NAME = 255  # characters, as file systems have it
TYPES = "PNG, JPEG, GIF, WebP, PDF, WAV or MP3"

_MPEG = tuple(bytes([0xFF, second]) for second in b"\xe2\xe3\xf2\xf3\xfa\xfb")
# How each type begins, what stands from the ninth byte on, and the extension of its files.
_SIGNATURES: tuple[tuple[tuple[bytes, ...], bytes, str, str], ...] = (
    ((b"\x89PNG\r\n\x1a\n",), b"", "image/png", "png"),
    ((b"\xff\xd8\xff",), b"", "image/jpeg", "jpg"),
    ((b"GIF87a", b"GIF89a"), b"", "image/gif", "gif"),
    ((b"RIFF",), b"WEBP", "image/webp", "webp"),
    ((b"%PDF-",), b"", "application/pdf", "pdf"),
    ((b"RIFF",), b"WAVE", "audio/wav", "wav"),
    ((b"ID3\x02\x00", b"ID3\x03\x00", b"ID3\x04\x00", *_MPEG), b"", "audio/mpeg", "mp3"),
)
EXTENSIONS = {media_type: extension for _, _, media_type, extension in _SIGNATURES}
# Patterns are compiled when a suite has media: most have none.
_DATA = r"(?ai)data:([\w.+/-]*)((?:;[\w.+-]+=[\w.+-]+)*)(;base64)?,"
_WITH_USER = r"(?a)\w+://[^/?#]*@"
_URL = r"(?ai)https://[\w\[][!-~]*"
_SPACE = r"[ \t\r\n]+"


def type_of(head: bytes) -> str | None:
    """Return the type of media that a file's first bytes tell; None if it is no media.

    >>> type_of(b"%PDF-1.7"), type_of(b"<svg>")
    ('application/pdf', None)
    """
    for starts, inner, media_type, _ in _SIGNATURES:
        if head.startswith(starts) and head[8:].startswith(inner):
            return media_type
    return None


def kind_of_type(media_type: str) -> MediaKind:
    """Return whether a type is that of an image, a document or audio.

    >>> kind_of_type("application/pdf")
    'document'
    """
    kind = media_type.partition("/")[0]
    return "image" if kind == "image" else "audio" if kind == "audio" else "document"


class Media(Struct, frozen=True, dict=True, omit_defaults=True, repr_omit_defaults=True):
    """An image, a document or audio in a message.

    Its bytes are not in it: they lie in a store, in the process that has read them, and are in no
    record or log. A pickle carries them. ``Media.of`` makes one of bytes.

    Attributes:
        kind: what it is.
        media_type: such as ``image/png``; empty for an address.
        size: in bytes.
        digest: the SHA-256 of the bytes, in hexadecimal.
        path: of its file, as the suite wrote it; of bytes in a suite, the name they were given.
        url: an ``https:`` address that is handed on to the vendor, who fetches it.
        detail: how closely a model of OpenAI's looks at an image; None for the vendor's own.
    """

    kind: MediaKind
    media_type: str = ""
    size: int = 0
    digest: str = ""
    path: str | None = None
    url: str | None = None
    detail: str | None = None

    @classmethod
    def of(
        cls,
        data: bytes,
        path: str | None = None,
        *,
        detail: str | None = None,
        store: Store | None = None,
        max_bytes: int = MAX_MEDIA_SIZE,
    ) -> "Media":
        """Return the media that some bytes are.

        Raises:
            AttachmentError: they are no media, or more than ``max_bytes``.
            TypeError: a path in place of the bytes.
        """
        if not isinstance(data, bytes):
            raise TypeError("Media.of takes bytes; write Media.of(Path(path).read_bytes(), path)")
        media_type, shown = type_of(data[:HEAD]), quoted(path) if path else "it"
        if media_type is None:
            raise AttachmentError(f"{shown} is not {TYPES}")
        if len(data) > max_bytes:
            raise too_large(shown, max_bytes, "max_media_bytes")
        kind, digest = kind_of_type(media_type), _digest(data) if store is None else store.add(data)
        media = cls(kind, media_type, len(data), digest, path, None, detail)
        # No field, so that it is compared and written nowhere.
        media.__dict__["bytes"] = {digest: data} if store is None else store
        return media

    def replace(self, **changes: Any) -> "Media":
        """Return a copy with other attributes, and the same bytes."""
        changed = structs.replace(self, **changes)
        changed.__dict__.update(self.__dict__)
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        return Media, structs.astuple(self), self.data if self.has_bytes else None

    def __setstate__(self, data: bytes) -> None:
        self.__dict__["bytes"] = {self.digest: data}

    __copy__ = replace

    def __deepcopy__(self, memo: Any) -> "Media":
        return self.replace()

    @property
    def has_bytes(self) -> bool:
        """Whether its bytes can be read: not those of an address."""
        return "bytes" in self.__dict__

    @property
    def data(self) -> bytes:
        """The bytes.

        Raises:
            AttachmentError: it is an address, or was copied other than by ``replace``.
        """
        if not self.has_bytes:
            why = "is only an address" if self.url else "was copied other than by Media.replace"
            raise AttachmentError(f"there are no bytes of {self.text}: it {why}")
        data: bytes = self.__dict__["bytes"][self.digest]
        return data

    @property
    def base64(self) -> str:
        """The bytes, as APIs want them in JSON."""
        return binascii.b2a_base64(self.data, newline=False).decode()

    @property
    def data_uri(self) -> str:
        """The bytes as a ``data:`` URI."""
        return f"data:{self.media_type};base64,{self.base64}"

    @property
    def name(self) -> str:
        """The path or the address; of bytes without a name, one that their digest gives."""
        return self.path or self.url or f"{self.digest[:12]}.{EXTENSIONS[self.media_type]}"

    @property
    def facts(self) -> str:
        """What is known of the bytes, such as ``image/png, 12,345 bytes, SHA-256 0a1b…``."""
        if self.url is not None:
            known = ["an address, which is not read"]
        else:
            known = [self.media_type, f"{self.size:,} bytes", f"SHA-256 {self.digest}"]
        return ", ".join([*known, *([f"detail {self.detail}"] if self.detail else [])])

    @property
    def kind_in_words(self) -> str:
        """The kind as a sentence has it, such as ``an image``."""
        return {"image": "an image", "document": "a document", "audio": "audio"}[self.kind]

    @property
    def text(self) -> str:
        """What stands for it where only text can, such as ``[image: shots/checkout.png]``."""
        return f"[{self.kind}: {self.name}]"


def given_media(
    value: str,
    kind: str,
    name: str | None,
    detail: str | None,
    store: Store | None = None,
    max_bytes: int = MAX_MEDIA_SIZE,
) -> Media:
    """Return the media that a suite holds as a ``data:`` URI, or names by its ``https:`` address.

    What is neither, or has other bytes than it says, is an AttachmentError.
    """
    if not is_data(value):
        if re.match(_WITH_USER, value):
            raise AttachmentError(
                "the address has a user name or a password, which prompts and snapshots would show;"
                " leave it out"
            )
        if not (re.fullmatch(_URL, value) and has_host(value)):
            raise AttachmentError(
                f"{quoted(value)} is no address that can be handed on;"
                " write an https: address, or the path of a file"
            )
        if kind == "file":
            raise AttachmentError(
                "an address does not tell what is there; write type: image, document or audio"
            )
        return Media(kind, path=None, url=value, detail=detail)  # type: ignore[arg-type]
    if name and (len(name) > _LONGEST_NAME or re.search(CONTROL, name)):
        what = f"has a control character, or over {_LONGEST_NAME} characters"
        raise AttachmentError(f"the name {quoted(name)} {what}")
    shown = quoted(name) if name else f"the {kind}"
    declared, data = _decoded(value, shown)
    media = Media.of(data, name, detail=detail, store=store, max_bytes=max_bytes)
    check_kind(media, kind, shown)
    is_known = declared.startswith(("image/", "audio/")) or declared in EXTENSIONS
    if is_known and kind_of_type(declared) != media.kind:
        raise AttachmentError(
            f"{shown} is {media.kind_in_words}, by its first bytes, and not {declared};"
            f" write data:{media.media_type};base64,..."
        )
    return media


def _decoded(uri: str, shown: str) -> tuple[str, bytes]:
    """Return the type that a ``data:`` URI declares, and its bytes, which are of no text."""
    found = re.match(_DATA, uri)
    if found is None or not found[3]:
        raise AttachmentError(f"{shown} is not in base64; write data:TYPE;base64,...")
    try:
        data = binascii.a2b_base64(re.sub(_SPACE, "", uri[found.end() :]), strict_mode=True)
    except ValueError as error:  # also of characters that are not ASCII
        raise AttachmentError(f"{shown} is not in base64: {error}") from None
    if type_of(data[:HEAD]) is None:
        raise AttachmentError(f"{shown} is not {TYPES}")
    return found[1].lower(), data


def too_large(shown: str, most: int, name: str = "max_file_bytes") -> AttachmentError:
    """Return the error for a file of too many bytes, which an option of a stage allows."""
    return AttachmentError(
        f"{shown} is larger than {most:,} bytes; raise {name} of resolve_segments"
    )


def is_address(value: str, kind: str) -> bool:
    """Return whether the value of a segment is an address or a ``data:`` URI, not a path.

    >>> is_address("https://example.org/a.png", "image"), is_address("a.png", "image")
    (True, False)
    """
    is_url = "://" in value if kind != "file" else value[:8].lower() == "https://"
    return is_url or is_data(value)


def is_data(value: str) -> bool:
    """Return whether a text is a ``data:`` URI; case does not count in schemes."""
    return value[:5].lower() == "data:"


def check_kind(media: Media, kind: str, shown: str) -> None:
    """Raise an AttachmentError if media are not of the kind that a suite says."""
    if kind not in ("file", media.kind):
        raise AttachmentError(
            f"{shown} is {media.kind_in_words}, by its first bytes;"
            f" write type: {media.kind}, or type: file"
        )


class Base64:
    """The bytes of media as a value of a body: ``str`` reads them, and keeps nothing."""

    __slots__ = ("is_uri", "media")

    def __init__(self, media: Media, *, is_uri: bool = False) -> None:
        self.media, self.is_uri = media, is_uri

    def __str__(self) -> str:
        return self.media.data_uri if self.is_uri else self.media.base64

    @property
    def shown(self) -> str:
        """What a reader sees in their place."""
        media = self.media
        return f"({media.media_type}, {media.size:,} bytes, SHA-256 {media.digest})"


def with_bytes(value: Any) -> str:
    """Return a value of a body as it is sent, where an encoder of JSON does not know its type."""
    if isinstance(value, Base64):
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def without_bytes(value: Any) -> str:
    """Return a value of a body as readers see it: in place of bytes, what they are."""
    return value.shown if isinstance(value, Base64) else with_bytes(value)


def address_or_uri(media: Media) -> Any:
    """Return the address of media, or their bytes as a ``data:`` URI of a body."""
    return media.url or Base64(media, is_uri=True)


def file_name(media: Media) -> str:
    """Return the name of a file without its folders, which are nobody else's affair."""
    return media.name.replace("\\", "/").rstrip("/").rpartition("/")[2]

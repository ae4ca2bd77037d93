"""Reading an attached file: a regular one, of a bounded size, and its text (rule 3)."""

import errno
import os
import re
import stat

from multiturn.errors import AttachmentError, OutsideRootError
from multiturn.files.media import HEAD, TYPES, too_large, type_of
from multiturn.files.paths import FILE, open_below

_BINARY = rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]"


def read_regular(
    root: str, resolved_path: str, shown: str, max_bytes: int, max_media_bytes: int = 0
) -> bytes:
    """Read a file below the root, if it is a regular one."""
    try:
        descriptor = open_below(root, resolved_path.split("/"), FILE)
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise AttachmentError(f"{shown} is not a regular file; attach regular files only")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(HEAD)
                is_media = max_media_bytes and type_of(data)
                most = max_media_bytes if is_media else max_bytes
                option = "max_media_bytes" if is_media else "max_file_bytes"
                if opened.st_size > most:
                    raise too_large(shown, most, option)
                # Not with the limit as a size: read takes that much memory at once.
                while len(data) <= most and (piece := file.read(max(opened.st_size, 2**16))):
                    data += piece
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutsideRootError(f"{shown} became a symbolic link while it was read") from None
        raise AttachmentError(f"cannot read {shown}: {error.strerror}") from None
    if len(data) > most:
        raise too_large(shown, most, option)
    return data


def entry_of(data: bytes, shown: str) -> tuple[int, str, str]:
    """Return what ``Texts`` keeps of a file's bytes."""
    whole = _text_of(data, shown)
    text = whole.rstrip("\n")
    return len(data), text, whole[len(text) :]


def _text_of(data: bytes, shown: str) -> str:
    """Return the text of a file with LF line ends and no byte-order mark."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        is_text = data.startswith((b"\xff\xfe", b"\xfe\xff")) or not re.search(_BINARY, data)
        what = f"{shown} is not UTF-8 text (byte {error.start}); save the file as UTF-8"
        if not is_text:
            what = f"{shown} is neither UTF-8 text nor {TYPES}; convert it to one of these"
        raise AttachmentError(what) from None
    return text.replace("\r\n", "\n")

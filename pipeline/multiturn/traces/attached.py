"""Images, documents and audio of request bodies, as files beside a suite."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from multiturn.documents.output import open_new
from multiturn.errors import AttachmentError, MultiturnError
from multiturn.files.media import EXTENSIONS, Media, Store, given_media, no_room
from multiturn.model.request import part_of
from multiturn.model.turns import Part
from multiturn.providers.reading import Segment, Values

_NAME = re.compile(r"(?!\.)[\w.() -]{1,100}(?<![. ])")


class Attached:
    """The media of the bodies that are imported.

    Args:
        folder: stands for the folder of the suite until that is written; None for a suite on
            standard output, which has its media in it.
        name: of the folder in it that gets the files, each named by its digest.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self.folder = folder
        self.name = name
        self.lost: list[str] = []  # what is wrong with media that were left out

    def read(self, segment: Segment) -> Part | None:
        """Return media of a body as a part, and write them as a file; None if they are none."""
        try:
            return part_of(self._settled(segment))
        except AttachmentError as error:
            self.lost.append(f"the {segment['type']} is left out, as {error}")
            return None

    def _settled(self, segment: Segment) -> Media:
        value, name = segment["value"], segment.get("name")
        media = given_media(value, segment["type"], name, segment.get("detail"), Store())
        if media.url is not None or self.folder is None:
            return media
        path = f"{self.name}/{media.digest}"
        # Vendors are told the name of a file, so it stays: in a folder named by the digest.
        path += f"/{name}" if name and _NAME.fullmatch(name) else f".{EXTENSIONS[media.media_type]}"
        try:
            _write(self.folder / path, media)
        except OSError as error:
            raise no_room(error) from None
        return media.replace(path=path)

    def piece(self, media: Media) -> Values:
        """Return media as a segment of the suite."""
        detail = {"detail": media.detail} if media.detail else {}
        if media.url is not None:
            return {"type": media.kind, "value": media.url, **detail}
        if self.folder is not None:
            return {"type": media.kind, "value": media.path, **detail}
        name = {"name": media.path} if media.path else {}
        return {"type": media.kind, "value": media.data_uri, **detail, **name}

    def keep(self, folder: Path) -> None:
        """Copy the files to the folder of the suite.

        Raises:
            MultiturnError: a link, or what is not a folder, is in the way.
        """
        if self.folder is None:  # the media are in the suite
            return
        for path in sorted(self.folder.rglob("*")):
            kept = folder / path.relative_to(self.folder)
            what = "is a link, which may lead elsewhere" if kept.is_symlink() else ""
            if path.is_dir() and kept.exists() and not kept.is_dir():
                what = "is not a folder"
            if what:
                raise MultiturnError(f"{str(kept)!r} {what}; remove it, or name another output")
            if path.is_file():
                _write(kept, path)


@contextmanager
def attached_for(output: str | None) -> Iterator[Attached]:
    """Return where the media of a suite go, until it is written; None is standard output."""
    if output is None:
        yield Attached(None, "")
        return
    name = re.sub(r"(?i)(\.eval)?\.\w+$", "", Path(output).name)
    with TemporaryDirectory() as folder:
        yield Attached(Path(folder), f"{name}.media")


def _write(target: Path, given: Media | Path) -> None:
    """Write a file, unless it is there: its name says what is in it."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_new(target) as file:
        file.write(given.data if isinstance(given, Media) else given.read_bytes())

"""The lists beside the snapshots, as they are recorded and as a run finds them.

``promoted.lock`` has the files in system messages, and ``files.lock`` the digests of the files that
snapshots name: one entry a file, in alphabetical order. Git merges changes only if an unchanged
line is between them. So each digest has a line of its own, and a blank line ends each entry.
``target.lock`` has what a target is sent of every case.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace
from toolz import keyfilter, merge_with, valmap

from multiturn.documents.dump import dump
from multiturn.documents.node import MAX_VALUES
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError, ProviderError
from multiturn.explaining.record import to_json
from multiturn.explaining.spans import file_of
from multiturn.files.media import Media
from multiturn.model.tokens import estimated_tokens
from multiturn.providers.base import USUAL_SYSTEM_ROLE, TargetProvider
from multiturn.providers.secrets import hide
from multiturn.snapshots import attached_files, changes, privilege
from multiturn.snapshots.attached_files import Attached
from multiturn.snapshots.changes import Change, FileChange
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.locations import Key, digest
from multiturn.snapshots.privilege import PrivilegeChange, Promotion, in_order
from multiturn.snapshots.reviewed_case import HI, ReviewedCase
from multiturn.snapshots.snapshot_file import read_snapshot
from multiturn.text import first_of, utf8

PROMOTED, FILES, TARGET = "promoted.lock", "files.lock", "target.lock"
_COMMENTS = {
    PROMOTED: "# The files in system messages: a change of this list is a change of privilege.\n",
    FILES: "# The files that snapshots name in place of their content: the SHA-256 of each.\n",
}
TARGET_COMMENT = """\
# What the target is sent of a case that only says "Hi"; each snapshot has what is different.
"""
_VERSIONS = ("api_version", "version")  # of the vendor's API: what a target has beside its settings
# Not possessive, as in text.py: before Python 3.11.5 a possessive group with .* matches too little.
_LINES = r"(?:(?!<<<<<<< |\|{7}(?!\|)|=======\n|>>>>>>> ).*\n)*"
_CONFLICT = re.compile(
    rf"^<<<<<<< .*\n(?P<ours>{_LINES})(?:\|{{7}}(?!\|).*\n{_LINES})?"
    rf"=======\n(?P<theirs>{_LINES})>>>>>>> .*\n",
    re.MULTILINE,
)

Lock = Mapping[str, tuple[Any, ...]]  # the promotions, or digests, of each file, by its path
Suites = dict[tuple[str, str], set[str]]  # those that have a file, by list and path


class _Promoted(Struct):
    """An item of an entry of ``promoted.lock``."""

    sha256: str
    pattern: str | None


def lock_text(name: str, lock: Lock) -> str:
    """Return the text of a list."""
    entries = []
    for path in sorted(lock):
        items = [
            {"sha256": e.sha256, "pattern": e.pattern} if isinstance(e, Promotion) else e
            for e in lock[path]
        ]
        entries.append(utf8(dump({path: items})).removeprefix("---\n") + "\n")
    return _COMMENTS[name] + ("---\n" + "".join(entries) if entries else dump({}))


def read_lock(name: str, text: str | None, where: str) -> dict[str, tuple[Any, ...]]:
    """Read a list; None is an empty one, a torn one an error."""
    if text is None:
        return {}
    if _CONFLICT.search(text):
        what = "it has a merge conflict; run multiturn snapshot --resolve for all suites"
        raise MultiturnError(what, where=where)
    try:
        # As many as the files of all suites are: a list of any length, but no aliases that grow.
        documents = list(read_documents(text, where, max(MAX_VALUES, len(text))))
        if len(documents) != 1 or not isinstance(documents[0].value, dict):
            raise MultiturnError("it is not a list of files", where=where)
        children = documents[0].children.items()
        if name == FILES:
            return {path: read_as(node, tuple[str, ...], where=where) for path, node in children}
        promoted = {path: read_as(node, list[_Promoted], where=where) for path, node in children}
    except MultiturnError as error:
        advice = "restore it, or remove it and run multiturn snapshot for all suites"
        raise MultiturnError(f"{error.what}; {advice}", where=error.where) from None
    return {
        path: in_order(Promotion(path, each.sha256, each.pattern) for each in items)
        for path, items in promoted.items()
    }


def sides_of(text: str) -> tuple[str, str]:
    """Return a text with a merge conflict as it is on our side, and as it is on theirs."""
    return _CONFLICT.sub(r"\g<ours>", text), _CONFLICT.sub(r"\g<theirs>", text)


def conflicts_in(folder: SnapshotFolder) -> Iterator[FileChange]:
    """Yield each list that has a merge conflict, as our side has it and as theirs does."""
    for name in (PROMOTED, FILES):
        text = folder.read(name)
        if text is not None and _CONFLICT.search(text):
            yield FileChange(folder.shown(name), None, *sides_of(text))


def add_files(suites: Suites, suite: str, text: str) -> None:
    """Add the files of a recorded snapshot of a suite."""
    read = read_snapshot(text)
    for name, paths in ((FILES, [*read.named, *read.in_full]), (PROMOTED, read.promoted)):
        for path in paths:
            suites.setdefault((name, path), set()).add(suite)


def _digest(entry: Promotion | str) -> str:
    return entry.sha256 if isinstance(entry, Promotion) else entry


def _known_of(entries: Iterable[Promotion | str]) -> object:
    """Return what is known of a file, for its key: how it is promoted, and digests of its texts."""
    entries = list(entries)
    promoted = in_order(entry for entry in entries if isinstance(entry, Promotion))
    return promoted, sorted(set(map(_digest, entries)))


class _NewFile(Struct):
    """An attached file whose text, or whose media, is not the recorded one."""

    root: str
    file: Attached
    occurrences: dict[Key, int]  # of a text in full, in the prompt of each case


class FoundFiles:
    """The files that converted cases attach, beside what is recorded of files."""

    def __init__(self, recorded: Mapping[str, Lock]) -> None:
        self.recorded = recorded  # the lists to compare with, by name
        self.known: dict[str, Attached | None] = {}  # what some of the files were
        # The cases of each entry, by list and path.
        self._cases: dict[str, dict[str, dict[Any, list[Key]]]] = {PROMOTED: {}, FILES: {}}
        self._new: dict[str, _NewFile] = {}  # by path

    def add_entries(
        self, key: Key, promoted: Iterable[Promotion], files: Iterable[tuple[str, str]]
    ) -> None:
        """Add the promoted files of a case, and the paths and digests of those that it attaches."""
        entries = {PROMOTED: ((each.path, each) for each in promoted), FILES: files}
        for name, of_list in entries.items():
            for path, entry in of_list:
                self._cases[name].setdefault(path, {}).setdefault(entry, []).append(key)

    def add_texts(self, case: ReviewedCase) -> None:
        """Add what the files of a case are, if they are not as recorded."""
        known = self.recorded[PROMOTED]
        promoted = {each.path for each in case.promoted if each not in known.get(each.path, ())}
        for resolved_path, file in case.files.items():
            path = utf8(resolved_path)
            if path in promoted or digest(file) not in self._digests(path):
                new = self._new.setdefault(path, _NewFile(case.root, file, {}))
                spans = (span for message in case.prompt for span in message.spans)
                new.occurrences[case.key] = sum(
                    file_of(span) == resolved_path and span.text == file for span in spans
                )

    def _digests(self, path: str) -> set[str]:
        """Return the recorded digests of a file."""
        return {_digest(e) for lock in self.recorded.values() for e in lock.get(path, ())}

    @property
    def found(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        """What the lists should have of these cases."""
        return {name: valmap(in_order, entries) for name, entries in self._cases.items()}

    def privileges(self) -> dict[PrivilegeChange, list[Key]]:
        """Return each new or changed file in system messages, with its cases."""
        found, promoting = self.found[PROMOTED], self._cases[PROMOTED]
        return {
            change: _each_once(keyfilter(entries.__contains__, promoting[change.path]))
            for change, entries in privilege.promotion_changes(self.promoted_before(), found)
        }

    def promoted_before(self) -> Lock:
        """Return the files that were in system messages."""
        return self.recorded[PROMOTED]

    def privileges_of_cases(self) -> dict[Key | None, list[PrivilegeChange]]:
        """Return the new or changed files in the system messages of each case."""
        found: dict[Key | None, list[PrivilegeChange]] = {}
        for change, cases in self.privileges().items():
            for case in cases:
                found.setdefault(case, []).append(change)
        return found

    def earlier(self, path: str, new: _NewFile) -> Attached | None:
        """Return what a file was: its text, or media; None if that is not known."""
        return self.known.get(path)

    def contents(self) -> Iterator[Attached | None]:
        """Yield what each file that is not as recorded was, and what it is."""
        for path, new in self._new.items():
            yield from (self.earlier(path, new), new.file)

    def _in_words(self, path: str) -> str:
        """Return in words how a file is not as recorded."""
        new, digests = self._new.get(path), self._digests(path)
        if new is None:
            return f"{path} changed"
        if not digests:
            files = self.recorded[FILES].items() if isinstance(new.file, Media) else ()
            same = [file for file, known in files if digest(new.file) in known]
            return f"{path} is new" + f", with the bytes of {first_of(same)}" * bool(same)
        is_media = isinstance(new.file, Media) or isinstance(self.known.get(path), Media)
        old = self.earlier(path, new) if is_media else None
        return attached_files.change_in_words(path, "" if old is None else old, new.file)

    def changed_files(self, snapshots: Iterable[FileChange]) -> Iterator[Change]:
        """Yield the change of each file with other entries than recorded, beside ``snapshots``."""
        found, promoted = self.found, self.privileges()
        new_cases = {each.case for each in snapshots if each.state == "new"}
        # Of a text that has changed, this is said first; a new way to get there is its cases' own.
        privileges = {change.path: change for change in reversed(promoted)}
        for path in sorted({*found[PROMOTED], *found[FILES]}):
            # A list loses a file when no snapshot names it any more, whatever else is accepted.
            kept = [name for name in found if path in found[name]]
            wanted = [found[name][path] for name in kept]
            was = [self.recorded[name].get(path, ()) for name in kept]
            if wanted == was:
                continue
            promoting, naming = (cases.get(path, {}) for cases in self._cases.values())
            change, cases = privileges.get(path), _each_once(promoting, naming)
            new, old, growth, causes = self._new.get(path), None, None, tuple[str, ...]()
            if new is None:
                what = f"{path} {'has other entries on the lists' if any(was) else 'is new'}"
            else:
                what = self._in_words(path)
                is_recorded = digest(new.file) in self._digests(path)
                # pytest records another text of a file, and leaves it to be seen as promoted.
                if not is_recorded or (change and not change.is_new):
                    old = self.earlier(path, new)
                if old is None and is_recorded:  # it concerns only the cases that promote it
                    cases = promoted[change] if change else _each_once(promoting)
                    old = new.file
                elif old is not None:
                    causes = (attached_files.change_in_words(path, old, new.file, has_lines=True),)
                    if isinstance(old, str) and isinstance(new.file, str):
                        # In a new case, the file is a part of its own growth.
                        counts = (n for key, n in new.occurrences.items() if key not in new_cases)
                        growth = sum(counts) * (estimated_tokens(new.file) - estimated_tokens(old))
            is_compared, first, lines = changes.file_lines(old, new.file if new else "")
            yield Change(
                kind="file",
                key=changes.change_key(path, *(_known_of(chain(*each)) for each in (was, wanted))),
                path=path,
                what=change.words if change else what,
                privileges=(change.words,) if change else (),
                line=first,
                lines=lines,
                is_compared=is_compared,
                cases=tuple(cases),
                growth=growth,
                causes=causes,
            )


class Lists(FoundFiles):
    """The files that a run finds for ``promoted.lock`` and ``files.lock``.

    Of a file, what a snapshot that has changed says of media is known, and None of a text. With
    ``resolve``, both sides of a merge conflict are read as one list.
    """

    def __init__(self, folder: SnapshotFolder, *, resolve: bool) -> None:
        super().__init__({})
        self._folder, self._resolve = folder, resolve
        self.read()

    def read(self) -> None:
        """Read the lists, which another process may have written."""
        self._texts = {name: self._folder.read(name) for name in (PROMOTED, FILES)}
        self.recorded = {}
        for name, text in self._texts.items():
            sides = sides_of(text) if text and self._resolve else (text,)
            locks = [read_lock(name, side, self._folder.shown(name)) for side in sides]
            self.recorded[name] = merge_with(lambda each: in_order(chain(*each)), *locks)

    def promoted_before(self) -> Lock:
        """Return the files that were in system messages.

        Without a list of them, these are the files of now that ``files.lock`` knows, with another
        text if it has another digest; on a first run, which has no such list either, all of now.
        """
        if self._texts[PROMOTED] is not None:
            return self.recorded[PROMOTED]
        now, known = self.found[PROMOTED], self.recorded[FILES]
        if self._texts[FILES] is None:
            return now
        before: dict[str, tuple[Any, ...]] = {}
        for path in now.keys() & known:
            new = self._new.get(path)
            # Of the file itself: a stage may change its text before it is sent.
            is_same = new is None or digest(new.file) in known[path]
            before[path] = now[path] if is_same else tuple(replace(e, sha256="") for e in now[path])
        return before

    def add(self, case: ReviewedCase, *, inline: bool) -> None:
        """Add the files of a case; if it is not inline, also those that its snapshot may name."""
        named = {} if inline else case.files
        files = ((utf8(path), digest(file)) for path, file in named.items())
        self.add_entries(case.key, case.promoted, files)
        self.add_texts(case)

    def changes(self, others: Suites, pending: Container[str] = ()) -> Iterator[FileChange]:
        """Yield the lists that have changed; entries of others, and of ``pending`` files, stay."""
        for name, now in self.found.items():
            was = self.recorded[name]
            lock = {path: items for path, items in was.items() if (name, path) in others}
            lock |= {path: items for path, items in now.items() if path not in pending}
            lock |= {path: was[path] for path in was.keys() & now if path in pending}
            old = self._texts[name]
            text = lock_text(name, lock) if name == PROMOTED or lock else ""
            # Many a commit hook removes the blank line at the end of a file.
            if text.rstrip("\n") != (old or "").rstrip("\n"):
                yield FileChange(self._folder.shown(name), None, old or "", text)

    def left(self) -> set[tuple[str, str]]:
        """Return the recorded entries that no case of the run has, by list and path."""
        found, recorded = self.found, self.recorded.items()
        return {(name, path) for name, was in recorded for path in was.keys() - found[name]}

    def also_of(self, others: Suites) -> set[str]:
        """Return the other suites that have a file whose entry is new or changed."""
        before = self.recorded[FILES]
        changed = (path for path, now in self.found[FILES].items() if now != before.get(path))
        return set().union(*(others.get((FILES, path), set()) for path in changed))

    def unrecorded(self, changed: Container[Key | None]) -> Iterator[Change]:
        """Yield each file that snapshots name, whose text is not a recorded one, in words.

        Cases in which it has a change of privilege are left out: that says it already. So are
        files without an entry in cases that have ``changed``, if no recorded snapshot names them:
        the change of the list says which are new.
        """
        said = {(each.path, case) for each, cases in self.privileges().items() for case in cases}
        for path, entries in self._cases[FILES].items():
            known = self.recorded[FILES].get(path)
            unknown = (cases for sha256, cases in entries.items() if sha256 not in (known or ()))
            others = [case for case in chain(*unknown) if (path, case) not in said]
            if known is None and path not in self.known:
                others = [case for case in others if case not in changed]
            if others:
                what = f"{path} is not in {FILES}" if known is None else self._in_words(path)
                yield Change(kind="file", what=what, path=path, cases=tuple(others))

    def earlier(self, path: str, new: _NewFile) -> Attached | None:
        """Return what is known of a file as it was: its text, or what its bytes were."""
        digests = self._digests(path) - {digest(new.file)}
        known = self.known.get(path, new.file if isinstance(new.file, Media) else None)
        if isinstance(known, Media) and len(digests) == 1:
            return known.replace(digest=next(iter(digests)), path=path)
        return attached_files.earlier_text(new.root, path, digests)


def _each_once(*entries: Mapping[Any, list[Key]]) -> list[Key]:
    """Return the cases that have some entries."""
    return list(dict.fromkeys(chain(*(cases for each in entries for cases in each.values()))))


def recorded_target(folder: SnapshotFolder) -> str:
    """Return the name of the target that ``target.lock`` is of; empty if there is none."""
    text = sides_of(folder.read(TARGET) or "")[0]
    for document in read_documents(text, folder.shown(TARGET)) if text else ():
        if isinstance(document.value, dict):
            return str(document.value.get("target", ""))
    return ""


def target_text(provider: TargetProvider) -> str:
    """Return the text of ``target.lock``."""
    role = getattr(provider.settings, "system_role", USUAL_SYSTEM_ROLE)
    recorded = {
        "target": provider.name,
        "provider": provider.settings.provider,
        **{name: getattr(provider.settings, name, None) for name in _VERSIONS},
        "default_system": getattr(provider, "of_default_system", None),
        "system_role": role if role != USUAL_SYSTEM_ROLE else None,
        **hide({"settings": _settings(provider.settings), **_example(provider)}, provider.secrets),
    }
    return TARGET_COMMENT + utf8(dump({key: each for key, each in recorded.items() if each}))


def _settings(settings: Any) -> dict[str, Any]:
    """Return what a target says of requests; of a JSON Schema in a file, its digest and path."""
    found: dict[str, Any] = to_builtins(getattr(settings, "said", dict)())
    match found.get("response_format"):
        case {"path": str(path), "schema": schema, **form}:
            said = f"SHA-256 {digest(to_json(schema).decode())} of the JSON in {path}"
            found["response_format"] = {"schema": said, **form}
    return found


def _example(provider: TargetProvider) -> dict[str, Any]:
    """Return the body of a request that says only "Hi", which shows what all of them have."""
    try:
        wire = provider.wire(HI)
    except ProviderError as refusal:
        return {"example": f"refused: {refusal.what}"}
    example: Any = wire.body.decode()
    with suppress(msgspec.DecodeError):  # an agent's prompt is text
        example = msgspec.json.decode(wire.body)
    return {"repairs": list(wire.repairs), "example": example}

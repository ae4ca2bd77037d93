"""One readable snapshot file for each scenario and pipeline."""

from pathlib import Path
from typing import Any

from syrupy.data import SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from multiturn.documents.dump import dump

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"


class PromptSnapshot(SingleFileSnapshotExtension):
    """Stores ``test_…[pipeline scenario]`` at ``snapshots/<pipeline>/<scenario>.yaml``."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"

    def serialize(self, data: Any, **_: Any) -> str:
        return dump(data)

    @classmethod
    def _path(cls, test_location: PyTestLocation) -> Path:
        pipeline, scenario = str(test_location.nodename).partition("[")[2].rstrip("]").split()
        return SNAPSHOTS / pipeline / scenario

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(cls._path(test_location).parent)

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: Any) -> str:
        return cls._path(test_location).name

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        return Path(snapshot_location).with_suffix("") == cls._path(test_location)

    def discover_snapshots(self, **_: Any) -> SnapshotCollections:
        # syrupy relates files to tests by name; test_no_snapshot_is_stale compares exactly.
        return SnapshotCollections()

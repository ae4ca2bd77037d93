"""JSON Schemas, from the structs by which files are read for editors, and lines written."""

from collections.abc import Callable
from functools import partial

from multiturn.cli.lines import CheckLine, DiffLine, ExplainLine, ReportLine
from multiturn.cli.schemas.pipeline import pipeline_schema
from multiturn.cli.schemas.structs import Schema, line_schema
from multiturn.cli.schemas.suite import suite_schema
from multiturn.cli.schemas.targets import targets_schema
from multiturn.cli.snapshot_output import SnapshotLine

SCHEMAS: dict[str, Callable[[], Schema]] = {
    "suite": suite_schema,
    "pipeline": pipeline_schema,
    "targets": targets_schema,
    "check": partial(line_schema, "check", CheckLine),
    "diff": partial(line_schema, "diff", DiffLine),
    "explain": partial(line_schema, "explain", ExplainLine),
    "report": partial(line_schema, "report", ReportLine),
    "snapshot": partial(line_schema, "snapshot --check", SnapshotLine),
}

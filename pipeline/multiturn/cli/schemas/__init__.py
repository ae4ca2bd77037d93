"""JSON Schemas for editors, from the structs by which suites, pipelines and targets are read."""

from multiturn.cli.schemas.pipeline import pipeline_schema
from multiturn.cli.schemas.suite import suite_schema
from multiturn.cli.schemas.targets import targets_schema

SCHEMAS = {"suite": suite_schema, "pipeline": pipeline_schema, "targets": targets_schema}

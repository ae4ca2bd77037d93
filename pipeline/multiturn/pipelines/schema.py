"""The keys of pipeline files, with what editors say of them."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from multiturn.model.case import CASES_KEYS, MESSAGES_KEYS


class Insertion(Struct, forbid_unknown_fields=True):
    """An entry of ``insert``."""

    stage: Annotated[
        Any,
        Meta(description="the stage: its name or import path, or that with a mapping of options"),
    ]
    after: Annotated[str | None, Meta(description="the stage that it comes right after")] = None
    before: Annotated[str | None, Meta(description="the stage that it comes right before")] = None


class PipelineKeys(Struct):
    """The keys of a pipeline file. All but the first two are edits, in the order they are made."""

    stages: Annotated[
        list[Any], Meta(description="the stages, in the order in which they run")
    ] = []
    extends: Annotated[
        str,
        Meta(description="the pipeline to start from: its name, or its path relative to this file"),
    ] = ""
    replace: Annotated[
        dict[str, Any], Meta(description="by the name of a stage: the stage that replaces it")
    ] = {}
    insert: Annotated[
        list[Insertion], Meta(description="more stages, each with the place where it goes")
    ] = []
    configure: Annotated[
        dict[str, Any], Meta(description="by the name of a stage: options to change")
    ] = {}
    remove: Annotated[list[str], Meta(description="the names of stages to leave out")] = []


KEYS = PipelineKeys.__struct_fields__
EDITS = KEYS[2:]
# What has one of these is never a pipeline, and imports nothing.
SUITE_KEYS = frozenset((*CASES_KEYS, *MESSAGES_KEYS, "prompts", "turns"))

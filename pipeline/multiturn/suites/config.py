"""The guideline patterns of a suite: its own, or those of the nearest configuration of AgentV."""

import os
from pathlib import Path

from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_events import read_documents
from multiturn.errors import MultiturnError
from multiturn.files.finding import Files
from multiturn.suites.patterns import guideline_matcher
from multiturn.suites.schema import ConfigKeys, SuiteKeys

CONFIG = ".agentv/config.yaml"
MAX_CONFIG = 1_048_576  # bytes


def patterns_of(node: Node, suite: SuiteKeys, files: Files, name: str) -> tuple[str, ...]:
    """Return the suite's guideline patterns, else those of the nearest configuration."""
    if suite.guideline_patterns is not None:
        return _checked(suite.guideline_patterns, node, name)
    for folder in files.folders:
        path = Path(folder, CONFIG)
        if os.path.exists(path):
            name = path.relative_to(files.root).as_posix()
            text = files.read(files.find(f"/{name}"), MAX_CONFIG)
            for config in read_documents(text, name):
                patterns = read_as(config, ConfigKeys, where=name).guideline_patterns
                return _checked(patterns or [], config, name)
            break
    return ()


def _checked(patterns: list[str], node: Node, name: str) -> tuple[str, ...]:
    try:
        guideline_matcher(tuple(patterns))
    except MultiturnError as error:
        where = node.children["guideline_patterns"].place(name)
        raise MultiturnError(error.what, where=where) from None
    return tuple(patterns)

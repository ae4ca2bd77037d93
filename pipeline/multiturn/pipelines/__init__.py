"""Stages and their contracts; pipelines in Python and in YAML; those that ship."""

"""Agents: Codex, VS Code, and the processes that they are."""

"""Snapshots to commit, the lock of what reaches system messages, and reports of changes."""

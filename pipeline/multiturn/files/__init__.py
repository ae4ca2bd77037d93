"""Attached files: found inside the root, read, and their bytes kept."""

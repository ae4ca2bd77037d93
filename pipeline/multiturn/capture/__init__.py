"""Requests of any program: a server that takes them, and files of them that are suites."""

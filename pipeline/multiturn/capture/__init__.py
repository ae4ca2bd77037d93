"""Requests of any program: a server takes them in a vendor's place, and a file of them is a suite."""

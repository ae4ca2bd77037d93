"""The command line: the only room that prints, exits, or imports click and rich."""

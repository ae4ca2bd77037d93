"""``python -m multiturn``."""

from multiturn.cli import main

main(prog_name="multiturn")

"""What pages of Markdown show, for the tests that see whether it is true."""

import re


def sessions(text: str) -> list[tuple[str, str]]:
    """Return each command in the console blocks of a page, with the output shown below it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE)

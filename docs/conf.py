"""The site, made by Sphinx of the pages as they are: ``make docs`` writes it into the folder site.

The source folder is the project's own, so that a link from a page to a page, or to a file of the
code, leads to the same place on the site as in the repository. index.md lists the pages once: for
readers here, for the navigation of the site, and for language models, as llms.txt.
"""

import re
from pathlib import Path
from typing import Any

project = "multiturn"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    *("docs/*.md", "docs/reference/*.md"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
]
exclude_patterns = [".*", "benchmarks", "dist", "examples", "pipeline", "site", "snapshots"]
exclude_patterns += ["stages", "tests"]
html_theme = "furo"
html_title = "multiturn"
html_show_copyright = html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
myst_heading_anchors = 4
nitpicky = True

_FOLDERS = re.compile(r"\[([^\]]+)\]\(([\w./-]+)\)")
_ROOM = re.compile(r"^## (.+)\n\n((?:- .*\n(?:  .*\n)*)+)", re.MULTILINE)
_LINK = re.compile(r"^- \[(.+?)\]\((\S+?\.md)\)", re.MULTILINE)


def add_navigation(app: Any, name: str, source: list[str]) -> None:
    """Add to the start page what makes the navigation of the site: the lists that it shows.

    A link to a folder of the code, as in CONTRIBUTING.md, has nothing to lead to, and becomes text.
    """
    folder = Path(app.srcdir, name).parent
    source[0] = _FOLDERS.sub(
        lambda link: link[1] if (folder / link[2]).is_dir() else link[0], source[0]
    )
    if name == root_doc:
        for title, pages in _ROOM.findall(source[0]):
            lines = "\n".join(f"{words} <{path}>" for words, path in _LINK.findall(pages))
            toctree = f"```{{toctree}}\n:caption: {title}\n:hidden:\n\n{lines}\n```\n"
            source[0] += f"\n{toctree}"


def add_texts(app: Any, error: Exception | None) -> None:
    """Add the text of each page beside it, llms.txt, and an address without a name of a page."""
    if error is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    for name in app.env.found_docs:
        source = Path(app.srcdir, f"{name}.md").read_text(encoding="utf-8")
        (out / f"{name}.md").write_text(source, encoding="utf-8")
    index = Path(app.srcdir, f"{root_doc}.md").read_text(encoding="utf-8")
    index = re.sub(r"\]\((?!\.\./|https?:)", "](docs/", index).replace("](../", "](")
    (out / "llms.txt").write_text(index, encoding="utf-8")
    refresh = '<meta http-equiv="refresh" content="0; url=docs/index.html">'
    page = f'<!doctype html><html lang="en"><title>multiturn</title>{refresh}</html>\n'
    (out / "index.html").write_text(page, encoding="utf-8")


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_texts)

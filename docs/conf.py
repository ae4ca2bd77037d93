"""The site, made by Sphinx of the pages as they are: ``make docs`` writes it into the folder site.

The source folder is the project's own, so that a link from a page to a page, or to a file of the
code, leads to the same place on the site as in the repository. index.md lists the pages once: for
readers here, for the navigation of the site, and for language models, as llms.txt.
"""

import re
import shutil
from pathlib import Path
from textwrap import dedent
from typing import Any

from docutils import nodes
from sphinx import addnodes

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
html_theme_options: dict[str, object] = {"top_of_page_buttons": []}
myst_heading_anchors = 4
nitpicky = True
smartquotes = False  # "--" is an option

# What axe misses in the pages of the theme, and what it takes.
_ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="This page">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': "<td></td>",
    '<div id="search-results">': '<h1>Search</h1><div id="search-results">',
}
_GLOSSARY = "docs/glossary"
_TERMLESS = {_GLOSSARY, root_doc}
# Terms that are also words of every day, and would be linked where they are no terms.
_EVERYDAY = {"body", "call", "fact", "marker", "media", "part", "project", "question", "request"}
_EVERYDAY |= {"result", "root", "setting", "turn", "view"}
_FOLDERS = re.compile(r"\[([^\]]+)\]\(([\w./-]+)\)")
_ROOM = re.compile(r"^## (.+)\n\n((?:- .*\n(?:  .*\n)*)+)", re.MULTILINE)
_LINK = re.compile(r"^- \[(.+?)\]\((\S+?\.md)\)", re.MULTILINE)


def add_navigation(app: Any, name: str, source: list[str]) -> None:
    """Add what makes the navigation of the site: the lists of the start page, which may be nested.

    A link to a folder of the code, as in CONTRIBUTING.md, has nothing to lead to, and becomes text.
    """
    folder = Path(app.srcdir, name).parent
    source[0] = _FOLDERS.sub(
        lambda link: link[1] if (folder / link[2]).is_dir() else link[0], source[0]
    )
    index = Path(app.srcdir, f"{root_doc}.md").read_text(encoding="utf-8")
    lists = _ROOM.findall(index)
    if name != root_doc:
        above = rf"^- \[.+?\]\({name.removeprefix('docs/')}\.md\).*\n((?:  .*\n)+)"
        lists = [("", dedent(below)) for below in re.findall(above, index, re.MULTILINE)]
    for title, pages in lists:
        lines = "\n".join(f"{words} <{path}>" for words, path in _LINK.findall(pages))
        options = ":hidden:" + f"\n:caption: {title}" * bool(title)
        source[0] += f"\n```{{toctree}}\n{options}\n\n{lines}\n```\n"


def add_terms(app: Any, doctree: Any) -> None:
    """Link each term of the glossary where a page first uses it in a sentence."""
    page = app.env.docname
    if not page.startswith("docs/") or page.startswith("docs/reference") or page in _TERMLESS:
        return
    glossary = Path(app.srcdir, f"{_GLOSSARY}.md").read_text(encoding="utf-8")
    terms = {*re.findall(r"^## (.+)$", glossary, re.MULTILINE)} - _EVERYDAY
    pattern = re.compile(rf"(?<!lower )\b({'|'.join(sorted(terms))})s?\b")
    for paragraph in doctree.findall(nodes.paragraph):
        for text in [each for each in paragraph.children if isinstance(each, nodes.Text)]:
            parts: list[nodes.Node] = []
            end = 0
            for found in pattern.finditer(text):
                if found[1] in terms:
                    terms.remove(found[1])
                    link = addnodes.pending_xref(
                        "",
                        nodes.inline("", found[0]),
                        refdomain="doc",
                        refdoc=page,
                        refexplicit=True,
                        reftarget=_GLOSSARY,
                        reftargetid=found[1].replace(" ", "-"),
                        reftype="myst",
                    )
                    parts += [nodes.Text(text[end : found.start()]), link]
                    end = found.end()
            paragraph.replace(text, [*parts, nodes.Text(text[end:])])


def finish(app: Any, error: Exception | None) -> None:
    """Add what the pages lack for screen readers, the text of each page, and llms.txt."""
    if error is not None or app.builder.name != "html":
        return
    out, pages = Path(app.outdir), Path(app.srcdir)
    for file in out.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        for there, wanted in _ACCESSIBLE.items():
            text = text.replace(there, wanted)
        file.write_text(text, encoding="utf-8")
    for name in app.env.found_docs:
        shutil.copy(pages / f"{name}.md", out / f"{name}.md")
    index = (pages / f"{root_doc}.md").read_text(encoding="utf-8")
    index = re.sub(r"\]\((?!\.\./)", "](docs/", index).replace("](../", "](")
    (out / "llms.txt").write_text(index, encoding="utf-8")
    refresh = '<meta http-equiv="refresh" content="0; url=docs/index.html">'
    page = f'<!doctype html><html lang="en"><title>multiturn</title>{refresh}</html>\n'
    (out / "index.html").write_text(page, encoding="utf-8")


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", add_terms)
    app.connect("build-finished", finish)

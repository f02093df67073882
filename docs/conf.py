"""Settings of the documentation site, which `make docs` builds with Sphinx from the Markdown in this folder.

The pages are plain Markdown without directives. The navigation is made from the links of the pages called `index`: one
group per heading, in the order of the links.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

project = "Windlass"
author = "the Windlass authors"
copyright = "the Windlass authors, Apache-2.0"

extensions = ["myst_parser"]
myst_enable_extensions = ["tasklist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure"]  # a diagram in Mermaid is shown as its text

html_theme = "furo"
html_title = "Windlass"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#8A5A00", "color-brand-content": "#8A5A00"},
    "dark_css_variables": {"color-brand-primary": "#E0A83A", "color-brand-content": "#E0A83A"},
}


def add_navigation(_app: Any, page: str, source: list[str]) -> None:
    """Add hidden tables of contents to an index page, one per heading, with the pages that it links to."""
    if PurePosixPath(page).name != "index":
        return
    intro, *sections = re.split(r"^## ", source[0], flags=re.MULTILINE)
    groups = [section.partition("\n")[::2] for section in sections]
    if page != root_doc:
        groups.insert(0, ("", intro))
    for caption, text in groups:
        linked = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", text))
        options = f":hidden:\n:caption: {caption}" if caption else ":hidden:"
        children = "\n".join(name for name in linked if is_child(page, name))
        source[0] += f"\n```{{toctree}}\n{options}\n\n{children}\n```\n"


def is_child(page: str, name: str) -> bool:
    """Return True if the index page is the one that lists this page: the index of its own folder, if there is one."""
    folder = PurePosixPath(name).parent
    listed_elsewhere = folder.name in {"decisions", "migrate"} and PurePosixPath(name).name != "index"
    return page != root_doc or not listed_elsewhere


def setup(app: Any) -> None:
    """Register the navigation."""
    app.connect("source-read", add_navigation)

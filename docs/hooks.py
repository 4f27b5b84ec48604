"""What mkdocs is told beyond mkdocs.yml: pages that live elsewhere in the tree, and pages made from the program.

* ARCHITECTURE.md, CHANGELOG.md and others of the repository's root become pages; links to them, and to the examples,
  lead there.
* The reference of names, and the HTTP API, are made while building: see `reference.py`.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs import reference  # noqa: E402  mkdocs loads this file by its path, so the root is not on the path before

# Files of the repository that are pages of the site.
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "reporting.md",
    "README.md": "index.md",
    **{f"examples/{path.name}": f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))},
}
# A section of the navigation that is named by a label which, where the section has a page of its own, is an icon.
SECTION = re.compile(
    r'(<nav class="md-nav" data-md-level="\d+" )aria-labelledby="[^"]*"'
    r'([^>]*>\s*<label class="md-nav__title"[^>]*>\s*<span class="md-nav__icon md-icon"></span>\s*)'
    r"([^<]+?)(?=\s*</label>)"
)
# What a search shows first: pages that answer a question, and last those that tell how all of it came to be.
FOUND = {
    "how-to/": 2,
    "operate.md": 2,
    "deployment.md": 2,
    "prompt.md": 2.5,
    "adapters.md": 1.5,
    "reference/errors.md": 2,
    "examples/": 0.3,
    "adapters/": 0.5,
    "architecture.md": 0.5,
    "changelog.md": 0.3,
    "performance.md": 0.3,
    "guarantees.md": 0.5,
    "format.md": 0.5,
    "reference/http.md": 0.7,
    "contributing.md": 0.3,
    "design.md": 0.3,
    "walks.md": 0.3,
}
LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)#\s]+)")


def on_config(config: Any) -> Any:
    for section in config.nav:
        if "Reference" in section:
            section["Reference"].extend({title: name} for title, name in reference.NAV.items())
    return config


def on_files(files: Files, config: Any) -> Files:
    for source, name in ELSEWHERE.items():
        files.append(File.generated(config, name, content=_page(ROOT / source)))
    for name, text in reference.pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Say how near to the top a search shows the page; let links to files of the tree lead to their pages."""
    boost = next((weight for start, weight in FOUND.items() if page.file.src_uri.startswith(start)), 1)
    page.meta["search"] = {"boost": boost}
    source = next((old for old, new in ELSEWHERE.items() if new == page.file.src_uri), None)
    folder = posixpath.dirname(source or f"docs/{page.file.src_uri}")
    here = posixpath.dirname(page.file.src_uri)

    def led(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[2]))
        inside = ELSEWHERE.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        return found[0] if inside is None else f"{found[1]}{posixpath.relpath(inside, here or '.')}"

    return LINK.sub(led, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name what the theme leaves without a name for those who do not see it."""
    named = output.replace(
        '<div class="md-search" data-md-component="search" role="dialog">',
        '<div class="md-search" data-md-component="search" role="dialog" aria-label="Search">',
    )
    return SECTION.sub(r'\1aria-label="\3"\2\3', named)


def _page(path: Path) -> str:
    text = path.read_text()
    return text if path.suffix == ".md" else f"# {path.name}\n\n```python\n{text}```\n"

"""`make docs`, second half: build the site into site/ with the same bytes each time, and look at what came out.

mkdocs itself refuses links and anchors that lead nowhere (`strict`). What is looked at here: that no page asks another
host for anything, that the site is small, and how it is spelt.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
WORDS = ROOT / "docs" / "words.txt"
MAX_BYTES = 15_000_000
# What a browser fetches by itself, from somewhere else.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\ssrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*\shref=["']?(?:https?:)?//[^"'\s>]+""",
    re.IGNORECASE,
)
FETCHED_BY_STYLE = re.compile(r"""(?:url\(|@import\s)["']?(?:https?:)?//[^)"'\s]+""", re.IGNORECASE)


def build(target: Path = SITE) -> None:
    """Build the site; an odd link, an unknown anchor or any other warning is an error."""
    epoch = {"SOURCE_DATE_EPOCH": "1580601600", "PYTHONHASHSEED": "0", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--clean", "--site-dir", str(target)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **epoch}, check=True, timeout=600)


def requests_elsewhere(site: Path) -> Iterator[str]:
    """Yield everything that a page or a style sheet would fetch from another host."""
    for path in sorted(site.rglob("*.html")):
        yield from (f"{path.relative_to(site)}: {found[0]}" for found in FETCHED.finditer(path.read_text()))
    for path in sorted(site.rglob("*.css")):
        yield from (f"{path.relative_to(site)}: {found[0]}" for found in FETCHED_BY_STYLE.finditer(path.read_text()))


def size(site: Path) -> int:
    """Return how many bytes the site has."""
    return sum(path.stat().st_size for path in site.rglob("*") if path.is_file())


def misspelt() -> str:
    """Return what codespell finds in the pages; words.txt holds what is right all the same."""
    looked_at = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "docs"]
    skipped = "*.svg,*.png,words.txt"
    ran = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--ignore-words", str(WORDS), "--skip", skipped, *looked_at],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return ran.stdout + ran.stderr


def main() -> None:
    """Build, look, and say what is wrong."""
    build()
    problems = list(requests_elsewhere(SITE))
    if (total := size(SITE)) > MAX_BYTES:
        problems.append(f"the site has {total:,} bytes, more than {MAX_BYTES:,}")
    if spelling := misspelt():
        problems.append(f"spelling:\n{spelling}")
    if problems:
        sys.exit("\n".join(problems))
    print(f"site/: {total:,} bytes; look at it with: python -m http.server --directory site")


if __name__ == "__main__":
    main()

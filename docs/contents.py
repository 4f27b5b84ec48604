"""What is on a long page, above its first heading: for a repository, where no column beside the page says so."""

from __future__ import annotations

import re

BEGIN, END = "<!-- contents: made by `make docs` -->", "<!-- end of contents -->"
LONG = 200  # lines; a shorter page is seen at a glance
FENCE = re.compile(r"^(```+).*?^\1", re.MULTILINE | re.DOTALL)


def is_long(text: str) -> bool:
    return text.count("\n") > LONG


def anchor(heading: str) -> str:
    """Return where a heading is found, as the site and the repository's host spell it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def with_contents(text: str) -> str:
    """Return a page that names its parts before the first of them."""
    bare = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}\n\n", "", text, flags=re.DOTALL)
    prose = FENCE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), bare)  # as long, so that places stay
    headings = list(re.finditer(r"^## (.+)$", prose, re.MULTILINE))
    if not headings or not is_long(bare):
        return bare
    parts = " ·\n".join(f"[{found[1]}](#{anchor(found[1])})" for found in headings)
    start = headings[0].start()
    return f"{bare[:start]}{BEGIN}\nOn this page: {parts}\n{END}\n\n{bare[start:]}"

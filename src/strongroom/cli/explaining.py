"""`strongroom explain`: why an error happens and what to do about it, without the internet."""

from __future__ import annotations

import re
from difflib import get_close_matches

import click

import strongroom.remedies as remedies
from strongroom.cli.output import as_json, facts, show, wants_json
from strongroom.cli.root import cli
from strongroom.errors import InvalidInput


@cli.command("explain")
@click.argument("word", required=False)
def explain_error(word: str | None) -> None:
    """Say why an error happens and what to do about it."""
    known = {**remedies.ERRORS, **remedies.REQUESTS, **remedies.REASONS}
    if word is None:
        rows = [(name, one.cause) for name, one in sorted(known.items())]
        show({name: one._asdict() for name, one in sorted(known.items())}, ["word", "cause"], rows)
        return
    # A traceback shows the name of a class.
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word.rpartition(".")[2]).lower()
    meant = remedies.known(word)
    if meant is None:
        near = get_close_matches(word, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`strongroom explain` lists all there are"
        raise InvalidInput(f"no error has the code or the reason {word!r:.60}; {hint}")
    told = known[meant]
    if wants_json():
        as_json({"word": meant, **told._asdict()})
    else:
        facts({"word": meant, "cause": told.cause, "remedy": told.remedy})

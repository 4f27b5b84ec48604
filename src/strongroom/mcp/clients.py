"""The assistants that can be told about `strongroom mcp`: where each keeps its configuration, and how an entry is added
to the text of it and taken out again. Pure, from text to text; what does not belong to the entry stays.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from strongroom.errors import InvalidInput


class Entry(Struct, frozen=True):
    """What a client has to start."""

    command: str
    args: tuple[str, ...]
    env: dict[str, str] = {}


class Client(Struct, frozen=True, kw_only=True):
    """A client: where its configuration is, and how an entry is added to its text and taken out."""

    name: str
    file: Callable[[Mapping[str, str]], Path]
    add: Callable[[str, str, Entry], str]
    remove: Callable[[str, str], str]
    note: str = ""


# ---- JSON -----------------------------------------------------------------------------------------------------------


def _json_add(section: str, typed: bool) -> Callable[[str, str, Entry], str]:
    def add(text: str, name: str, entry: Entry) -> str:
        whole = _parsed(text)
        servers = whole.setdefault(section, {})
        if not isinstance(servers, dict):
            raise InvalidInput(f"{section!r} in it is not an object; nothing changed")
        told: dict[str, Any] = {"type": "stdio"} if typed else {}
        told |= {"command": entry.command, "args": list(entry.args)}
        servers[name] = told | ({"env": entry.env} if entry.env else {})
        return _dumped(whole, text)

    return add


def _json_remove(section: str) -> Callable[[str, str], str]:
    def remove(text: str, name: str) -> str:
        whole = _parsed(text)
        servers = whole.get(section)
        if not isinstance(servers, dict) or name not in servers:
            return text
        del servers[name]
        return _dumped(whole, text)

    return remove


def _parsed(text: str) -> dict[str, Any]:
    try:
        whole = json.loads(text) if text.strip() else {}
    except ValueError as problem:
        raise InvalidInput(f"it is not plain JSON ({problem}), so it is left alone; nothing changed") from None
    if not isinstance(whole, dict):
        raise InvalidInput("it is not a JSON object, so it is left alone; nothing changed")
    return whole


def _dumped(whole: dict[str, Any], like: str) -> str:
    """Write JSON with the indentation that the text had."""
    found = re.search(r"\n([ \t]+)\S", like)
    indent: str | int = found.group(1) if found else 2
    return json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"


# ---- TOML -----------------------------------------------------------------------------------------------------------


def _toml_add(text: str, name: str, entry: Entry) -> str:
    kept = _toml_remove(text, name)
    lines = [
        f"[mcp_servers.{name}]",
        f"command = {json.dumps(entry.command)}",
        f"args = {json.dumps(list(entry.args))}",
    ]
    if entry.env:
        lines += ["", f"[mcp_servers.{name}.env]"]
        lines += [f"{variable} = {json.dumps(value)}" for variable, value in entry.env.items()]
    gap = "\n" if kept and not kept.endswith("\n\n") else ""
    made = kept + ("" if not kept or kept.endswith("\n") else "\n") + gap + "\n".join(lines) + "\n"
    _toml(made)
    return made


def _toml_remove(text: str, name: str) -> str:
    """Take out the tables of one server, and nothing else: comments and order stay."""
    if name not in _toml(text).get("mcp_servers", {}):
        return text
    kept, ours = [], False
    for line in text.splitlines(keepends=True):
        table, _, rest = line.strip().removeprefix("[").partition("]")
        if line.lstrip().startswith("[") and rest.strip()[:1] in ("", "#", "]"):  # not an array within a value
            table = table.strip().replace('"', "")
            ours = table == f"mcp_servers.{name}" or table.startswith(f"mcp_servers.{name}.")
        if not ours:
            kept.append(line)
    made = "".join(kept)
    if name in _toml(made).get("mcp_servers", {}):
        raise InvalidInput(f"{name!r} stands in it in a way that cannot be taken out safely; nothing changed")
    return made.rstrip("\n") + "\n" if made.strip() else ""


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidInput(f"it is not TOML ({problem}), so it is left alone; nothing changed") from None


# ---- the clients ----------------------------------------------------------------------------------------------------


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _settings_folder(environment: Mapping[str, str]) -> Path:
    """Return where programs with a window keep their settings."""
    if sys.platform == "darwin":
        return _home(environment) / "Library" / "Application Support"
    return Path(environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config")


CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client(
            name="claude-desktop",
            file=lambda env: _settings_folder(env) / "Claude" / "claude_desktop_config.json",
            add=_json_add("mcpServers", False),
            remove=_json_remove("mcpServers"),
            note="Quit and start Claude Desktop.",
        ),
        Client(
            name="claude-code",
            file=lambda env: Path.cwd() / ".mcp.json",
            add=_json_add("mcpServers", True),
            remove=_json_remove("mcpServers"),
            note="For this project; Claude Code asks once whether to trust it.",
        ),
        Client(
            name="cursor",
            file=lambda env: _home(env) / ".cursor" / "mcp.json",
            add=_json_add("mcpServers", False),
            remove=_json_remove("mcpServers"),
        ),
        Client(
            name="vscode",
            file=lambda env: _settings_folder(env) / "Code" / "User" / "mcp.json",
            add=_json_add("servers", True),
            remove=_json_remove("servers"),
        ),
        Client(
            name="codex",
            file=lambda env: (
                Path(env["CODEX_HOME"] if env.get("CODEX_HOME") else _home(env) / ".codex") / "config.toml"
            ),
            add=_toml_add,
            remove=_toml_remove,
        ),
    )
}

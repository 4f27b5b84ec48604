"""Paths of files: what one may look like, and which folders it lies in. Pure.

A path is given as it is stored. One that would have to be mended first (`..`, `//`, no `/` at the start) is refused, so
that two spellings never name one file and no path leaves the folder it seems to be in.
"""

from __future__ import annotations

from strongroom.errors import InvalidInput, shown
from strongroom.store import MAX_NAME, Key

FILE = "file"  # a document for each file there is: how large, which version, since when
HISTORY = "file_history"  # a stream for each path: every version of it, with its text
TEXT = "file_text"  # a document for each file there is: the words that a search finds
TREE = "file_tree"  # a document for each top folder, and one for files in none: how many files, how many bytes

ROOT = "/"
MAX_DEPTH = 16


def file_path(path: object, name: str = "path") -> str:
    """Return the path of a file, or raise `InvalidInput`."""
    if not isinstance(path, str) or not path.startswith("/") or path == ROOT:
        raise _wrong(path, name, "it begins with / and names a file, such as /notes/a.md")
    if len(path) > MAX_NAME or not path.isprintable():
        raise _wrong(path, name, f"it has at most {MAX_NAME} printable characters")
    parts = path[1:].split("/")
    if len(parts) > MAX_DEPTH:
        raise _wrong(path, name, f"it has at most {MAX_DEPTH} parts")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise _wrong(path, name, "no part of it is empty, . or ..")
    return path


def folder_path(path: object, name: str = "folder") -> str:
    """Return the path of a folder without a / at its end; the outermost one is /."""
    return ROOT if path == ROOT else file_path(path.removesuffix("/") if isinstance(path, str) else path, name)


def folders(path: str) -> list[str]:
    """Return the folders that a file lies in, but for the outermost one."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts))]


def tags(path: str) -> dict[str, str]:
    """Return what a scan finds a file by: the folder it lies in at each depth."""
    return {str(depth): folder for depth, folder in enumerate(folders(path), 1)}


def inside(folder: str) -> dict[str, str]:
    """Return the tags of all files that lie in a folder, at whatever depth."""
    return {} if folder == ROOT else {str(folder.count("/")): folder}


def tree_keys(space: str, path: str) -> tuple[Key, ...]:
    """Return the keys of what is counted where a path lies, the one that counts a file there last.

    A file in no folder is counted with all others in none, else each would have a budget to itself; and it is about
    its own name too, which could be a folder's.
    """
    _, top, *rest = path.split("/", 2)
    return (Key(space, TREE, top),) if rest else (Key(space, TREE, top), Key(space, TREE, ROOT))


def _wrong(path: object, name: str, rule: str) -> InvalidInput:
    return InvalidInput(f"{shown(path)} is no path of a file: {rule}", path=name)

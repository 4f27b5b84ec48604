"""Names of things, and what may be part of what is stored. Who breaks a rule is told before anything is sent."""

from __future__ import annotations

from msgspec import Struct

from strongroom.errors import InvalidInput

MAX_NAME = 255


# gc=False, here and in what is made of keys: nothing in it can refer back to it, and a commit may hold hundreds.
class Key(Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """The name of a document or stream. Each part is 1 to 255 printable characters."""

    space: str
    kind: str
    id: str

    def __post_init__(self) -> None:
        space, kind, id = self.space, self.kind, self.id
        if not (
            type(space) is type(kind) is type(id) is str
            and 0 < len(space) <= MAX_NAME
            and 0 < len(kind) <= MAX_NAME
            and 0 < len(id) <= MAX_NAME
            # isprintable() refuses control characters, NUL and lone surrogates, which not every database can hold.
            and space.isprintable()
            and kind.isprintable()
            and id.isprintable()
        ):
            require_name(space, "a space")
            # Callers know an id by their argument: `batch_id` of a memory_batch, `artifact_id` of an artifact-use.
            require_name(id, f"{require_name(kind, 'a kind').partition('-')[0].rpartition('_')[2]}_id")


def require_name(name: object, what: str) -> str:
    """Return what can name somebody or something, or raise `InvalidInput`."""
    if type(name) is not str or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        many = f" ({len(name):,} characters)" if type(name) is str and len(name) > MAX_NAME else ""
        raise InvalidInput(f"{what} must be 1 to {MAX_NAME} printable characters, not {name!r:.80}{many}")
    return name


def not_json(value: object) -> InvalidInput:
    return InvalidInput(f"a stored value must come from strongroom.codec.encode, not be a {type(value).__name__}")


def require_natural(*, or_none: bool = False, **numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is None and or_none:
            continue
        if type(number) is not int or not 0 <= number < 2**63 - 1:
            raise InvalidInput(f"{name} must be a whole number, 0 or more, not {number!r:.40}")


def require_text(text: str | None) -> None:
    # Lone surrogates come from cut-off UTF-16 and escape sequences of models; no database can hold them.
    if text is None or (type(text) is str and text.isascii()):
        return
    if type(text) is not str:
        raise InvalidInput(f"text must be a string, not {text!r:.40}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"text holds a lone surrogate: {text!r:.40}") from None


def require_tags(tags: dict[str, str]) -> None:
    try:
        if "".join([*tags, *tags.values()]).isprintable():
            return
    except TypeError:
        pass
    raise InvalidInput(f"tags must be printable names and values, not {tags!r:.200}")

"""What callers pass to a service is what its signature says, or they hear about it before anything happens.

`@checked` on a class looks at the arguments of its public methods, on a function at its own. The annotations are the
rules, so there is nothing to keep in step; what they cannot say (a name that exists, two that exclude each other) the
methods look at themselves. Without this a wrong type would surface wherever it first hurts, or be stored and hurt
whoever reads it.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from msgspec import Meta, Struct

from strongroom.errors import InvalidInput, hidden, shown
from strongroom.meant import meant_argument, meant_value, some_of

C = TypeVar("C", bound=type[Any])
T = TypeVar("T", bound=Callable[..., Any])

# How many of something: `limit` of a page, `k` of a search. Never 0: a page of none would say that there is no more.
# Doors that answer all at once, over a line or to a screen, have a lower most of their own.
MOST = 1_000_000_000
Count = Annotated[int, Meta(ge=1, le=MOST)]

_BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
_SECRET = {"key", "new_key", "signing_key"}  # arguments that no message shows


class Rule(NamedTuple):
    """What a value must be, in a test and in words. A value of one of the types in `quick` needs no test."""

    fits: Callable[[Any], bool]
    words: str
    quick: frozenset[type] = frozenset()


def checked(target: T) -> T:
    """Let a function, or a class and its public methods, refuse arguments that are not what their annotations say."""
    if inspect.isfunction(target):
        return cast("T", _checked(target))
    for name, method in list(vars(target).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(target, name, _checked(method))
    return target


def got_by(how: str, fits: Callable[[Any], bool]) -> Callable[[C], C]:
    """Let a class whose instances a context gives say so to whoever makes one by hand, with the line to write instead.

    `fits` knows what it is really made of by what comes first. It is no `__new__`: copies are made without any parts.
    What those parts are is nobody's business, so help and signatures do not tell.
    """

    def decorate(cls: C) -> C:
        make = cls.__init__

        def made(self: Any, *parts: Any, **more: Any) -> None:
            if not (parts and fits(parts[0])):
                raise InvalidInput(f"{_a(cls.__name__)} is not made by hand; write {how}")
            make(self, *parts, **more)

        made.__name__, made.__qualname__, made.__module__ = "__init__", make.__qualname__, make.__module__
        made.__doc__ = f"Not for programs: write {how}."
        cls.__init__ = made
        return cls

    return decorate


def secrets_of(method: Callable[..., Any]) -> list[str]:
    """Return the names of arguments that open something, whose values nothing may show."""
    return [name for name, kind in method.__annotations__.items() if "Secret" in str(kind)]


def check_fields(value: Struct) -> None:
    """Refuse a struct that was made by hand with fields that are not what their annotations say."""
    for name, rule in _fields(type(value)).items():
        _demand(rule, name, getattr(value, name))


def takes(names: Sequence[str], given: str = "") -> str:
    """Return what a call takes, in words, with a guess at what `given` was meant to be."""
    plain = {name.removesuffix("="): name for name in names}
    near = meant_argument(given, [*plain])
    if near is None:
        return f"it takes {some_of(names)}"
    return f"did you mean {near}?; it takes {some_of(names, [plain[near]])}"


def explained(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], whose: str = ""
) -> TypeError | None:
    """Return how a call that was refused does not fit its function, and what does; None if it fits."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as problem:
        taken = [each for each in signature.parameters.values() if each.name != "self"]
        names = [f"{each.name}=" if each.kind is each.KEYWORD_ONLY else each.name for each in taken]
        unknown = next((name for name in kwargs if name not in {each.name for each in taken}), "")
        told = str(problem)
        if unknown and not any(each.kind is each.VAR_KEYWORD for each in taken):
            # Said before what is missing, as Python does of a function: a wrong word is why a right one is not there.
            told = f"got an unexpected keyword argument {unknown!r:.80}"
        elif told == "too many positional arguments":
            told += _by_name(function.__name__, signature, args[-1])
        return TypeError(f"{whose}{function.__name__}(): {told}; {takes(names, unknown)}")
    return None


def _by_name(call: str, signature: inspect.Signature, given: object) -> str:
    """Return how to write what was passed by its place to what takes any names: as a mapping of them, mostly."""
    any_names = next((each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD), None)
    if any_names is None:
        return ""
    words = [name for name in given if isinstance(name, str)] if isinstance(given, Mapping) else []
    written = ", ".join(f"{name:.80}=..." for name in words[:3]) or "name=..."
    return f" ({any_names} are passed by name: {call}({written}))"


def whole_number(least: int, most: int) -> str:
    """Return what a number between bounds is called, by every door that refuses one."""
    return f"a whole number from {least} to {most:,}"


def beyond(kind: Any, given: Any) -> str:
    """Return what is wrong with the first number in what came from elsewhere that is beyond the bounds its field has;
    nothing if none is. What comes in an address is text."""
    if not (isinstance(kind, type) and issubclass(kind, Struct) and isinstance(given, Mapping)):
        return ""
    for name, rule in _bounded(kind).items():
        value = given.get(name)
        number = int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value) else value
        if number is not None and not rule.fits(number):
            return f"{name} must be {rule.words}, not {number!r:.40}"
    return ""


def require_positive(**numbers: float | None) -> None:
    """Refuse a number that is not above 0 and finite. None means that there is none."""
    for name, number in numbers.items():
        if number is not None and not 0 < number < math.inf:
            raise InvalidInput(f"{name} must be more than 0, not {number!r:.40}")


@lru_cache
def _fields(cls: type[Struct]) -> dict[str, Rule]:
    rules = {name: _rule(annotation) for name, annotation in typing.get_type_hints(cls).items()}
    return {name: rule for name, rule in rules.items() if rule is not None}


@lru_cache
def _bounded(cls: type[Struct]) -> dict[str, Rule]:
    hints = typing.get_type_hints(cls, include_extras=True)
    found = {name: [one for one in (hint, *typing.get_args(hint)) if _bounds(one)] for name, hint in hints.items()}
    return {name: rule for name, ranges in found.items() if ranges and (rule := _rule(ranges[0])) is not None}


def _bounds(annotation: Any) -> tuple[int, int] | None:
    """Return from where to where a whole number is annotated to be; None of all else."""
    if typing.get_origin(annotation) is not Annotated or typing.get_args(annotation)[0] is not int:
        return None
    said = [one for one in typing.get_args(annotation) if isinstance(one, Meta)]
    return next(((int(one.ge), int(one.le)) for one in said if one.ge is not None and one.le is not None), None)


def _demand(rule: Rule, name: str, value: Any, told: str = "") -> None:
    if not rule.fits(value):
        place = None if name in _SECRET else _misfit(rule, value)
        seen = shown(value) if place is None else f"{shown(value[place])} as {name}[{place}]"
        seen = f"a {type(value).__name__}" if name in _SECRET else seen
        raise InvalidInput(f"{name} must be {rule.words}, not {seen}{meant_value(name, value)}{told}")


def _misfit(rule: Rule, value: Any) -> int | None:
    """Return the place of what is wrong in a list, where a list is right."""
    if not isinstance(value, (list, tuple)) or not rule.fits(type(value)()):
        return None
    return next((place for place, one in enumerate(value) if not rule.fits(type(value)((one,)))), None)


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    rules: dict[str, Rule] = {}
    quick: dict[str, frozenset[type]] | None = None  # once they are known, because annotations may name what is to come
    order: list[str] = []
    told = ""
    secrets = secrets_of(method)

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        nonlocal quick, told
        for name in secrets:
            if name in kwargs:
                kwargs[name] = hidden(kwargs[name])  # in the frame of our caller, too: it is the same mapping
        if quick is None:
            rules.update(_rules(method))
            signature = inspect.signature(method)
            order[:] = [each.name for each in signature.parameters.values() if each.kind in _BY_PLACE]
            told = (
                "; nothing changed" if "commit_id" in signature.parameters else ""
            )  # whatever writes can be repeated by an id
            quick = {name: rule.quick for name, rule in rules.items()}
        for name, value in kwargs.items():
            if name in quick and type(value) not in quick[name]:
                kwargs[name] = _plain(value)
                _demand(rules[name], name, kwargs[name], told)
        if len(args) > 1 or "self" not in order:  # most calls name everything
            for place, (name, value) in enumerate(zip(order, args, strict=False)):
                if name in quick and type(value) not in quick[name]:
                    args = (*args[:place], _plain(value), *args[place + 1 :])
                    _demand(rules[name], name, args[place], told)
        return args

    def raise_explained(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        whose = f"{type(args[0]).__name__}." if args and order[:1] == ["self"] else ""
        if problem := explained(method, args, kwargs, whose):
            raise problem from None

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def called(*args: Any, **kwargs: Any) -> Any:
            args = check(args, kwargs)
            try:
                return await method(*args, **kwargs)
            except TypeError:
                raise_explained(args, kwargs)
                raise

    else:

        @wraps(method)
        def called(*args: Any, **kwargs: Any) -> Any:
            args = check(args, kwargs)
            try:
                return method(*args, **kwargs)
            except TypeError:
                raise_explained(args, kwargs)
                raise

    return called


def _plain(value: Any) -> Any:
    """Return the text of a subclass of `str`, which may compare and show itself as it likes; else the value."""
    return str.__str__(value) if isinstance(value, str) else value


def _rules(method: Callable[..., Any]) -> dict[str, Rule]:
    rules = {name: _rule(hint) for name, hint in typing.get_type_hints(method, include_extras=True).items()}
    rules.pop("return", None)
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            del rules[name]  # what it says is about each of them, or about none
    return {name: rule for name, rule in rules.items() if rule is not None}


def _is_number(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and type(value) is not bool


_PLAIN: dict[Any, Rule] = {
    str: Rule(lambda value: isinstance(value, str), "text", frozenset({str})),
    bytes: Rule(lambda value: isinstance(value, bytes), "bytes", frozenset({bytes})),
    bool: Rule(lambda value: type(value) is bool, "True or False", frozenset({bool})),
    int: Rule(lambda value: _is_number(value, int), "a whole number", frozenset({int})),
    float: Rule(lambda value: _is_number(value, (int, float)) and value == value, "a number", frozenset({int})),
    type(None): Rule(lambda value: value is None, "None", frozenset({type(None)})),
    Mapping: Rule(lambda value: isinstance(value, Mapping), "a mapping", frozenset({dict})),
    Callable: Rule(callable, "a function"),
    os.PathLike: Rule(lambda value: isinstance(value, os.PathLike), "a path"),
}


def _rule(annotation: Any) -> Rule | None:
    """Return the rule in an annotation; None if it says nothing that could be looked at."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if bounds := _bounds(annotation):
        least, most = bounds
        return Rule(lambda value: _is_number(value, int) and least <= value <= most, whole_number(least, most))
    if origin is Annotated:
        return _rule(inner[0])
    if origin in (typing.Union, types.UnionType):
        return _either([_rule(one) for one in inner])
    if origin is Literal:
        return Rule(lambda value: type(value) is str and value in inner, f"one of {', '.join(map(str, inner))}")
    if origin is tuple and inner[1:] == (...,):
        each = _rule(inner[0])
        return Rule(lambda value: isinstance(value, tuple) and _all(each, value), f"a tuple{_each(each)}")
    if origin is frozenset:
        return _set(_rule(inner[0]))
    if origin in (Sequence, Iterable):
        return _items(_rule(inner[0]))
    if origin is Mapping:
        return _mapping(*map(_rule, inner))
    if origin in _PLAIN:
        return _PLAIN[origin]
    if typing.is_typeddict(annotation):
        return Rule(lambda value: isinstance(value, Mapping) and _all(_PLAIN[str], value), "a mapping from text")
    if isinstance(annotation, type) and annotation is not Any and not getattr(annotation, "_is_protocol", False):
        words = f"{_a(annotation.__name__)}{getattr(annotation, '_GOT_BY', '')}"
        return Rule(lambda value: isinstance(value, annotation), words, frozenset({annotation}))
    return None


def _a(name: str) -> str:
    return f"a{'n' if name[0] in 'AEIOU' else ''} {name}"


def _either(rules: list[Rule | None]) -> Rule | None:
    if None in rules:
        return None
    known = [*dict.fromkeys(rule for rule in rules if rule is not None)]
    *others, last = dict.fromkeys(rule.words for rule in known)
    words = f"{', '.join(others)} or {last}" if others else last
    quick = frozenset[type]().union(*[rule.quick for rule in known])

    def fits(value: Any) -> bool:
        for rule in known:  # noqa: SIM110 - any() with a generator takes twice as long
            if rule.fits(value):
                return True
        return False

    return Rule(fits, words, quick)


def _mapping(key: Rule | None, value: Rule | None) -> Rule:
    def fits(given: Any) -> bool:
        return isinstance(given, Mapping) and _all(key, given) and _all(value, given.values())

    words = [rule.words if rule else "anything" for rule in (key, value)]
    return Rule(fits, f"a mapping from {words[0]} to {words[1]}", frozenset({dict} if key is value is None else ()))


def _all(rule: Rule | None, values: Iterable[Any]) -> bool:
    return rule is None or rule.quick.issuperset(map(type, values)) or all(map(rule.fits, values))


def _set(rule: Rule | None) -> Rule:
    def fits(value: Any) -> bool:
        return isinstance(value, (set, frozenset, list, tuple)) and _all(rule, value)

    return Rule(fits, f"a set{_each(rule)}")


def _items(rule: Rule | None) -> Rule:
    def fits(value: Any) -> bool:
        if type(value) is list or type(value) is tuple:
            return _all(rule, value)
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            return False
        return not isinstance(value, Sequence) or _all(rule, value)

    return Rule(fits, f"a list{_each(rule)}", frozenset({list, tuple} if rule is None else ()))


def _each(rule: Rule | None) -> str:
    return "" if rule is None else f", each {rule.words}"

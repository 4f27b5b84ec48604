"""Arguments as a schema allows them, and as nobody should send them."""

from __future__ import annotations

from random import Random
from typing import Any

ODD_TEXT = [
    "", " ", "\x00", "\x01" * 50, "é" * 300, "\u202e", "a/b", "../../x", "%00", "' OR 1=1 --", "{{x}}", "💥" * 20,
    "null", "x" * 255, "x" * 256, "x" * 9_000, "mem_", "batch_", "strongroom://", "-1", "1e9", "NaN",
    "\n" * 40,
]  # fmt: skip
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53,
    2**63,
    2**70,
    -(2**63) - 1,
    0.5,
    -0.0,
    1e308,
    [],
    [[]],
    {},
    {"a": {}},
]


class Generator:
    """Makes arguments from a JSON Schema, mostly good ones. `ids` are those that there are, here and elsewhere."""

    def __init__(self, seed: int, ids: list[str]) -> None:
        self.chance = Random(seed)
        self._ids = ids

    def arguments(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return arguments for a tool: good, or with something wrong in one or two places."""
        made: Any = self.value(schema, depth=0)
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            made = self.spoilt(made)
        return made if isinstance(made, dict) else {"value": made}

    def value(self, schema: dict[str, Any], depth: int) -> Any:
        chance = self.chance
        if "anyOf" in schema:
            return self.value(chance.choice(schema["anyOf"]), depth)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if kind == "object":
            properties = schema.get("properties")
            if properties is None:
                return {chance.choice(("tool_name", "ok", "blockers", "x")): self.anything(depth + 1)}
            required = schema.get("required", [])
            return {
                name: self.value(part, depth + 1)
                for name, part in properties.items()
                if name in required or chance.random() < 0.4
            }
        if kind == "array":
            low, high = schema.get("minItems", 0), min(schema.get("maxItems", 4), 4)
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(chance.randint(low, max(low, high)))]
        if kind == "integer":
            return chance.randint(schema.get("minimum", -5), min(schema.get("maximum", 100), 10_000))
        if kind == "number":
            return chance.uniform(schema.get("minimum", 0), schema.get("maximum", 1))
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "null":
            return None
        if kind == "string":
            return chance.choice([*self._ids, *ODD_TEXT, "tea", "red door", "one two three"])
        return self.anything(depth)

    def anything(self, depth: int) -> Any:
        if depth > 4 or self.chance.random() < 0.6:
            return self.chance.choice([*ODD, *ODD_TEXT, *self._ids])
        return [self.anything(depth + 1)] if self.chance.random() < 0.5 else {"k": self.anything(depth + 1)}

    def spoilt(self, value: Any) -> Any:
        """Return the value with something in it exchanged, left out or added."""
        chance = self.chance
        if isinstance(value, dict) and value and chance.random() < 0.8:
            name = chance.choice(list(value))
            fate = chance.random()
            if fate < 0.2:
                return {key: each for key, each in value.items() if key != name}
            if fate < 0.3:
                return {**value, chance.choice(("space", "role", "__class__", "x" * 300)): self.anything(1)}
            return {**value, name: self.spoilt(value[name])}
        if isinstance(value, list) and value and chance.random() < 0.7:
            return [self.spoilt(value[0]), *value[1:]] if chance.random() < 0.7 else value * 300
        return self.anything(1)

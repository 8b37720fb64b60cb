"""Ways to describe a JSON schema to a model: the schema itself, a type in TypeScript, an example."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["STYLES", "example", "json_schema", "typescript"]

#: Keywords that a type cannot say.
_SAID = ("format", "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "default")


def json_schema(schema: Any) -> str:
    """Return the schema as JSON."""
    return json.dumps(schema, ensure_ascii=False)


def typescript(schema: Any) -> str:
    """Return the schema as a type in the manner of TypeScript; what that cannot say stands in comments."""
    writer = _TypeScript(schema)
    text = writer.of(schema, 0)
    return "\n".join([*(f"type {name} = {body}" for name, body in writer.named.items()), text])


class _TypeScript:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.named: dict[str, str] = {}

    def of(self, schema: Any, depth: int) -> str:
        if not isinstance(schema, dict):
            return "any" if schema is not False else "never"
        if "$ref" in schema:
            return self.reference(str(schema["$ref"]))
        if "const" in schema:
            return json.dumps(schema["const"], ensure_ascii=False)
        if "enum" in schema:
            return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return " | ".join(dict.fromkeys(self.of(sub, depth) for sub in schema[key]))
        kinds = schema.get("type", "object" if "properties" in schema else "any")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return " | ".join(self.kind(kind, schema, depth) for kind in kinds)

    def reference(self, pointer: str) -> str:
        name = pointer.rsplit("/", 1)[-1] or "Root"
        if name not in self.named:
            found = self.root
            for step in pointer.split("/")[1:]:
                found = found.get(step, {}) if isinstance(found, dict) else {}
            self.named[name] = ""  # it may refer to itself
            self.named[name] = self.of(found, 0)
        return name

    def kind(self, kind: str, schema: dict[str, Any], depth: int) -> str:
        match kind:
            case "integer":
                return "integer"
            case "array" if "prefixItems" in schema:
                return f"[{', '.join(self.of(sub, depth) for sub in schema['prefixItems'])}]"
            case "array":
                item = self.of(schema.get("items", {}), depth)
                return f"({item})[]" if " | " in item else f"{item}[]"
            case "object" if schema.get("properties"):
                return self.members(schema, depth)
            case "object":
                return f"{{[key: string]: {self.of(schema.get('additionalProperties', {}), depth)}}}"
        return kind

    def members(self, schema: dict[str, Any], depth: int) -> str:
        pad, lines = "  " * (depth + 1), []
        for name, sub in schema["properties"].items():
            mark = "" if name in schema.get("required", ()) else "?"
            lines.append(f"{pad}{name}{mark}: {self.of(sub, depth + 1)};{_comment(sub)}")
        return "{\n" + "\n".join(lines) + "\n" + "  " * depth + "}"


def _comment(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    said = [str(schema["description"])] if "description" in schema else []
    said += [f"{key} {schema[key]}" for key in _SAID if key in schema]
    return f" // {', '.join(said)}" if said else ""


def example(schema: Any) -> str:
    """Return one object with a placeholder for each value."""
    return json.dumps(_placeholder(schema, schema, ()), ensure_ascii=False)


def _placeholder(schema: Any, root: Any, seen: tuple[str, ...]) -> Any:
    if not isinstance(schema, dict):
        return "..."
    if "$ref" in schema:
        if schema["$ref"] in seen:
            return "..."
        found = root
        for step in str(schema["$ref"]).split("/")[1:]:
            found = found.get(step, {}) if isinstance(found, dict) else {}
        return _placeholder(found, root, (*seen, schema["$ref"]))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _placeholder(schema[key][0], root, seen)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {key: _placeholder(sub, root, seen) for key, sub in schema.get("properties", {}).items()}
        case "array":
            return [_placeholder(schema.get("items", {}), root, seen)]
        case "integer":
            return 0
        case "number":
            return 0.0
        case "boolean":
            return True
        case "null":
            return None
    return schema.get("description") or {"date": "YYYY-MM-DD"}.get(schema.get("format", ""), "...")


#: Style -> (the sentence in front of a response format's description, the description of a schema).
STYLES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "JSON Schema": ("Answer with JSON only, one value that is valid under this JSON schema:", json_schema),
    "TypeScript": ("Answer with JSON only, one value of this type:", typescript),
    "example": ("Answer with JSON only, one value of this form:", example),
}

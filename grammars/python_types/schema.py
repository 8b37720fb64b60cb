"""pydantic's JSON Schema of a type, with the rules that pydantic leaves out where strings can keep them.

What no schema can say (a validator written in Python, a bound of a time) becomes a row of the report.  Rows travel
inside the schema, under a key of our own, until `described` takes them out with the places where they stand.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from grammars.json_schema.document.python_formats import url_pattern
from grammars.python_types.kept_rules import decimal_text_pattern, is_hashable, key_pattern, pattern_keywords, within
from grammars.values.json_pointer import pointer_of
from grammars.values.report import Outcome, ReportRow

__all__ = ["PythonSchema", "described"]

_ROWS = "x-guided-rows"
_BOUNDS = ("gt", "ge", "lt", "le")
_NUMBER_RULES = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_DECIMAL_RULES = (*_NUMBER_RULES, "max_digits", "decimal_places")
#: pydantic's own functions around a type that may refuse what the schema allows, with what they want.
_REFUSING = {
    "validate_file": "the file must exist",
    "validate_directory": "the folder must exist",
    "validate_new": "nothing may exist there yet",
    "validate_socket": "the socket must exist",
    "_validate": "",
    "val_func": "the predicate may refuse the value",
}
#: pydantic's own functions whose values no answer of a model can, or should, be.
_FORBIDDEN = {
    "import_string": "a model must not choose what is imported (ImportString)",
    "pattern_bytes_validator": "patterns of bytes have no form in JSON",
}
_MAIL = "names of domains are judged by the package email_validator"
_BYTE_SIZE = r"^\s*(\d*\.?\d+)\s*(\w+)?"  # pydantic's pattern, wider than its reader
_BYTE_UNITS = "^[0-9]{1,12}(?:\\.[0-9]{1,3})? ?(?:[kmgtpeKMGTPE]i?)?[bB]$"


class PythonSchema(GenerateJsonSchema):
    """The schema of a type as the masks keep it; raises pydantic's error for a type that JSON cannot carry."""

    _parts: Mapping[str, Any] = {}  #: the definitions of the core schema, by reference

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No title that only repeats the key: models read all of the schema."""
        return False

    def field_is_present(self, field: Any) -> bool:
        """No field that a dataclass sets itself: what is written there would be lost."""
        return super().field_is_present(field) and field.get("init", True)

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        function: Any = schema.get("function") if str(schema.get("type")).startswith("function-") else None
        name = getattr(function["function"], "__name__", "") if function else ""
        if name in _FORBIDDEN and function["function"].__module__.startswith("pydantic"):
            raise PydanticInvalidForJsonSchema(_FORBIDDEN[name])
        return super().generate_inner(schema)

    # -- numbers

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """A JSON number, or a string, which keeps all digits: readers of JSON numbers keep 15."""
        rules = {name: schema[name] for name in _DECIMAL_RULES if schema.get(name) is not None}
        pattern, is_kept = decimal_text_pattern(rules)
        form = {"pattern": pattern} if rules else {"format": "decimal"}
        text = {"type": "string"} | form | ({} if is_kept else {_ROWS: [_relaxed("a bound or a step")]})
        digits, places, step = (rules.get(name) for name in ("max_digits", "decimal_places", "multiple_of"))
        if (digits is not None and not 0 <= (places or -1) < digits) or (places is not None and step is not None):
            return text  # what no number in a schema can say
        number: dict[str, Any] = {"type": "number"}
        number |= {_NUMBER_RULES[name]: _plain(rules[name]) for name in _NUMBER_RULES if name in rules}
        if places is not None:
            number["multipleOf"] = _plain(10**-places)
        if digits is not None and places is not None:
            largest = 10 ** (digits - places)
            number["allOf"] = [{"exclusiveMinimum": -largest, "exclusiveMaximum": largest}]
        return {"anyOf": [number, text]}

    def complex_schema(self, schema: Any) -> dict[str, Any]:
        raise PydanticInvalidForJsonSchema("complex numbers have no form in JSON")

    def fraction_schema(self, schema: Any) -> dict[str, Any]:
        raise PydanticInvalidForJsonSchema("fractions have no form in JSON (take Decimal or a pair of integers)")

    def is_subclass_schema(self, schema: Any) -> dict[str, Any]:
        raise PydanticInvalidForJsonSchema("a class has no form in JSON")

    # -- times

    def date_schema(self, schema: Any) -> dict[str, Any]:
        dates = {"type": "string", "format": "date"}
        today = datetime.date.today()
        limits = [(name, schema[name]) for name in _BOUNDS if schema.get(name) is not None]
        limits += {"past": [("lt", today)], "future": [("gt", today)]}.get(schema.get("now_op"), [])
        return within(dates, limits) | _of_now(schema)

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        form = {"aware": "date-time", "naive": "local-date-time"}.get(schema.get("tz_constraint"), "iso-date-time")
        today, two_days = datetime.date.today(), datetime.timedelta(days=2)  # zones are up to a day away
        limits = {"past": [("lt", today - two_days)], "future": [("gt", today + two_days)]}.get(
            schema.get("now_op"), []
        )
        return within({"type": "string", "format": form}, limits) | _of_now(schema) | _bounded(schema)

    def time_schema(self, schema: Any) -> dict[str, Any]:
        form = {"aware": "time", "naive": "local-time"}.get(schema.get("tz_constraint"), "iso-time")
        return {"type": "string", "format": form} | _bounded(schema)

    def timedelta_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": "string", "format": "timedelta"} | _bounded(schema)

    # -- texts

    def str_schema(self, schema: Any) -> dict[str, Any]:
        json_schema = super().str_schema(schema)
        pattern = json_schema.pop("pattern", None)
        stripped = schema.get("strip_whitespace", self._config.str_strip_whitespace)
        if stripped and (pattern is not None or "minLength" in json_schema):
            json_schema["allOf"] = [{"pattern": r"^(?:[^\s\x1c-\x1f\x85](?:[\s\S]*[^\s\x1c-\x1f\x85])?)?$"}]
        if pattern == _BYTE_SIZE:
            return {**json_schema, "pattern": _BYTE_UNITS}
        if pattern is not None:
            engine = schema.get("regex_engine", self._config.regex_engine)
            keywords, left = pattern_keywords(schema["pattern"], engine)
            json_schema |= {"allOf": [*json_schema["allOf"], keywords]} if "allOf" in json_schema else keywords
            json_schema |= {_ROWS: [["pattern", *_relaxed(left)[1:]]]} if left else {}
        return json_schema

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        form = self._config.val_json_bytes
        size = {name for name in ("min_length", "max_length") if schema.get(name) is not None}
        if form == "utf8":
            json_schema = {key: value for key, value in super().bytes_schema(schema).items() if key != "format"}
            return {**json_schema, "pattern": "^[\\u0000-\\u007f]*$"} if size else json_schema
        json_schema = {"type": "string", "format": "base64url"}
        if form == "hex":
            json_schema = {"type": "string", "pattern": "^(?:[0-9a-f]{2})*$"}
        return {**json_schema, _ROWS: [_relaxed("the number of bytes")]} if size else json_schema

    def json_schema(self, schema: Any) -> dict[str, Any]:
        rows = [_row(Outcome.NARROWED, "JSON in a string: without escapes, objects and lists of plain values")]
        rows += [_relaxed("the type inside the string")] if "schema" in schema else []
        return {**super().json_schema(schema), "format": "json-string", _ROWS: rows}

    def url_schema(self, schema: Any) -> dict[str, Any]:
        schemes = schema.get("allowed_schemes") or ("http", "https")
        json_schema = {**super().url_schema(schema), "format": "http-url"}
        if not {*schemes} <= {"http", "https"}:
            json_schema = {**json_schema, "format": "uri", "pattern": f"^{url_pattern(schemes)}$"}
        elif len(schemes) == 1:
            json_schema = {**json_schema, "pattern": f"^{schemes[0]}:"}
        return {**json_schema, _ROWS: [_row(Outcome.NARROWED, "addresses of plain letters, with a host by name")]}

    def multi_host_url_schema(self, schema: Any) -> dict[str, Any]:
        return self.url_schema(schema)

    # -- keys, members, choices

    def definitions_schema(self, schema: Any) -> dict[str, Any]:
        self._parts = {**self._parts, **{each["ref"]: each for each in schema["definitions"]}}
        return super().definitions_schema(schema)

    def set_schema(self, schema: Any) -> dict[str, Any]:
        return self._of_hashable(super().set_schema(schema), schema)

    def frozenset_schema(self, schema: Any) -> dict[str, Any]:
        return self._of_hashable(super().frozenset_schema(schema), schema)

    def _of_hashable(self, json_schema: dict[str, Any], schema: Any) -> dict[str, Any]:
        """``json_schema`` with a row where items might not be hashed; raises where none can be."""
        items = schema.get("items_schema", {"type": "any"})
        hashable = is_hashable(items, self._parts)
        if hashable is False:
            raise PydanticInvalidForJsonSchema("its items cannot be hashed (take a list, or freeze them)")
        rows = [] if hashable else [_relaxed("items that can be hashed")]
        return {**json_schema, _ROWS: [*json_schema.get(_ROWS, ()), *rows]}

    def _common_dict_schema(self, schema: Any) -> dict[str, Any]:
        json_schema = super()._common_dict_schema(schema)
        return self._with_keys(json_schema, schema)

    if not hasattr(GenerateJsonSchema, "_common_dict_schema"):  # before pydantic 2.14

        def dict_schema(self, schema: Any) -> dict[str, Any]:
            return self._with_keys(super().dict_schema(schema), schema)

    def _with_keys(self, json_schema: dict[str, Any], schema: Any) -> dict[str, Any]:
        keys = self._key_schema(self.generate_inner(schema["keys_schema"])) if "keys_schema" in schema else None
        others = {
            name: value for name, value in json_schema.items() if name not in ("propertyNames", "patternProperties")
        }
        if "patternProperties" in json_schema:  # pydantic's place of a pattern of keys
            others["additionalProperties"] = next(iter(json_schema["patternProperties"].values()))
        return {**others, "propertyNames": keys} if keys else others

    def _key_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of the keys that are read as values of ``schema``; raises if no key is."""
        if "$ref" in schema:
            schema = self.get_schema_from_definitions(schema["$ref"]) or {}
        if "anyOf" in schema:
            return {"anyOf": [self._key_schema(option) for option in schema["anyOf"]]}
        kind, values = schema.get("type"), schema.get("enum", [schema["const"]] if "const" in schema else [])
        if kind == "string" or (values and all(isinstance(value, str) for value in values)):
            return {
                key: value for key, value in schema.items() if key not in ("type", "title", "description", "default")
            }
        if kind == "boolean" and not values:
            return {"enum": ["true", "false"]}
        if kind in ("integer", "number") and not values:
            pattern, is_kept = key_pattern(schema)
            return {"pattern": pattern} | ({} if is_kept else {_ROWS: [_relaxed("the bounds of a key")]})
        if not kind and not values:
            return {}
        raise PydanticInvalidForJsonSchema(f"keys of {kind or 'such values'}: in JSON a key is a text")

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        _check_members([member.value for member in schema["members"]])
        return super().enum_schema(schema)

    def literal_schema(self, schema: Any) -> dict[str, Any]:
        expected = schema["expected"]
        if any(isinstance(value, Enum) and not isinstance(value, str) for value in expected):
            raise PydanticInvalidForJsonSchema(
                "a member of an enum as Literal that is not a text: take the enum itself"
            )
        _check_members([value.value if isinstance(value, Enum) else value for value in expected])
        return super().literal_schema(schema)

    def chain_schema(self, schema: Any) -> dict[str, Any]:
        json_schema = super().chain_schema(schema)
        asked = [step["cls"].__name__ for step in schema["steps"][1:] if step["type"] == "is-instance"]
        return (
            {**json_schema, _ROWS: [*json_schema.get(_ROWS, ()), _relaxed(f"{asked[0]} alone")]}
            if asked
            else json_schema
        )

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        """The union with its tag required: pydantic looks for it even where it has a default."""
        json_schema = super().tagged_union_schema(schema)
        tag = json_schema.get("discriminator", {}).get("propertyName")
        json_schema = json_schema if tag is None else {**json_schema, "required": [tag]}
        if callable(schema.get("discriminator")):
            json_schema = {"anyOf" if key == "oneOf" else key: value for key, value in json_schema.items()}
            return {**json_schema, _ROWS: [_relaxed("a function chooses among the members of the union")]}
        return json_schema

    def model_fields_schema(self, schema: Any) -> dict[str, Any]:
        self._check_aliases(schema["fields"].items())
        return super().model_fields_schema(schema)

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        self._check_aliases(schema["fields"].items())
        return super().typed_dict_schema(schema)

    def dataclass_args_schema(self, schema: Any) -> dict[str, Any]:
        self._check_aliases([(field["name"], field) for field in schema["fields"]])
        return super().dataclass_args_schema(schema)

    def arguments_schema(self, schema: Any) -> dict[str, Any]:
        asked = [(each["name"], each.get("alias", each["name"])) for each in schema["arguments_schema"]]
        self._check_aliases([(name, {"validation_alias": alias}) for name, alias in asked])
        return super().arguments_schema(schema)

    def _check_aliases(self, fields: Any) -> None:
        """Raise where two members are read from the same key, or one from inside another value."""
        seen: dict[str, str] = {}
        for name, field in fields:
            alias = field.get("validation_alias", name)
            if isinstance(alias, list):
                paths = [alias] if alias and not isinstance(alias[0], list) else alias
                key = next((path[0] for path in paths if len(path) == 1), None)
                if key is None:
                    raise PydanticInvalidForJsonSchema(f"{name!r} is read from inside another value (AliasPath)")
                alias = key
            if alias in seen:
                raise PydanticInvalidForJsonSchema(f"{seen[alias]!r} and {name!r} are both read from the key {alias!r}")
            seen[alias] = name

    # -- what Python code decides

    def model_schema(self, schema: Any) -> dict[str, Any]:
        json_schema = super().model_schema(schema)
        name = "__init__" if schema.get("custom_init") else schema.get("post_init")
        return json_schema if name is None or name == "init_private_attributes" else _judged_by(json_schema, str(name))

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        json_schema = super().dataclass_schema(schema)
        return _judged_by(json_schema, "__post_init__") if schema.get("post_init") else json_schema

    def function_after_schema(self, schema: Any) -> dict[str, Any]:
        return _with_function(super().function_after_schema(schema), schema)

    def function_before_schema(self, schema: Any) -> dict[str, Any]:
        return _with_function(super().function_before_schema(schema), schema)

    def function_wrap_schema(self, schema: Any) -> dict[str, Any]:
        return _with_function(super().function_wrap_schema(schema), schema)

    def function_plain_schema(self, schema: Any) -> dict[str, Any]:
        return _with_function(super().function_plain_schema(schema), schema)


def described(schema: Any) -> tuple[dict[str, Any], tuple[ReportRow, ...]]:
    """Return the schema without our rows, and the rows with their places."""
    rows: list[ReportRow] = []
    return _taken(schema, (), rows), tuple(rows)


def _taken(schema: Any, path: tuple[str, ...], rows: list[ReportRow]) -> Any:
    if isinstance(schema, list):
        return [_taken(item, (*path, str(i)), rows) for i, item in enumerate(schema)]
    if not isinstance(schema, Mapping):
        return schema
    for keyword, outcome, reason in schema.get(_ROWS, ()):
        rows.append(ReportRow(pointer_of(path), keyword, Outcome(outcome), reason))
    named = path[-1] if path[-2:-1] == ("$defs",) else None  # its title only repeats the name
    return {
        key: _taken(value, (*path, key), rows)
        for key, value in schema.items()
        if key != _ROWS and not (key == "title" and value == named)
    }


def _row(outcome: Outcome, reason: str) -> list[str]:
    return ["type", outcome.value, reason]


def _relaxed(what: str) -> list[str]:
    return _row(Outcome.RELAXED, f"{what}: judged by the Python type, after generation")


def _bounded(schema: Any) -> dict[str, Any]:
    named = [name for name in _BOUNDS if schema.get(name) is not None]
    return {_ROWS: [_relaxed(f"{', '.join(named)} of a time")]} if named else {}


def _of_now(schema: Any) -> dict[str, Any]:
    match schema.get("now_op"):
        case "past":
            return {_ROWS: [_row(Outcome.NARROWED, "the past is what lies before the day of the plan")]}
        case "future":
            return {_ROWS: [_relaxed("the future is what lies after the day of the plan")]}
    return {}


def _plain(value: Any) -> Any:
    """A bound as JSON writes it."""
    number = float(value)
    return int(number) if number.is_integer() else number


def _check_members(values: Any) -> None:
    for value in values:
        if not isinstance(value, str | int | float | None):
            raise PydanticInvalidForJsonSchema(f"the value {value!r} of an enum has no form in JSON")


def _judged_by(json_schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {**json_schema, _ROWS: [*json_schema.get(_ROWS, ()), _relaxed(f"the validator {name}")]}


def _with_function(json_schema: dict[str, Any], schema: Any) -> dict[str, Any]:
    """``json_schema`` with what a function around a type asks for, as far as a pattern can, and a row for the rest."""
    function = schema["function"]["function"]
    if isinstance(function, functools.partial):
        name = function.func.__name__
        if function.func.__module__.startswith("pydantic") and name in ("defaultdict_validator", "sequence_validator"):
            return json_schema
        rules = ", ".join(f"{key} {value}" for key, value in function.keywords.items())
        return _judged_by(json_schema, f"{name} ({rules})" if rules else name)
    name, module = getattr(function, "__name__", type(function).__name__), getattr(function, "__module__", "") or ""
    if name == "decode_str" and module == "pydantic.types":
        form = f"{function.__self__.encoder.get_json_format()}-ascii"
        return {**json_schema, "allOf": [{"format": form}], _ROWS: [_row(Outcome.NARROWED, "Base64 of ASCII text")]}
    if module.partition(".")[0] not in ("pydantic", "ipaddress", "builtins", "operator", "re"):
        return _judged_by(json_schema, name)
    if name in _REFUSING and not (name == "_validate" and "email" not in str(json_schema.get("format"))):
        return {**json_schema, _ROWS: [*json_schema.get(_ROWS, ()), _relaxed(_REFUSING[name] or _MAIL)]}
    return json_schema if module != "builtins" or isinstance(function, type) else _judged_by(json_schema, name)

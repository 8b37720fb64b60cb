"""One hand-written tool-call format for every shape seen in the field, and calls to render with them."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from grammars.values.format import Option, ToolCallFormat
from grammars.values.spelling import Spelling
from grammars.values.tool import Call, Tool
from tests.made_up.schemas import closed

__all__ = ["FORMS", "MARKERS", "TOOLS", "calls", "form"]


def form(syntax: str, **fields: Any) -> ToolCallFormat:
    """A format whose unknown fields are the syntax's options."""
    known = ToolCallFormat.__dataclass_fields__
    options: tuple[tuple[str, Option], ...] = tuple(sorted((k, v) for k, v in fields.items() if k not in known))
    return ToolCallFormat(syntax, options=options, **{k: v for k, v in fields.items() if k in known})


_XML = {"call": "$name>\n$parameters", "call_start": "<tool_call>\n<function="}
_KIMI = {"section_start": "<|tool_calls_section_begin|>", "section_end": "<|tool_calls_section_end|>"}
_DSML = {"section_start": "<|DSML|tool_calls>\n", "section_end": "</|DSML|tool_calls>"}

FORMS: dict[str, ToolCallFormat] = {
    "tags": form("json_in_tags", call_start="<tool_call>\n", call_end="\n</tool_call>", between="\n", gap="\n"),
    "tags with other keys": form(
        "json_in_tags", call_start="<call>", call_end="</call>", name_key="tool", args_key="parameters"
    ),
    "tags around the client's own object": form(
        "json_in_tags",
        call_start="<tool_call>",
        call_end="</tool_call>",
        body='{"type": "function", "function": {"arguments": $arguments, "name": "$name"}}',
    ),
    "bare": form("bare_json", args_key="parameters", max_calls=1, text_before=False),
    "array": form("json_array", section_start="[TOOL_CALLS][", section_end="]", between=", ", id_style="alnum9",
                  body='{"name": "$name", "arguments": $arguments, "id": "$id"}'),
    "array, indented": form("json_array", section_start="<|START_ACTION|>[\n    ", section_end="\n]<|END_ACTION|>",
                            between=",\n    ",
                            body='{"tool_call_id": "$index", "tool_name": "$name", "parameters": $arguments}'),
    "array without wrapper": form("json_array", section_start="[", section_end="]", between=", ", text_before=False),
    "array, name as key": form("json_array", section_start="<|tools_prefix|>[", section_end="]<|tools_suffix|>",
                               between=", ", body='{"$name": $arguments}'),
    "name, separator": form("name_then_json", call_start="[TOOL_CALLS]", call="$name[ARGS]$arguments"),
    "name, id, separator": form("name_then_json", call_start="[TOOL_CALLS]", id_style="alnum9",
                                call="$name[CALL_ID]$id[ARGS]$arguments"),
    "name in a tag": form("name_then_json", call_start="<function=", call="$name>$arguments", call_end="</function>"),
    "name and number": form("name_then_json", call_start="<|tool_call_begin|>", call_end="<|tool_call_end|>",
                            call="functions.$name:$index<|tool_call_argument_begin|>$arguments",
                            id_style="functions.$name:$index", **_KIMI),
    "fenced": form("name_then_json", section_start="<|tool_calls_begin|>", section_end="<|tool_calls_end|>",
                   call_start="<|tool_call_begin|>function<|tool_sep|>", call_end="\n```<|tool_call_end|>",
                   call="$name\n```json\n$arguments", between="\n"),
    "xml": form("xml_equals", call_end="</function>\n</tool_call>", between="\n", gap="\n\n",
                parameter="<parameter=$key>\n$value\n</parameter>\n", words="True False None", **_XML),
    "xml, tight": form("xml_equals", call_end="</function>\n</tool_call>\n",
                       parameter="<parameter=$key>$value</parameter>\n", **_XML),
    "invoke": form("invoke", section_start="<minimax:tool_call>\n", section_end="</minimax:tool_call>"),
    "invoke with a flag": form("invoke", call_start='<|DSML|invoke name="', call_end="</|DSML|invoke>\n",
                               call='$name">\n$parameters',
                               parameter='<|DSML|parameter name="$key" string="$is_string">$value</|DSML|parameter>\n',
                               **_DSML),
    "key tags": form("key_tags", call_start="<tool_call>", call_end="</tool_call>", between="\n"),
    "key tags, tight": form("key_tags", call_start="<tool_call>", call_end="</tool_call>", call="$name$parameters",
                            parameter="<arg_key>$key</arg_key><arg_value>$value</arg_value>"),
    "tags by name": form("key_tags", call_start="<use><", call_end="></use>", call="$name>\n$parameters</$name",
                         parameter="<$key>$value</$key>\n"),
    "name twice": form("name_then_json", call_start="<to ", call_end="</call></to>",
                       call="$name><call:$name>$arguments"),
    "key tags with types": form("key_tags", call_start='<|open|>call tool="', call_end="<|close|>call<|sep|>",
                                call='$name" index="$index"<|sep|>$parameters', index_base=1,
                                parameter='<|open|>argument key="$key" type="$type"<|sep|>'
                                "$value<|close|>argument<|sep|>",
                                section_start="<|open|>tools<|sep|>", section_end="<|close|>tools<|sep|>"),
    "pythonic": form("pythonic", section_start="<|tool_call_start|>[", section_end="]<|tool_call_end|>", between=", ",
                     separator=", ", quote="'", words="True False None"),
    "pythonic, one a line": form("pythonic", section_start="<function_calls>\n", section_end="\n</function_calls>",
                                 between="\n", separator=", "),
    "pythonic, bare": form("pythonic", section_start="[", section_end="]", between=", ", separator=", "),
    "gemma": form("gemma", call_start="<|tool_call>call:", call_end="<tool_call|>", separator=",", order="sorted",
                  words="true false None"),
    "harmony": form("harmony", max_calls=1),
    "numbered tags": form("name_then_json", call_start="<step_", call="$index>$name with $arguments</step_$index",
                          call_end=">", index_base=1),
    "numbered objects": form("json_array", section_start="<calls>[", section_end="]</calls>", between=", ",
                             body='{"ref": "t$index", "fn": "$name", "args": $arguments}'),
    "no blanks": form("json_in_tags", call_start="<do>", call_end="</do>", spelling=Spelling(",", ":"),
                      body='{"fn":"$name","args":$arguments}'),
    "lines": form("json_in_tags", call_start="<do>\n", call_end="\n</do>", spelling=Spelling(max_whitespace=12),
                  body='{\n  "fn": "$name",\n  "args": $arguments\n}'),
    "xml, values as JSON": form("xml_equals", call_end="</function>\n</tool_call>", strings="json", **_XML),
    "bare keys": form("key_tags", section_start="<js>", section_end="</js>", call_start="tools.", call_end="});",
                      call="$name({$parameters", parameter="$key: $value", separator=", ", strings="json"),
    "elements": form("key_tags", section_start="]<]m[>[<tools>\n", section_end="]<]m[>[</tools>", items="item",
                     call_start=']<]m[>[<invoke name="', call='$name">$parameters', call_end="]<]m[>[</invoke>\n",
                     parameter="]<]m[>[<$key>$value]<]m[>[</$key>"),
    "character data": form("invoke", call_start='<do fn="', call='$name">$parameters', call_end="</do>",
                           parameter='<in k="$key">$value</in>', quote="<![CDATA[", quote_end="]]>"),
    "character data where it is needed": form("invoke", call_start='<function name="', call='$name">$parameters',
                                              call_end="</function>", between="\n", gap="\n",
                                              parameter='<param name="$key">$value</param>', quote="<![CDATA[",
                                              quote_end="]]>", plain_strings=True, words="True False None"),
    "whole numbers stated": form("invoke", call_start='<do fn="', call='$name">$parameters', call_end="</do>",
                               parameter='<in k="$key" as="$type">$value</in>', types="integer=int number=float"),
}  # fmt: skip

#: Texts that the tokenizers of some families have as tokens.
MARKERS = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|START_ACTION|>", "<|END_ACTION|>", "<|tools_prefix|>",
    "<|tools_suffix|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_sep|>", "<arg_key>", "</arg_key>", "<arg_value>",
    "</arg_value>", "<|open|>", "<|close|>", "<|sep|>", "<|tool_call_start|>", "<|tool_call>", "<tool_call|>",
    '<|"|>', "<![CDATA[", "]]>", "]<]m[>[", "<|channel|>", "<|message|>", "<|constrain|>",
)  # fmt: skip

WEATHER = Tool(
    "get_weather",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 0, "maximum": 99},
            "exact": {"type": "boolean"},
            "limit": {"type": ["number", "null"]},
            "opts": closed(
                {"tags": {"type": "array", "items": {"type": "string"}}, "unit": {"enum": ["C", "F"]}},
                optional=["unit"],
            ),
            "when": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"},
        },
        "required": ["city", "exact"],
    },
)
MODE = Tool(
    "set_mode",
    parameters={
        "type": "object",
        "properties": {
            "mode": {"$ref": "#/$defs/Mode"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "short": {"type": "string", "minLength": 1, "maxLength": 4},
        },
        "required": ["mode"],
        "$defs": {"Mode": {"type": "string", "enum": ["fast", "slow < 1", "über"]}},
    },
)
TIME = Tool("get_time")
TOOLS = {tool.name: tool for tool in (WEATHER, MODE, TIME)}


def texts(max_size: int = 14) -> st.SearchStrategy[str]:
    """Strings full of what formats use as delimiters."""
    return st.text(alphabet=st.sampled_from("ab\"'\\ \n\t{}[](),=:<>/é漢🙂"), max_size=max_size)


def _some(properties: dict[str, st.SearchStrategy[Any]], required: tuple[str, ...]) -> st.SearchStrategy[Any]:
    optional = {key: value for key, value in properties.items() if key not in required}
    drawn = st.fixed_dictionaries({key: properties[key] for key in required}, optional=optional)
    return drawn.map(lambda found: {key: found[key] for key in properties if key in found})


@cache  # hypothesis validates each new strategy
def calls(max_size: int | None) -> st.SearchStrategy[list[Call]]:
    """Calls of the tools above, arguments in the schema's order."""
    opts = _some({"tags": st.lists(texts(6), max_size=3), "unit": st.sampled_from(["C", "F"])}, ("tags",))
    weather = _some(
        {
            "city": texts(),
            "days": st.integers(0, 99),
            "exact": st.booleans(),
            "limit": st.none() | st.integers(-50, 50) | st.sampled_from([0.5, -2.25]),
            "opts": opts,
            "when": st.just("2024-05"),
        },
        ("city", "exact"),
    )
    mode = _some(
        {
            "mode": st.sampled_from(["fast", "slow < 1", "über"]),
            "note": st.none() | texts(8).filter(lambda text: text.strip().lower() not in ("null", "none")),
            "short": texts(4).filter(bool),
        },
        ("mode",),
    )
    one = st.one_of(
        weather.map(lambda found: Call("get_weather", found)),
        mode.map(lambda found: Call("set_mode", found)),
        st.just(Call("get_time", {})),
    )
    return st.lists(one, min_size=1, max_size=max_size or 3)

"""Made-up chat templates for call syntaxes: numbered calls, maps, JSON spelling, values, flags."""

from __future__ import annotations

from tests.made_up.templates import each, listed, turns

__all__ = ["ALONE", "COUNTED", "DELIMITED", "EMPTY", "JSON_VALUES", "NUMBERED", "RENAMED", "SPELLED", "TYPED"]

#: Calls that carry their number somewhere, or whose objects stand inside another one.
NUMBERED: dict[str, str] = {
    "a number after letters in a tag": each('<run ref="no_{{ loop.index }}">{"fn": "NAME", "kwargs": JSON}</run>'),
    "a number after letters in the object": listed(
        "<<calls>>[", '{"ref": "t{{ loop.index0 }}", "fn": "NAME", "args": JSON}', ", ", "]<</calls>>"
    ),
    "a bare number in the object": each('<do>{"step": {{ loop.index }}, "fn": "NAME", "args": JSON}</do>'),
    "a number in both tags": each("<step_{{ loop.index }}>NAME with JSON</step_{{ loop.index }}>"),
    "a number after the arguments": each("<do>NAME JSON</do #{{ loop.index0 }}>"),
    "a number touching the name": listed("<<all>>", "<<one>>{{ loop.index }}NAME=JSON<</one>>", "", "<</all>>"),
    "numbered results": listed(
        "```run\n",
        "out{{ loop.index0 }} = NAME({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}"
        "{{ ', ' if not loop.last }}{% endfor %})\n",
        "",
        "```",
    ),
    "a name right in front of its arguments": each("<do>NAMEJSON</do #{{ loop.index }}>"),
    "a map from names to arguments": listed("<plan>{{ '{' }}", '"NAME": JSON', ", ", "}</plan>"),
    "a list inside an object": listed('<say>{"why": "", "do": [', '{"fn": "NAME", "args": JSON}', ", ", "]}</say>"),
    "a dollar sign and a hole that letters follow": each("<$>{{ loop.index }}th NAMEwith JSON</$>"),
}

#: Calls that depend on the others, which no single call can know; the reason that must be given.
COUNTED: dict[str, tuple[str, str]] = {
    "how many there are": (
        turns(
            '{% if m.tool_calls %}<calls n="{{ m.tool_calls | length }}">{% for c in m.tool_calls %}'
            "<c>{{ c.function.name }} {{ c.function.arguments | tojson }}</c>{% endfor %}</calls>{% endif %}"
        ),
        'the format writes .*n="1".*the template .*n="',
    ),
    "its place among all": (
        each("<call {{ loop.index }}/{{ m.tool_calls | length }}>NAME:JSON</call>"),
        "writes a second call in a form that is not recognised",
    ),
    "words for the first and the last": (
        listed(
            "<c>",
            "{{ 'first ' if loop.first else ('last ' if loop.last else 'then ') }}NAMEJSON;",
            "",
            "</c>",
        ),
        "cross-check failed|not recognised",
    ),
}

#: Each call is a message of its own: one a turn.
ALONE: dict[str, str] = {
    "addressed messages": (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% if m.content %}<|from|>assistant<|say|>"
        "{{ m.content }}<|over|>{% endif %}{% for c in m.tool_calls or [] %}<|from|>assistant for "
        "{{ c.function.name }}<|say|>{{ c.function.arguments | tojson }}<|over|>{% endfor %}"
        "{% else %}<|from|>{{ m.role }}<|say|>{{ m.content }}<|over|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|from|>assistant{% endif %}"
    ),
}

_CHANGED = "is written differently|in a form that is not recognised"
_OTHERWISE = "a second call in a form that is not recognised|cross-check failed"

#: Names are written as other names than were given.
RENAMED: dict[str, tuple[str, str]] = {
    "lines for underscores": (
        each('<do>{"fn": "{{ c.function.name | replace("_", "-") }}", "kwargs": JSON}</do>'),
        _CHANGED,
    ),
    "underscores for dots": (each("<do>{{ c.function.name | replace('.', '_') }}(JSON)</do>"), _CHANGED),
}

#: JSON in another spelling than the usual one.
SPELLED: dict[str, str] = {
    "no blanks": each('<do>{"fn":"NAME","kwargs":{{ c.function.arguments | tojson(separators=(",", ":")) }}}</do>'),
    "no blanks after commas": each("<do>NAME={{ c.function.arguments | tojson(separators=(',', ': ')) }}</do>"),
    "two blanks": turns(
        "{% if m.tool_calls %}{% set all = namespace(l=[]) %}{% for c in m.tool_calls %}"
        "{% set all.l = all.l + [{'fn': c.function.name, 'kwargs': c.function.arguments}] %}{% endfor %}"
        "<do>\n{{ all.l | tojson(indent=2) }}\n</do>{% endif %}"
    ),
    "four blanks and a fence": each(
        "\n```tool\n{{ {'fn': c.function.name, 'kwargs': c.function.arguments} | tojson(indent=4) }}\n```"
    ),
    "one blank, arguments alone": each("<do>NAME\n{{ c.function.arguments | tojson(indent=1) }}\n</do>"),
    "keys in order": each('<do>{"fn": "NAME", "kwargs": {{ c.function.arguments | tojson(sort_keys=true) }}}</do>'),
    "keys in order without blanks": each(
        '<do>{"fn":"NAME","kwargs":{{ c.function.arguments | tojson(sort_keys=true, separators=(",", ":")) }}}</do>'
    ),
    "values without blanks": each(
        "<do><fn {{ c.function.name }}>{% for k, v in c.function.arguments.items() %}<p {{ k }}>"
        "{{ v if v is string else v | tojson(separators=(',', ':')) }}</p>{% endfor %}</fn></do>"
    ),
}

#: Arguments one by one, each as JSON.
JSON_VALUES: dict[str, str] = {
    "lines in tags": each(
        "<do>\n<fn=NAME>\n{% for k, v in c.function.arguments.items() %}<arg={{ k }}>\n{{ v | tojson }}\n</arg>\n"
        "{% endfor %}</fn>\n</do>"
    ),
    "a name in quotes": each(
        '<do><fn is="NAME"/>{% for k, v in c.function.arguments.items() %}<arg is="{{ k }}">{{ v | tojson }}</arg>'
        "{% endfor %}</do>"
    ),
    "lines": each(
        "<do>\nfn: NAME\nwith:\n{% for k, v in c.function.arguments.items() %}  {{ k }}: {{ v | tojson }}\n"
        "{% endfor %}</do>"
    ),
    "an object with bare keys": listed(
        "<run>",
        "tool.NAME({{ '{' }}{% for k, v in c.function.arguments.items() %}{{ k }}: {{ v | tojson }}"
        "{{ ', ' if not loop.last }}{% endfor %}{{ '}' }});",
        "",
        "</run>",
    ),
    "parentheses": each(
        "\n<do>(NAME{% for k, v in c.function.arguments.items() %} :{{ k }} {{ v | tojson }}{% endfor %})</do>"
    ),
}


def _typed(words: str) -> str:
    """With a word for strings, booleans, whole and other numbers, mappings, and all else."""
    *known, other = words.split()
    tests = zip(known, ("string", "boolean", "integer", "float", "mapping"), strict=True)
    flag = " else ".join(f"'{word}' if v is {test}" for word, test in tests)
    return each(
        '<do fn="NAME">{% for k, v in c.function.arguments.items() %}<arg is="{{ k }}" as="{{ '
        f"{flag} else '{other}' }}}}\">{{{{ v if v is string else v | tojson }}}}</arg>{{% endfor %}}</do>"
    )


#: A word for the type of each value; whole numbers have one of their own.
TYPED: dict[str, str] = {
    "short words": _typed("str bool int float map json"),
    "words of schemas": _typed("string boolean integer number object array"),
}

#: A call without arguments is written in a way of its own, which no format has.
EMPTY: dict[str, tuple[str, str]] = {
    "no member for arguments": (
        each('<do>{"fn": "NAME"{% if c.function.arguments %}, "kwargs": JSON{% endif %}{{ "}" }}</do>'),
        _OTHERWISE,
    ),
    "a tag that closes itself": (
        each(
            '{% if c.function.arguments %}<do fn="NAME">{% for k, v in c.function.arguments.items() %}<{{ k }}>'
            "{{ v if v is string else v | tojson }}</{{ k }}>{% endfor %}</do>{% else %}"
            '<do fn="NAME"/>{% endif %}\n'
        ),
        _OTHERWISE,
    ),
    "a name alone": (
        listed("<<all>>", "<<one>>NAME{% if c.function.arguments %} with JSON{% endif %}<</one>>", "\\n", "<</all>>"),
        _OTHERWISE,
    ),
}

#: Strings stand raw between delimiters that other values lack.
DELIMITED: dict[str, str] = {
    "character data": each(
        '<do fn="NAME">{% for k, v in c.function.arguments.items() %}<in key="{{ k }}">'
        "{{ '<![CDATA[' ~ v ~ ']]>' if v is string else v | tojson }}</in>{% endfor %}</do>"
    ),
    "character data where it is needed": each(
        "{{ '\n' if m.content or not loop.first }}<function name=\"NAME\">"
        "{% for k, v in c.function.arguments.items() %}"
        '<param name="{{ k }}">{% if v is string and ("<" in v or "&" in v or "\n" in v) %}'
        "{{ '<![CDATA[' ~ v ~ ']]>' }}{% else %}{{ v if v is string else v | tojson }}{% endif %}</param>"
        "{% endfor %}</function>"
    ),
    "brackets": each(
        "\n⟨NAME|{% for k, v in c.function.arguments.items() %}"
        "{{ k }}={{ ('⟪' ~ v ~ '⟫') if v is string else v | tojson }}{{ '; ' if not loop.last }}{% endfor %}⟩"
    ),
}

"""Chat templates that no model has: odd tags, other keys, other separators, and some that cannot work."""

from __future__ import annotations

__all__ = ["BROKEN", "READABLE", "SILENT", "UNREADABLE"]

_TURNS = (
    "{% for m in messages %}{% if m.role == 'assistant' %}[[assistant]]{{ m.content or '' }}CALLS[[end]]"
    "{% elif m.role == 'tool' %}[[result]]{{ m.content }}[[end]]"
    "{% else %}[[{{ m.role }}]]{{ m.content }}[[end]]{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[[assistant]]{% endif %}"
)


def turns(calls: str) -> str:
    """A plain template around what it makes of ``m.tool_calls``."""
    return "{% if tools %}[[tools]]{{ tools | tojson }}[[end]]{% endif %}" + _TURNS.replace("CALLS", calls)


_EACH = "{% for c in m.tool_calls or [] %}BODY{% endfor %}"

#: name -> template whose calls can be read off its renderings
READABLE: dict[str, str] = {
    "other keys": turns(
        _EACH.replace("BODY", '<do>{"fn": "{{ c.function.name }}", "kwargs": {{ c.function.arguments | tojson }}}</do>')
    ),
    "reversed order": turns(
        _EACH.replace(
            "BODY", '\n<use>{"input": {{ c.function.arguments | tojson }}, "tool": "{{ c.function.name }}"}</use>'
        )
    ),
    "unicode markers": turns(
        _EACH.replace("BODY", '⟦呼⟧{"name": "{{ c.function.name }}", "args": {{ c.function.arguments | tojson }}}⟦終⟧')
    ),
    "the client's own objects": turns("{% if m.tool_calls %}<<calls>>{{ m.tool_calls | tojson }}<</calls>>{% endif %}"),
    "a separator of its own": turns(
        "{% for c in m.tool_calls or [] %}{{ '~~' if loop.first else ';;' }}"
        "{{ c.function.name }}::{{ c.function.arguments | tojson }}{{ '~~' if loop.last }}{% endfor %}"
    ),
    "attributes": turns(
        _EACH.replace(
            "BODY",
            '<call fn="{{ c.function.name }}">{% for k, v in c.function.arguments.items() %}'
            "<arg {{ k }}>{{ v if v is string else v | tojson }}</arg>{% endfor %}</call>\n",
        )
    ),
    "a type in the tag": turns(
        _EACH.replace(
            "BODY",
            "<c:{{ c.function.name }}>{% for k, v in c.function.arguments.items() %}"
            "<p k='{{ k }}' t='{{ 'text' if v is string else 'json' }}'>{{ v if v is string else v | tojson }}</p>"
            "{% endfor %}</c>",
        )
    ),
    "one call only": turns(
        "{% if m.tool_calls %}{% set c = m.tool_calls[0] %}<one>{{ c.function.name }} "
        "{{ c.function.arguments | tojson }}</one>{% endif %}"
    ),
    "python with a prefix": turns(
        "{% if m.tool_calls %}```run\n{% for c in m.tool_calls %}api.{{ c.function.name }}("
        "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %})"
        "\n{% endfor %}```{% endif %}"
    ),
    "a number a call": turns(
        "{% for c in m.tool_calls or [] %}<call id='{{ loop.index }}'>{{ c.function.name }}|"
        "{{ c.function.arguments | tojson }}</call>{% endfor %}"
    ),
    "arguments as text": turns(
        _EACH.replace("BODY", "<t>{{ c.function.name }}\n{{ '' ~ c.function.arguments | trim }}</t>")
    ).replace("| trim", "+ ''"),
    "results and calls under odd roles": (
        "{% for m in messages %}{{ '§' ~ m.role ~ '¶' }}{{ m.content }}"
        '{% for c in m.tool_calls or [] %}§tool-request¶{"n": "{{ c.function.name }}", "a": '
        "{{ c.function.arguments | tojson }}}{% endfor %}§over¶{% endfor %}"
        "{% if add_generation_prompt %}§assistant¶{% endif %}"
    ),
}

#: name -> template whose calls are not what any syntax writes, and why
UNREADABLE: dict[str, tuple[str, str]] = {
    "a value ends with its line": (
        turns(
            _EACH.replace(
                "BODY",
                "\n<call> {{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}  {{ k }}: "
                "{{ v if v is string else v | tojson }}\n{% endfor %}",
            )
        ),
        "values of all types reads back",
    ),
    "arguments as Python prints them": (
        turns(_EACH.replace("BODY", "<f {{ c.function.name }} {{ c.function.arguments }}>")),
        "never writes tool calls|no shape|cross-check failed",
    ),
    "keys without values": (
        turns(_EACH.replace("BODY", "<f {{ c.function.name }} {{ c.function.arguments | list }}>")),
        "never writes tool calls",
    ),
}

#: templates that render messages but no tools
SILENT: dict[str, str] = {
    "no tools": _TURNS.replace("CALLS", ""),
    "calls refused": turns("{% if m.tool_calls %}{{ raise_exception('no calls') }}{% endif %}"),
}

#: name -> template that renders nothing at all, and what the error says
BROKEN: dict[str, tuple[str, str]] = {
    "not Jinja": ("{% for m in messages %}{{ m.content }", "TemplateSyntaxError"),
    "always raises": ("{{ raise_exception('not today') }}", "not today"),
    "drops everything": ("nothing to see", "renders no plain message"),
    "an unknown filter": ("{% for m in messages %}{{ m.content | shout }}{% endfor %}", "shout"),
}

"""Chat templates that no model has: odd tags, other keys, other separators, and some that cannot work."""

from __future__ import annotations

from typing import Any

__all__ = ["BROKEN", "READABLE", "REASONING", "SILENT", "UNREADABLE"]

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
        "nothing but white space ends a value",
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


def thinking(block: str, prompt: str) -> str:
    """A template with reasoning: what it makes of ``m.reasoning_content``, and how its generation prompt ends."""
    return (
        "{% for m in messages %}((" + "{{ m.role }}" + ")){% if m.role == 'assistant' %}" + block + "{% endif %}"
        "{{ m.content or '' }}((/)){% endfor %}{% if add_generation_prompt %}((assistant))" + prompt + "{% endif %}"
    )


#: name -> template with reasoning, and what must be read off it
REASONING: dict[str, tuple[str, dict[str, Any]]] = {
    "written by the model, always": (
        thinking("<plan>{{ m.reasoning_content or '' }}</plan>\n", ""),
        {"start": "<plan>", "end": "</plan>\n", "empty": "<plan></plan>\n", "default_on": True, "prompt_on": ""},
    ),
    "opened by the prompt": (
        thinking(
            "{% if m.reasoning_content %}<musing>\n{{ m.reasoning_content }}\n</musing>\n{% endif %}", "<musing>\n"
        ),
        {"start": "<musing>\n", "end": "\n</musing>\n", "default_on": True, "prompt_on": "<musing>\n"},
    ),
    "a switch by another name": (
        thinking(
            "{% if m.reasoning_content %}[PONDER]{{ m.reasoning_content }}[/PONDER]{% endif %}",
            "{% if deliberate is defined and not deliberate %}[PONDER][/PONDER]{% endif %}",
        ),
        {
            "start": "[PONDER]",
            "end": "[/PONDER]",
            "empty": "[PONDER][/PONDER]",
            "default_on": True,
            "switch": ("deliberate", True, False),
            "prompt_off": "[PONDER][/PONDER]",
        },
    ),
    "off unless asked": (
        thinking(
            "{% if m.reasoning_content %}<|thought|>{{ m.reasoning_content }}<|/thought|>\n{% endif %}",
            "{% if think_first %}<|thought|>{% else %}<|thought|><|/thought|>\n{% endif %}",
        ),
        {
            "start": "<|thought|>",
            "end": "<|/thought|>\n",
            "default_on": False,
            "switch": ("think_first", True, False),
            "prompt_on": "<|thought|>",
            "prompt_off": "<|thought|><|/thought|>\n",
        },
    ),
    "a budget": (
        thinking(
            "{% if m.reasoning_content %}<r>{{ m.reasoning_content }}</r>{% endif %}",
            "{% if reasoning_budget == 0 %}<r></r>{% endif %}",
        ),
        {"start": "<r>", "end": "</r>", "empty": "<r></r>", "switch": ("reasoning_budget", -1, 0), "default_on": True},
    ),
    "levels that it refuses to mistake": (
        thinking("<t>{{ m.reasoning_content or '' }}</t>", "")
        + "{% if reasoning_effort is defined and reasoning_effort not in ['low', 'high'] %}"
        "{{ raise_exception('no such level') }}{% endif %}{% if reasoning_effort %}E={{ reasoning_effort }}{% endif %}",
        {"start": "<t>", "end": "</t>", "effort": ("reasoning_effort", ("low", "high"))},
    ),
    "a channel for the answer": (
        thinking("{% if m.reasoning_content %}<|ch|>muse<|go|>{{ m.reasoning_content }}<|done|>((assistant)){% endif %}"
                 "<|ch|>say<|go|>", ""),
        {"start": "<|ch|>muse<|go|>", "end": "<|done|>((assistant))", "content_start": "<|ch|>say<|go|>"},
    ),
    "given as parts": (
        "{% for m in messages %}(({{ m.role }})){% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{% if p.type == 'thinking' %}<in>{{ p.thinking }}</in>{% else %}{{ p.text }}"
        "{% endif %}"
        "{% endfor %}{% endif %}((/)){% endfor %}{% if add_generation_prompt %}((assistant)){% endif %}",
        {"start": "<in>", "end": "</in>", "reasoning_as": "parts"},
    ),
}  # fmt: skip

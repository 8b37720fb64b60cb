"""Made-up chat templates: odd tags, other keys, other separators, and some that cannot work."""

from __future__ import annotations

from typing import Any

__all__ = ["BROKEN", "NO_TOOLS", "READABLE", "REASONING", "UNREADABLE", "each", "listed", "thinking", "turns"]

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
_NAME, _JSON = "{{ c.function.name }}", "{{ c.function.arguments | tojson }}"


def each(body: str) -> str:
    """A template that writes ``body`` for every call ``c``; NAME and JSON in it are the call's."""
    return turns(_EACH.replace("BODY", body.replace("NAME", _NAME).replace("JSON", _JSON)))


def listed(begin: str, body: str, between: str, end: str) -> str:
    """A template with one wrapper around all calls."""
    inside = body.replace("NAME", _NAME).replace("JSON", _JSON)
    return turns(
        "{% if m.tool_calls %}" + begin + "{% for c in m.tool_calls %}" + inside
        + "{{ '" + between + "' if not loop.last }}{% endfor %}" + end + "{% endif %}"
    )  # fmt: skip


#: name -> template whose calls can be read off its renderings
READABLE: dict[str, str] = {
    "other keys": each('<do>{"fn": "NAME", "kwargs": JSON}</do>'),
    "reversed order": each('\n<use>{"input": JSON, "tool": "NAME"}</use>'),
    "unicode markers": each('⟦呼⟧{"name": "NAME", "args": JSON}⟦終⟧'),
    "the client's own objects": turns("{% if m.tool_calls %}<<calls>>{{ m.tool_calls | tojson }}<</calls>>{% endif %}"),
    "a separator of its own": each("{{ '~~' if loop.first else ';;' }}NAME::JSON{{ '~~' if loop.last }}"),
    "attributes": each(
        '<call fn="NAME">{% for k, v in c.function.arguments.items() %}'
        "<arg {{ k }}>{{ v if v is string else v | tojson }}</arg>{% endfor %}</call>\n"
    ),
    "a type in the tag": each(
        "<c:NAME>{% for k, v in c.function.arguments.items() %}"
        "<p k='{{ k }}' t='{{ 'text' if v is string else 'json' }}'>{{ v if v is string else v | tojson }}</p>"
        "{% endfor %}</c>"
    ),
    "one call only": turns(
        "{% if m.tool_calls %}{% set c = m.tool_calls[0] %}<one>{{ c.function.name }} "
        "{{ c.function.arguments | tojson }}</one>{% endif %}"
    ),
    "python with a prefix": listed(
        "```run\n",
        "api.NAME({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}"
        "{% endfor %})\n",
        "",
        "```",
    ),
    "a number a call": each("<call id='{{ loop.index }}'>NAME|JSON</call>"),
    "arguments as text": each("<t>NAME\n{{ '' ~ c.function.arguments + '' }}</t>"),
    "tags by the names of tool and argument": each(
        "<use><NAME>\n{% for k, v in c.function.arguments.items() %}"
        "<{{ k }}>{{ v if v is string else v | tojson }}</{{ k }}>\n{% endfor %}</NAME></use>"
    ),
    "a name that is written twice": each("<to NAME><call:NAME>JSON</call></to>"),
    "nested values in tags of their own": turns(
        "{% macro out(v) %}{% if v is mapping %}{% for k, x in v.items() %}<{{ k }}>{{ out(x) }}</{{ k }}>"
        "{% endfor %}"
        "{% elif v is string or v is number or not v %}{{ v }}{% else %}{% for x in v %}<i>{{ out(x) }}</i>"
        "{% endfor %}{% endif %}{% endmacro %}{% for c in m.tool_calls or [] %}<t:{{ c.function.name }}>"
        "{{ out(c.function.arguments) }}</t>{% endfor %}"
    ),
    "messages in parts only": (
        "{% for m in messages %}<<{{ m.role }}>>{% for p in m.content %}{{ p.text }}{% endfor %}"
        "{% for c in m.tool_calls or [] %}\n<<do>>{{ c.function.name }} {{ c.function.arguments | tojson }}<</do>>"
        "{% endfor %}<</turn>>{% endfor %}{% if add_generation_prompt %}<<assistant>>{% endif %}"
    ),
    "text in a message of its own": (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% if m.content %}<|a|>{{ m.content }}<|z|>\n{% endif %}"
        '{% if m.tool_calls %}<|a|><CALLS>[{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": '
        "{{ c.function.arguments | tojson }}}{{ ', ' if not loop.last }}{% endfor %}]</CALLS><|z|>\n{% endif %}"
        "{% else %}<|{{ m.role }}|>{{ m.content }}<|z|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|a|>{% endif %}"
    ),
    "blank and line in front of calls where text has a blank": (
        "{% for m in messages %}{{ m.role | upper }}:{% if m.tool_calls %}{% for c in m.tool_calls %}\n<run> "
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{% endfor %}\n<|end|>\n'
        "{% else %} {{ m.content }} <|end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
    ),
    "results and calls under odd roles": (
        "{% for m in messages %}{{ '§' ~ m.role ~ '¶' }}{{ m.content }}"
        '{% for c in m.tool_calls or [] %}§tool-request¶{"n": "{{ c.function.name }}", "a": '
        "{{ c.function.arguments | tojson }}}{% endfor %}§over¶{% endfor %}"
        "{% if add_generation_prompt %}§assistant¶{% endif %}"
    ),
}

#: A template that renders messages but no tools.
NO_TOOLS = _TURNS.replace("CALLS", "")

#: name -> template whose calls are not what any syntax writes, and why
UNREADABLE: dict[str, tuple[str, str]] = {
    "a value ends with its line": (
        each(
            "\n<call> NAME\n{% for k, v in c.function.arguments.items() %}  {{ k }}: "
            "{{ v if v is string else v | tojson }}\n{% endfor %}"
        ),
        "only white space ends a value",
    ),
    "arguments as Python prints them": (
        each("<f NAME {{ c.function.arguments }}>"),
        "never writes tool calls|not recognised|cross-check failed",
    ),
    "keys without values": (
        each("<f NAME {{ c.function.arguments | list }}>"),
        r"writes tool calls in a form that is not recognised: .*<f tool_qa8 \['karg0', 'karg1'\]>",
    ),
    "no calls at all": (turns(""), "never writes tool calls"),
    "no tools": (NO_TOOLS, "never writes tool calls"),
    "calls refused": (
        turns("{% if m.tool_calls %}{{ raise_exception('no calls') }}{% endif %}"),
        "never writes tool calls: (TemplateError: )?no calls",
    ),
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
    "under a name of the template's own": (
        thinking("{% if m.inner_thoughts %}<mull>{{ m.inner_thoughts }}</mull>{% endif %}", ""),
        {"start": "<mull>", "end": "</mull>", "reasoning_as": "inner_thoughts"},
    ),
    "a mode that is a word": (
        thinking("{% if m.reasoning_content %}<r>{{ m.reasoning_content }}</r>{% endif %}",
                 "{% if depth == 'deep' %}<r>{% elif depth == 'shallow' %}<r></r>{% endif %}"),
        {"start": "<r>", "end": "</r>", "switch": ("depth", "deep", "shallow"), "prompt_on": "<r>",
         "prompt_off": "<r></r>", "default_on": False},
    ),
    "off unless an effort is named": (
        thinking("{% if m.reasoning_content %}<t>{{ m.reasoning_content }}</t>{% endif %}",
                 "{% if reasoning_effort in ['low', 'high'] %}<t>{% else %}<t></t>{% endif %}"),
        {"start": "<t>", "switch": ("reasoning_effort", "high", None), "effort": ("reasoning_effort", ("low", "high")),
         "prompt_on": "<t>", "prompt_off": "<t></t>", "default_on": False},
    ),
    "off at a low effort": (
        thinking("{% if m.reasoning_content %}<t>{{ m.reasoning_content }}</t>{% endif %}",
                 "{% if reasoning_effort == 'minimal' or reasoning_effort == 'low' %}<t></t>{% endif %}"),
        {"start": "<t>", "switch": ("reasoning_effort", None, "minimal"), "prompt_off": "<t></t>", "default_on": True},
    ),
    "next to an argument that writes into the question": (
        thinking("{% if m.reasoning_content %}<t>{{ m.reasoning_content }}</t>{% endif %}", "<t>").replace(
            "((/)){% endfor %}", "{% if low_effort and m.role == 'user' %} (be brief){% endif %}((/)){% endfor %}"
        ),
        {"start": "<t>", "end": "</t>", "prompt_on": "<t>", "default_on": True},
    ),
    "a block that older answers lack": (
        "{% for m in messages %}((" + "{{ m.role }}" + ")){% if m.role == 'assistant' and loop.last %}"
        "<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n{% endif %}{{ m.content }}((/)){% endfor %}"
        "{% if add_generation_prompt %}((assistant))<think>\n{{ '' if careful else '\n</think>\n\n' }}{% endif %}",
        {"start": "<think>\n", "end": "\n</think>\n\n", "switch": ("careful", True, False), "default_on": False},
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

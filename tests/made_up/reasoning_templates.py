"""Made-up chat templates for reasoning: switches, openings and markers."""

from __future__ import annotations

from typing import Any

from tests.made_up.templates import thinking

__all__ = ["ANSWERS", "OPENED", "SWITCHES", "UNTELLABLE"]

_BLOCK = "{% if m.reasoning_content %}<muse>\n{{ m.reasoning_content }}\n</muse>\n{% endif %}"
_CLOSED = "<muse>\n\n</muse>\n"

#: name -> how the prompt ends, the switch that must be read off it, and whether the model reasons unasked
SWITCHES: dict[str, tuple[str, tuple[str, Any, Any] | None, bool]] = {
    "the name says no, and the prompt opens otherwise": (
        "{% if no_muse_think %}" + _CLOSED + "{% else %}<muse>\n{% endif %}",
        ("no_muse_think", False, True),
        True,
    ),
    "an inverse switch, left to the model otherwise": (
        "{% if hurry %}" + _CLOSED + "{% endif %}",
        ("hurry", False, True),
        True,
    ),
    "an inverse switch that is on by default": (
        "{% if terse is not defined or terse %}" + _CLOSED + "{% else %}<muse>\n{% endif %}",
        ("terse", False, True),
        False,
    ),
    "a name that could be about history": (
        "{% if skip_thinking is defined and skip_thinking %}" + _CLOSED + "{% else %}<muse>\n{% endif %}",
        ("skip_thinking", False, True),
        True,
    ),
    "a negative name with a positive sense": (
        "{% if skip_thinking %}<muse>\n{% else %}" + _CLOSED + "{% endif %}",
        ("skip_thinking", True, False),
        False,
    ),
    "one word closes, the others change a line further up": (
        "{% if reasoning_effort == 'none' %}" + _CLOSED + "{% else %}<muse>\n{% endif %}",
        ("reasoning_effort", None, "none"),
        True,
    ),
    "words compared through another name": (
        "{% set depth = thinking_depth | default('deep') %}"
        "{% if depth == 'flat' %}" + _CLOSED + "{% else %}<muse>\n{% endif %}",
        ("thinking_depth", None, "flat"),
        True,
    ),
    "words of its own through two other names": (
        "{% set a = reasoning_effort | default('plain') %}{% set b = a %}"
        "{% if b not in ['mute', 'brief', 'plain', 'deep'] %}{{ raise_exception('no ' ~ b) }}{% endif %}"
        "{% if b == 'mute' %}" + _CLOSED + "{% else %}<muse>\n{% endif %}",
        ("reasoning_effort", None, "mute"),
        True,
    ),
    "any level opens": (
        "{% if reasoning_effort %}<muse>\n{% else %}" + _CLOSED + "{% endif %}",
        ("reasoning_effort", "high", None),
        False,
    ),
    "nothing opens or closes the block": ("<muse>\n{{ '' if muse_budget else '' }}", None, True),
}
SWITCHES = {name: (thinking(_BLOCK, row[0]), *row[1:]) for name, row in SWITCHES.items()}
_LINE = "{% if reasoning_effort %}((system))effort {{ reasoning_effort }}((/)){% endif %}"
_NAME = "one word closes, the others change a line further up"
SWITCHES[_NAME] = (_LINE + SWITCHES[_NAME][0], *SWITCHES[_NAME][1:])
for _argument in ("go_on", "resume_thinking_turn"):
    SWITCHES[f"an argument that takes the prompt away: {_argument}"] = (
        thinking(_BLOCK, '<muse kind="long">\n').replace("_prompt %}", f"_prompt and not {_argument} %}}"),
        None,
        True,
    )

_ATTRIBUTE = '{% if m.reasoning_content %}<muse depth="3">{{ m.reasoning_content }}</muse>{% endif %}'
#: name -> template whose prompt opens the block with an attribute, and the pattern of that opening
OPENED: dict[str, tuple[str, str]] = {
    "an attribute that an argument fills": (
        thinking(_BLOCK, '<muse budget="{{ thinking_budget | default(1024) }}">\n'), '<muse budget="$value">',
    ),
    "an attribute with the effort": (
        thinking(_ATTRIBUTE, '<muse depth="{{ reasoning_effort | default(3) }}">'), '<muse depth="$value">',
    ),
    "an attribute that never changes": (thinking(_BLOCK, "<muse kind=\"long\">\n"), '<muse kind="long">'),
    "no field shows the block": (
        thinking("", '<think level="{{ thinking_level | default(2) }}">\n').replace(
            "{{ m.content or '' }}", "{{ (m.content or '').split('</think>')[-1] }}"
        ),
        '<think level="$value">',
    ),
}  # fmt: skip

#: name -> template whose end of reasoning cannot be detected from its text, and how its answers begin
UNTELLABLE: dict[str, tuple[str, str]] = {
    "a line break ends a thought": (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
        "{% if m.reasoning_content %}Idea: {{ m.reasoning_content }}\n{% endif %}Reply: {% endif %}"
        "{{ m.content }}<|over|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
        "Reply: ",
    ),
}

_CALLS = '\n<act>{"tool": "{{ c.function.name }}", "input": {{ c.function.arguments | tojson }}}</act>'
#: name -> template that frames its answers, the frame (in front of calls too), what ends the turn, and after calls
ANSWERS: dict[str, tuple[str, tuple[str, str, str, str], tuple[str, ...], tuple[str, ...]]] = {
    "the call has a key in front of the name": (
        "{% for m in messages %}<|open|>{{ m.role }}<|go|>{% if m.role == 'assistant' %}{% if m.content %}<say>\n"
        "{{ m.content }}\n</say>{% endif %}{% for c in m.tool_calls or [] %}" + _CALLS + "{% endfor %}"
        "{% else %}{{ m.content }}{% endif %}<|close|>{% endfor %}"
        "{% if add_generation_prompt %}<|open|>assistant<|go|>{% endif %}",
        ("<say>\n", "\n</say>", "<say>\n", "\n</say>"),
        ("<|close|>",),
        (),
    ),
    "a header that nothing closes": (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% if m.content %}<|text|>"
        "{{ m.content }}<|/text|>{% endif %}{% for c in m.tool_calls or [] %}<|tool|>"
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}<|/tool|>'
        "{% endfor %}{% else %}{{ m.content }}{% endif %}<|eot|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}",
        ("<|text|>", "<|/text|>", "<|text|>", "<|/text|>"),
        ("<|eot|>",),
        (),
    ),
    "a header that nothing closes, and the prompt opens the text": (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<|text|>{{ m.content }}<|/text|>"
        "{% else %}{{ m.content }}{% endif %}<|eot|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|><|text|>{% endif %}",
        ("", "<|/text|>", "", ""),
        ("<|eot|>",),
        (),
    ),
    "each part of a turn ends, and then the turn": (
        "{% for m in messages %}{% if m.role == 'assistant' %}"
        "{% if m.reasoning_content %}<|by|>assistant<|as|>think<|is|>{{ m.reasoning_content }}<|part|>{% endif %}"
        "<|by|>assistant<|as|>reply<|is|>{{ m.content }}<|part|><|turn|>"
        "{% else %}<|by|>{{ m.role }}<|is|>{{ m.content }}<|part|><|turn|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|by|>assistant{% endif %}",
        ("<|as|>reply<|is|>", "<|part|>", "", ""),
        ("<|turn|>",),
        (),
    ),
    "the prompt opens the answer's frame": (
        "{% for m in messages %}<|TURN_START|><|{{ m.role }}|>{% if m.role == 'assistant' %}<|SAY_START|>{% endif %}"
        "{{ m.content }}{% for c in m.tool_calls or [] %}<do>{{ c.function.name }}:{{ c.function.arguments | tojson }}"
        "</do>{% endfor %}{% if m.role == 'assistant' %}<|SAY_END|>{% endif %}<|TURN_END|>{% endfor %}"
        "{% if add_generation_prompt %}<|TURN_START|><|assistant|><|SAY_START|>{% endif %}",
        ("", "<|SAY_END|>", "", ""),
        ("<|TURN_END|>",),
        (),
    ),
    "calls end by a marker of their own": (
        "{% for m in messages %}<|start|>{{ m.role }}{% if m.tool_calls %}<|calls|>{% for c in m.tool_calls %}"
        "<|call|>{{ c.function.name }}<|with|>{{ c.function.arguments | tojson }}<|/call|>{% endfor %}<|wait|>"
        "{% else %}<|text|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant{% endif %}",
        ("<|text|>", "", "", ""),
        ("<|end|>",),
        ("<|wait|>",),
    ),
    "tags made of several tokens": (
        "{% for m in messages %}<|open|>message {{ m.role }}<|sep|>{% if m.role == 'assistant' %}<|open|>say<|sep|>"
        "{{ m.content }}<|close|>say<|sep|>{% for c in m.tool_calls or [] %}<|open|>call {{ c.function.name }}<|sep|>"
        "{{ c.function.arguments | tojson }}<|close|>call<|sep|>{% endfor %}{% else %}{{ m.content }}{% endif %}"
        "<|close|>message<|sep|><|over|>{% endfor %}"
        "{% if add_generation_prompt %}<|open|>message assistant<|sep|>{% endif %}",
        (
            "<|open|>say<|sep|>",
            "<|close|>say<|sep|><|close|>message<|sep|>",
            "<|open|>say<|sep|>",
            "<|close|>say<|sep|>",
        ),
        ("<|over|>",),
        (),
    ),
    "an argument that changes the header": (
        "{% for m in messages %}<|role|>{{ m.role }}{% if loud %} loud{% endif %}<|/role|>{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<do>{{ c.function.name }}:{{ c.function.arguments | tojson }}</do>"
        "{% endfor %}<|done|>{% endfor %}{% if add_generation_prompt %}<|role|>assistant{% if loud %} loud{% endif %}"
        "<|/role|>{% endif %}",
        ("", "", "", ""),
        ("<|done|>",),
        (),
    ),
}

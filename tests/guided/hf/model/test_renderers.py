"""Chat templates rendered with jinja2 alone: the text, or the error, is that of transformers."""

from __future__ import annotations

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from guided.hf.model.renderers import mutable_renderer, template_renderer
from special_tokens.errors import TemplateError
from tests.cases import since_transformers

CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": [1, "é<&>", None, True]}}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "x", "reasoning_content": "why", "tool_calls": [CALL]},
    {"role": "assistant", "content": "x", "reasoning": "old name"},
    {"role": "assistant", "content": "x", "thinking": "older name", "reasoning_content": None},
]

#: what a template uses -> its text
USES = {
    "JSON": "{{ messages | tojson }}{{ messages | tojson(indent=2) }}{{ messages[2] | tojson(ensure_ascii=true) }}",
    "JSON with more options": "{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}",
    "aliases of reasoning": "{% for m in messages %}{{ m.thinking }}|{{ m.reasoning_content }}|{{ m.reasoning }};"
    "{% endfor %}",
    "blocks on lines of their own": "{% for m in messages %}\n  {% if m.role == 'user' %}\n  y\n  "
    "{% endif %}\n{% endfor %}",
    "generation blocks": "{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
    "break and continue": "{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}{{ m.role }}"
    "{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}",
    "namespaces": "{% set ns = namespace(a=1, self=2) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.self }}",
    "a hidden name": "{% set ns = namespace() %}{% set ns._a = 1 %}",
    "a hidden name at once": "{% set ns = namespace(__class__=1) %}",
    "dict": "{{ dict(a=1) | tojson }}{{ dict.fromkeys(['a'], 2) | tojson }}",
    "attributes of dict": "{{ dict.__class__ }}",
    "an escape": "{{ messages.__class__.__mro__ }}",
    "an error of its own": "{{ raise_exception('no tools here') }}",
    "an undefined name": "{{ nothing.at.all }}",
    "wrong syntax": "{% if %}",
    "the date": "{{ strftime_now('%Y') }}",
    "a list that it changes": "{% set _ = messages.append({'role': 'x'}) %}{{ messages | length }}",
    "defaults": "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ eos_token }}{{ bos_token }}",
    "arguments": "{{ tools | tojson }}{{ flag }}",
    "filters": "{{ messages | map(attribute='role') | join(',') }}{{ ' a ' | trim }}{{ {'a': 1} | items | list }}",
}


def outcome(render: Any) -> str:
    try:
        return str(render())
    except TemplateError as error:
        return f"error: {error.message}"
    except Exception as error:
        return f"error: {type(error).__name__}: {str(error).strip().splitlines()[0]}"


@since_transformers("5.22", "older names of reasoning, and names that templates may not use")
@pytest.mark.parametrize("more", [{}, {"tools": [CALL], "add_generation_prompt": True, "flag": 1}])
@pytest.mark.parametrize("use", USES)
def test_a_template_writes_what_it_writes_in_transformers(use: str, more: dict[str, Any]) -> None:
    named = {"eos_token": "<e>"}
    expected = outcome(lambda: render_jinja_template([CHAT], chat_template=USES[use], **named, **more)[0][0])
    assert outcome(lambda: template_renderer(USES[use], named)(CHAT, **more)) == expected


def test_the_loose_sandbox_lets_a_template_change_its_own_lists_and_nothing_of_the_caller() -> None:
    chat = [dict(message) for message in CHAT]
    assert mutable_renderer(USES["a list that it changes"])(chat) == str(len(CHAT) + 1)
    assert chat == CHAT
    with pytest.raises(TemplateError, match="SecurityError"):
        mutable_renderer(USES["an escape"])(chat)

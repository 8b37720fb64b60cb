"""Kind: a message in any form of OpenAI's API is shown whole, or refused by its place; nothing of it is dropped.

Sources: axolotl-ai-cloud/axolotl#3595 (a system message in parts), microsoft/vscode#306695 (thoughts next to calls).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import guided
from grammars.formats.infer import Inference
from grammars.prompt.messages import messages_for, template_arguments
from grammars.values.tool import Tool
from guided.hf.model.chat_template import messages_of, prompt_text
from guided.hf.model.renderers import mutable_renderer, template_renderer
from guided.hf.model.wire_format import inference_of_template
from special_tokens import SpecialTokens
from special_tokens.errors import RequestError
from tests.cases import slow_where
from tests.shared_templates import shared_template, template_names

TOOL = Tool("get_weather", "d", {"type": "object", "properties": {"city": {"type": "string", "description": "d"}}})


@cache
def read(name: str) -> tuple[str, Inference, SpecialTokens]:
    text = shared_template(name)
    return text, *inference_of_template(text)


class Tokenizer:
    """The part of a tokenizer that prompts need, rendered as transformers renders."""

    def __init__(self, template: str) -> None:
        self.chat_template = template

    def apply_chat_template(self, messages: Any, *, tokenize: bool, **kwargs: Any) -> str:
        assert not tokenize
        try:
            return template_renderer(self.chat_template)(messages, **kwargs)
        except guided.TemplateError as error:
            raise error.__cause__ or error from None


def shown(name: str, messages: Any, system_text: str = "", tools: bool = False) -> str:
    """The prompt of these messages."""
    text, found, tokens = read(name)
    plan = None
    if tools:
        from grammars.compose.compose import Parts, compose

        plan = compose(Parts(tools=(TOOL,)), tokens=tokens, format=found.format)
    return prompt_text(Tokenizer(text), messages, found.format, plan, tokens, system_text)


@pytest.mark.parametrize("name", template_names())
@pytest.mark.parametrize(
    "content", [[{"type": "text", "text": "Be brief."}], ["Be brief."], None, []], ids=["part", "text", "null", "empty"]
)
def test_a_description_joins_a_system_message_in_any_form(name: str, content: Any) -> None:
    user = {"role": "user", "content": "Userq"}
    plain = "" if not content else "Be brief."
    for role in ("system", "developer"):
        found = shown(name, [{"role": role, "content": content}, user], "Answer in JSON.")
        told = f"{plain}\n\nAnswer in JSON." if plain else "Answer in JSON."
        assert found == shown(name, [{"role": role, "content": told}, user])


#: It is the format's own needs that count, and these three differ in them.
@pytest.mark.parametrize("name", slow_where(lambda name: name not in ("qwen3", "gemma3", "gpt_oss"), template_names()))
@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "image_url", "image_url": {"url": "x"}}, "image_url"),
        ({"type": "image"}, "image"),
        ({"type": "input_audio", "input_audio": {}}, "input_audio"),
        ({"type": "file", "file": {}}, "file"),
        ({"type": "text", "text": None}, "text"),
        ({"type": "text", "text": [{"type": "text", "text": "x"}]}, "text"),
        ([{"type": "text", "text": "x"}], "list"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_text_is_refused_by_name_and_place(name: str, part: Any, kind: str) -> None:
    format = read(name)[1].format
    for role in ("system", "user", "assistant", "tool"):
        messages = [{"role": "user", "content": "x"}, {"role": role, "content": [{"type": "text", "text": "a"}, part]}]
        with pytest.raises(RequestError, match=rf"^messages\[1\]\.content\[1\]: .*{kind}"):
            messages_for(messages, format, system_text="described")


@pytest.mark.parametrize("name", template_names())
@pytest.mark.parametrize("text", ["", "Textq"])
def test_thoughts_next_to_calls_stay_in_the_history(name: str, text: str) -> None:
    """If the template itself shows the thoughts of a message with calls, in any form that it takes."""
    template, found, _ = read(name)
    render = mutable_renderer(template)
    call = {"id": "call00000", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Cityq"}}}
    result = {"role": "tool", "tool_call_id": "call00000", "name": "get_weather", "content": "Resultq"}
    user = {"role": "user", "content": "Userq"}
    parts = [{"type": "thinking", "thinking": "Thoughtq"}, *([{"type": "text", "text": text}] if text else [])]
    own: tuple[dict[str, Any], ...] = (
        {"role": "assistant", "content": text, "reasoning_content": "Thoughtq", "tool_calls": [call]},
        {"role": "assistant", "content": parts, "tool_calls": [call]},
    )
    arguments = template_arguments(found.format, (TOOL,))

    def shows(message: dict[str, Any]) -> bool:
        try:
            prompt = render([user, message, result], add_generation_prompt=True, **arguments)
        except guided.TemplateError:
            return False
        return "Thoughtq" in prompt and "'thinking'" not in prompt and '"thinking"' not in prompt

    if not any(map(shows, own)):
        pytest.skip("the template shows no thoughts next to calls")
    sent = {**own[0], "tool_calls": [{**call, "function": {"name": "get_weather", "arguments": '{"city": "Cityq"}'}}]}
    prompt = shown(name, [user, sent, result], tools=True)
    order = [prompt.index(word) for word in ("Userq", "Thoughtq", "Resultq")]
    assert sorted(order) == order
    assert prompt.count("Thoughtq") == prompt.count("Cityq") == 1
    form = found.format.reasoning
    assert form.start.strip() in prompt[: prompt.index("Thoughtq")]


def test_thoughts_in_pieces_are_read() -> None:
    """Mistral's own form of a thought is a list of text parts."""
    from grammars.values.format import Format, InputNeeds

    pieces = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    sent = {"role": "assistant", "content": [{"type": "thinking", "thinking": pieces}, {"type": "text", "text": "c"}]}
    format = Format("f", inputs=InputNeeds(reasoning_as="reasoning_content"))
    assert messages_for([sent], format) == [{"role": "assistant", "content": "c", "reasoning_content": "ab"}]
    sent["content"][0]["thinking"] = [{"type": "image"}]  # type: ignore[index]
    with pytest.raises(RequestError, match=r"^messages\[0\]\.content\[0\]\.thinking\[0\]: .*image"):
        messages_for([sent], format)


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^messages: there are no messages"):
        messages_of([])

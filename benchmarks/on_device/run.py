"""Guides of random weights in real shapes, made on the device, and texts that they are made to write.

Weights say nothing about time, but what is written does: it decides which masks are computed and what is forced.  So a
hook on the model raises the score of the next token of a given text (`Task.written`), in all ways that are compared.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

import guided
from benchmarks.overhead import SCHEMA
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.tool import Call
from guided.hf.generate.inputs import checked_inputs
from guided.rows.answer import RowAnswer
from special_tokens.errors import EmbeddedModelError
from tests.made_up.tokenizers import MARKERS, small_tokenizer

__all__ = ["GREEDY", "DeviceRun", "Task", "call_task", "document_task", "plan", "prose_task", "spell"]

GREEDY = guided.Sampling(temperature=0)

#: Name -> class of the model and its config.
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen3-0.6B": (
        "Qwen3ForCausalLM",
        {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
         "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "tie_word_embeddings": True},
    ),
    "Llama-3-8B": (
        "LlamaForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 8192, "tie_word_embeddings": False},
    ),
    "tiny": (
        "LlamaForCausalLM",
        {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 4096, "tie_word_embeddings": False,
         "initializer_range": 0.6},
    ),
}  # fmt: skip
#: Tokenizer -> the size of its models' embeddings, which may be padded.
WIDTHS = {"qwen3": 151_936, "smollm2": 49_152}
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass
class DeviceRun:
    """One run on ``device``: the guides made so far, and what to say of what is missing.

    ``tiny``: a model and few steps for a test; its times mean nothing.
    """

    device: torch.device
    tiny: bool
    notes: list[str] = field(default_factory=list)
    _guides: dict[tuple[str, str, torch.dtype], Any] = field(default_factory=dict)
    _tokenizers: dict[str, Any] = field(default_factory=dict)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def sync(self) -> None:
        """Wait for the device."""
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def timed(self, call: Callable[[], Any]) -> float:
        """Return the wall seconds of a call, to the end of its work on the device."""
        self.sync()
        began = time.perf_counter()
        call()
        self.sync()
        return time.perf_counter() - began

    def guide(self, shape: str = "Qwen3-0.6B", tokenizer: str = "qwen3", dtype: torch.dtype = torch.bfloat16) -> Any:
        """Return the guide of a model on the device; in a tiny run it is always the tiny one, in float32."""
        if self.tiny:
            shape, tokenizer, dtype = "tiny", "small", torch.float32
        key = (shape, tokenizer, dtype)
        if key not in self._guides:
            self._guides[key] = self._made(shape, tokenizer, dtype)
        return self._guides[key]

    def drop(self, shape: str) -> None:
        """Free the models of a shape."""
        self._guides = {key: guide for key, guide in self._guides.items() if key[0] != shape}
        if self.is_cuda:
            torch.cuda.empty_cache()

    def _made(self, shape: str, name: str, dtype: torch.dtype) -> Any:
        tokenizer = self.tokenizer(name)
        kind = getattr(transformers, SHAPES[shape][0])
        config = kind.config_class(
            vocab_size=max(len(tokenizer), WIDTHS.get(name, 0) if not self.tiny else 0),
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            dtype=dtype,
            **SHAPES[shape][1],
        )
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(self.device):
                model = kind(config).eval()
        finally:
            torch.set_default_dtype(before)
        guide = guided.hf.Guide(model, tokenizer)
        guide.chat("x", max_tokens=2, temperature=0, return_last_hidden_state=True)  # the self-tests
        return guide

    def tokenizer(self, name: str) -> Any:
        """Return a real tokenizer where there is one, else the embedded model's, else a small one of bytes."""
        if name not in self._tokenizers:
            self._tokenizers[name] = _small() if name == "small" else self._real(name)
        return self._tokenizers[name]

    def _real(self, name: str) -> Any:
        folder = Path(os.environ.get("GUIDED_TOKENIZERS", Path.home() / ".cache" / "guided" / "tokenizers")) / name
        if not (folder / "tokenizer.json").is_file():
            try:
                from guided.embedded import model_folder

                folder = model_folder(weights=False)
                self.notes.append(f"no tokenizer {name} (`make tokenizers`): the embedded one, padded to its width")
            except EmbeddedModelError:
                self.notes.append(f"neither tokenizer {name} nor the embedded one: bytes, padded to its width")
                return _small()
        return transformers.AutoTokenizer.from_pretrained(folder)


def _small() -> Any:
    from tokenizers import Tokenizer

    text = small_tokenizer(MARKERS, special=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text), eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


# ---------------------------------------------------------------- texts


@dataclass(frozen=True)
class Task:
    """Prompts of equal length, their plans, and the token ids that all rows write."""

    guide: Any
    chats: list[Any]
    plans: list[Any]
    tokens: list[int]

    @property
    def inputs(self) -> Any:
        return checked_inputs(self.guide.context, self.chats, self.plans)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Inside, the model gives the highest score to the next token of ``tokens``, then to an end token."""
        (size,) = {len(ids) for ids in self.inputs.prompt_ids}
        device = self.guide.model.device
        script = torch.tensor([*self.tokens, self.guide.tokens.end_ids[0]], device=device)

        def raise_next(_: Any, args: Any, kwargs: Any, out: Any) -> None:
            at = kwargs["position_ids"][:, -out.logits.shape[1] :] - (size - 1)
            out.logits.scatter_(-1, script[at.clamp(0, len(script) - 1)].unsqueeze(-1), 1e4)

        hook = self.guide.model.register_forward_hook(raise_next, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()


def plan(guide: Any, **parts: Any) -> Any:
    """Return a plan without reasoning, which not every model has."""
    return guide.plan(**parts, **({"reasoning_effort": "none"} if guide.format.reasoning else {}))


def spell(guide: Any, of: Any, text: str, begin: Any) -> list[int]:
    """Return the tokens in which our loop writes ``text`` under a plan, its end included."""
    answer = RowAnswer(of, guide.engine, begin=begin)
    rest = text.encode()
    while not answer.is_done:
        run = b"".join(map(guide.engine.token_bytes, answer.push_forced(10_000)))
        assert rest.startswith(run) or run.startswith(rest), (text, run)
        rest = rest[len(run) :]
        if answer.is_done:
            break
        answer.push(guide.engine.tokenize(rest.decode())[0] if rest else guide.tokens.end_ids[0])
        rest = rest[len(guide.engine.token_bytes(answer.tokens[-1])) :]
        assert answer.error is None, answer.error
    return answer.tokens


def _chats(rows: int, what: str) -> list[str]:
    return [f"{what} Number {row:03}." for row in range(rows)]


def document_task(guide: Any, rows: int, tags: int) -> Task:
    """A JSON object, mostly strings, that ends after ``tags`` short ones."""
    value = {
        "name": "Alice Liddell of the far meadow",
        "age": 31,
        "address": {"street": "12 Lake Road", "city": "Lyon"},
        "tags": (["reader", "walks a lot", "likes tea"] * tags)[:tags],
    }
    of = plan(guide, response_format=SCHEMA)
    return _task(guide, _chats(rows, "Describe a person as JSON."), of, json.dumps(value))


TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look_up_the_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "with_wind": {"type": "boolean"},
            },
            "required": ["city", "unit", "days", "with_wind"],
            "additionalProperties": False,
        },
    },
}


def call_task(guide: Any, rows: int) -> Task:
    """One tool call, most of which is forced."""
    of = plan(guide, tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    calls = of.format.tool_calls
    value = {"city": "Saint Petersburg", "unit": "celsius", "days": 7, "with_wind": True}
    text = syntax(calls.syntax).render(
        calls, [Call(TOOL["function"]["name"], value)], {tool.name: tool for tool in of.tools}
    )
    return _task(guide, _chats(rows, "What will the weather be like?"), of, text)


def prose_task(guide: Any, rows: int, tokens: int) -> Task:
    """Free text of this many tokens."""
    text = "The keeper climbed the stairs of the lighthouse and looked out over the grey sea towards the north. " * 40
    chats = _chats(rows, "Tell a story.")
    return Task(guide, chats, [None] * rows, guide.engine.tokenize(text)[:tokens])


def _task(guide: Any, chats: Sequence[str], of: Any, text: str) -> Task:
    plans = [of] * len(chats)
    begin = checked_inputs(guide.context, chats[:1], plans[:1]).begins[0]
    return Task(guide, list(chats), plans, spell(guide, of, text, begin))

"""Chat templates as plain callables ``render(messages, **kw) -> str``, from which a wire format is inferred.

Rendering needs jinja2 alone.  Its sandbox, filters, globals and aliases of reasoning fields are transformers', to which
the tests compare every rendering.  Every failure is a `TemplateError` with the template's own error text.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

from jinja2 import Template
from jinja2 import TemplateError as JinjaError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment
from jinja2.utils import Namespace

from guided.hf.model.tokenizer import first_line
from special_tokens.errors import TemplateError

__all__ = ["NO_NAMES", "Render", "mutable_renderer", "template_renderer", "tokenizer_renderer"]

#: ``messages`` and the template's arguments (tools, add_generation_prompt, switches) to text.
Render: TypeAlias = Callable[..., str]

#: Placeholders for a template's named tokens when there is no tokenizer.
NO_NAMES: Mapping[str, str] = {"bos_token": "<bos_token>", "eos_token": "<eos_token>", "pad_token": "<pad_token>"}


_REASONING = ("reasoning_content", "thinking", "reasoning")


def mutable_renderer(template: str, named: Mapping[str, str] = NO_NAMES) -> Render:
    """Return a renderer like `template_renderer`'s, in a sandbox that lets a template change its own lists.

    transformers refuses templates that call ``list.append``; here they render.
    """
    return template_renderer(template, named, SandboxedEnvironment)


def template_renderer(
    template: str,
    named: Mapping[str, str] = NO_NAMES,
    sandbox: Callable[..., SandboxedEnvironment] = ImmutableSandboxedEnvironment,
) -> Render:
    """Return the renderer of a template's text; ``named`` maps the tokenizer's named tokens to their texts."""
    defaults = {"tools": None, "documents": None, "add_generation_prompt": False}

    def render(messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        try:  # a template may change what it is given, and raise anything
            copies = [_with_aliases(copy.deepcopy(dict(message))) for message in messages]
            given = {**named, **defaults, **copy.deepcopy(kwargs)}
            return _compiled(template, sandbox).render(messages=copies, **given)
        except Exception as error:
            raise _translated(error) from error

    return render


def _with_aliases(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its reasoning under the names that templates read."""
    reasoning = next((message[key] for key in _REASONING if message.get(key) is not None), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


@lru_cache(maxsize=256)
def _compiled(template: str, sandbox: Callable[..., SandboxedEnvironment]) -> Template:
    environment = sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals |= {
        "raise_exception": _raise,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return environment.from_string(template)


class _Generation(Extension):
    """The tag ``{% generation %}``, which writes its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Node:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(lineno)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Jinja's own filter escapes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise JinjaError(message)


class _Dict:
    """``dict`` without the attributes of a class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """Jinja's namespace, without names that begin with ``_``."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *given = args
        names = dict(*given, **kwargs)
        for name in names:
            _check_name(name)
        Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(
            f"Chat templates cannot store underscore-prefixed attributes on a namespace, but got {name!r}. "
            "Please rename the attribute."
        )


def tokenizer_renderer(tokenizer: Any) -> Render:
    """Return the renderer of a loaded tokenizer's chat template."""

    def render(messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> str:
        try:
            return str(tokenizer.apply_chat_template(list(messages), tokenize=False, **kwargs))
        except Exception as error:
            raise _translated(error) from error

    return render


def _translated(error: Exception) -> TemplateError:
    return error if isinstance(error, TemplateError) else TemplateError(first_line(error), place="chat_template")

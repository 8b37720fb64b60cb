"""The groups of options that several commands share: the request, sampling, and stops."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import typer

import guided
from grammars.values.constraints import Llguidance
from guided.cli.inputs import load_format, load_json, read_text, resolve_model
from special_tokens.errors import RequestError, shown

__all__ = ["AsJson", "Asked", "Model", "option", "request_options", "sampling_options", "stop_options", "takes"]

T = TypeVar("T")


def takes(**groups: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the options of ``groups`` to a command or a group; the parameter of a group's name gets its result.

    A group is a function whose parameters are typer options; it returns one value for the command.
    """

    def wrap(command: Callable[..., T]) -> Callable[..., T]:
        own_parameters = [p for name, p in _parameters(command).items() if name not in groups]
        options = {name: _parameters(group) for name, group in groups.items()}
        every = [*own_parameters, *(p for group in options.values() for p in group.values())]

        @functools.wraps(command)
        def run(**given: Any) -> T:
            kept = {p.name: given[p.name] for p in own_parameters}
            values = {name: groups[name](**{key: given[key] for key in keys}) for name, keys in options.items()}
            return command(**kept, **values)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in every]
        )
        run.__annotations__ = {p.name: p.annotation for p in every}
        del run.__wrapped__  # typer would look there for the options
        return run

    return wrap


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Model name or folder; default: the embedded model.", callback=resolve_model),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def option(help: str, *names: str, panel: str | None = None) -> Any:
    """Return an option of a command, shown in a panel of its help."""
    return typer.Option(*names, help=help, rich_help_panel=panel)


_FORMAT, _REQUEST, _SAMPLING, _STOPS = "Response format (one of)", "Request", "Sampling", "Stops"


def format_options(
    schema: Annotated[str | None, option("JSON schema: a file, the JSON, or module:Class.", panel=_FORMAT)] = None,
    json_object: Annotated[bool, option("Any JSON object.", "--json-object", panel=_FORMAT)] = False,
    regex: Annotated[str | None, option("Regular expression for the whole answer.", panel=_FORMAT)] = None,
    choice: Annotated[list[str] | None, option("One option; repeat for more.", panel=_FORMAT)] = None,
    lark: Annotated[str | None, option("File with a Lark grammar.", panel=_FORMAT)] = None,
    gbnf: Annotated[str | None, option("File with a GBNF grammar.", panel=_FORMAT)] = None,
    llguidance: Annotated[str | None, option("File with grammars in llguidance's form.", panel=_FORMAT)] = None,
    structural_tag: Annotated[str | None, option("Structural tags: a file, or the JSON.", panel=_FORMAT)] = None,
    trusted: Annotated[bool, option("Let a grammar of your own write tokens.", "--trusted", panel=_FORMAT)] = False,
) -> tuple[Any, bool]:
    """Return the response format, None if there is none, and whether the caller's grammars are trusted."""
    ways: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "--schema": (schema, lambda value: load_format(value, "--schema")),
        "--json-object": (json_object, lambda _: {"type": "json_object"}),
        "--regex": (regex, guided.Regex),
        "--choice": (choice, guided.Choice),
        "--lark": (lark, lambda value: guided.Lark(read_text(value, "--lark"), trusted=trusted)),
        "--gbnf": (gbnf, lambda value: guided.Gbnf(read_text(value, "--gbnf"))),
        "--llguidance": (llguidance, lambda value: Llguidance(read_text(value, "--llguidance"), trusted=trusted)),
        "--structural-tag": (
            structural_tag,
            lambda value: guided.StructuralTag(load_json(value, "--structural-tag"), trusted=trusted),
        ),
    }
    used = [flag for flag, (value, _) in ways.items() if value or value == ""]
    if len(used) > 1:
        raise RequestError(f"{' and '.join(used)} together", place="response format", expected="one of them")
    made = [make(value) for value, make in (ways[flag] for flag in used)]
    return (made[0] if made else None), trusted


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a command line: arguments of ``guide.plan``, or a whole request ``body``."""

    options: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    trusted: bool = False

    def plan(self, guide: Any, **more: Any) -> Any:
        """Return the plan that ``guide`` composes; ``more`` are stops and limits of the command line."""
        if self.body is None:
            return guide.plan(**self.options, **more)
        return guide.plan(guided.read_request(self._whole(self.body, more), trusted=self.trusted))

    def parts(self, **more: Any) -> Any:
        """Return the parts of that plan."""
        if self.body is None:
            return guided.Parts(**self.options, **more)
        return guided.read_request(self._whole(self.body, more), trusted=self.trusted).parts

    def _whole(self, body: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
        body = dict(body)
        for key in [key for key in more if key in body]:
            raise RequestError(
                f"--{key.replace('_', '-')} together with a request that has {shown(key)}",
                place="--request",
                expected="one or the other",
            )
        if "max_tokens" in more:
            body["max_tokens"] = more["max_tokens"]
        if "stop" in more:
            raise RequestError(
                "stop options together with a whole request", place="--request", hint="write them into it"
            )
        return body


@takes(formats=format_options)
def request_options(
    request: Annotated[
        str | None, option("A whole OpenAI-style request body: a file, or the JSON.", panel=_REQUEST)
    ] = None,
    tools: Annotated[str | None, option("JSON list of tools in OpenAI's form: a file, or it.", panel=_REQUEST)] = None,
    tool_choice: Annotated[str | None, option("none, auto, required, or a tool's name.", panel=_REQUEST)] = None,
    one_call: Annotated[bool, option("At most one tool call.", "--one-call", panel=_REQUEST)] = False,
    effort: Annotated[
        str | None, option("none, minimal, low ... max, or custom:LARK.", "--effort", "-e", panel=_REQUEST)
    ] = None,
    preset: Annotated[str | None, option("Shape of the reasoning: native or structured.", panel=_REQUEST)] = None,
    strict: Annotated[bool, option("Refuse schemas that masks cannot enforce.", "--strict", panel=_REQUEST)] = False,
    *,
    formats: tuple[Any, bool],
) -> Asked:
    """Return the request of the command line."""
    response, trusted = formats
    options: dict[str, Any] = {"response_format": response} if response is not None else {}
    if tools:
        options["tools"] = load_json(tools, "--tools")
    if tool_choice:
        options["tool_choice"] = tool_choice
    if one_call:
        options["parallel_tool_calls"] = False
    if effort:
        options["reasoning_effort"] = effort
    if preset:
        options["reasoning_preset"] = preset
    if strict:
        options["schema_policy"] = "strict"
    if request is None:
        _check_used(one_call and not tools, "--one-call", "--tools FILE")
        without = response is None or isinstance(response, guided.Regex | guided.Choice | guided.Gbnf)
        _check_used(strict and without and not tools, "--strict", "a format with a schema, or --tools")
        trustable = isinstance(response, guided.Lark | Llguidance | guided.StructuralTag)
        _check_used(trusted and not trustable, "--trusted", _TRUSTING)
        return Asked(options)
    if options:
        raise RequestError(
            f"--request together with options for {', '.join(options)}", place="--request", expected="one or the other"
        )
    body = load_json(request, "--request")
    if not isinstance(body, dict):
        raise RequestError("the request is not an object", place="--request", expected="a JSON object")
    return Asked(body=body, trusted=trusted)


_TRUSTING = "--lark, --llguidance, --structural-tag or --request"


def _check_used(is_idle: bool, flag: str, expected: str) -> None:
    """Refuse a flag that has nothing to act on: whoever sets it believes that it does something."""
    if is_idle:
        raise RequestError("there is nothing to act on", place=flag, expected=f"{expected} with it")


def sampling_options(
    temperature: Annotated[
        float | None, option("0 is greedy; default: the model's own setting.", "--temperature", "-t", panel=_SAMPLING)
    ] = None,
    top_p: Annotated[float | None, option("Smallest set with this much probability.", panel=_SAMPLING)] = None,
    top_k: Annotated[int | None, option("That many best tokens.", panel=_SAMPLING)] = None,
    min_p: Annotated[float | None, option("Least share of the best token's probability.", panel=_SAMPLING)] = None,
    repetition_penalty: Annotated[float | None, option("Above 1: prompt and answer count.", panel=_SAMPLING)] = None,
    presence_penalty: Annotated[float | None, option("-2 to 2, once per token written.", panel=_SAMPLING)] = None,
    frequency_penalty: Annotated[float | None, option("-2 to 2, per time written.", panel=_SAMPLING)] = None,
    seed: Annotated[int | None, option("Seed of the sampler.", panel=_SAMPLING)] = None,
    logprobs: Annotated[int | None, option("Log-probabilities of that many best tokens.", panel=_SAMPLING)] = None,
) -> dict[str, Any]:
    """Return the fields of `guided.Sampling` that the command line sets."""
    return {name: value for name, value in locals().items() if value is not None}


def stop_options(
    stop: Annotated[list[str] | None, option("Stop sequence; repeat for more.", panel=_STOPS)] = None,
    stop_id: Annotated[list[int] | None, option("Stop token id; repeat for more.", panel=_STOPS)] = None,
    stop_regex: Annotated[str | None, option("Regular expression that stops the text.", panel=_STOPS)] = None,
    include_stop: Annotated[bool, option("Keep the stop in the text.", "--include-stop", panel=_STOPS)] = False,
    stop_everywhere: Annotated[bool, option("In reasoning and calls too.", "--stop-everywhere", panel=_STOPS)] = False,
) -> dict[str, Any]:
    """Return ``{"stop": guided.Stops}``, or nothing if the command line has no stops."""
    if not (stop or stop_id or stop_regex is not None):
        if include_stop or stop_everywhere:
            raise RequestError("there is no stop", place="stops", expected="--stop, --stop-id or --stop-regex")
        return {}
    stops = guided.Stops(
        tuple(stop or ()), tuple(stop_id or ()), stop_regex, include=include_stop, everywhere=stop_everywhere
    )
    return {"stop": stops}

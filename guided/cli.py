"""The command line: arguments to calls, and nothing else.

Exit codes: 0 done; 1 the request, the model or the cache is at fault (the message says which); 2 wrong usage;
3 the answer was cut by max_tokens; 4 guidance failed while writing.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import guided
from grammars.compose import Parts, compose
from grammars.response import response_part
from guided import terminal
from special_tokens.errors import GuidedError, RequestError

__all__ = ["app", "main"]

EXIT_REFUSED, EXIT_CUT, EXIT_FAILED = 1, 3, 4

app = typer.Typer(
    name="guided",
    help="A Hugging Face model writes exactly what it was asked for.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
out, err = Console(highlight=False), Console(stderr=True, highlight=False)

Model = Annotated[str | None, typer.Option("--model", "-m", help="Model name or folder; default: the embedded model.")]
Schema = Annotated[str | None, typer.Option(help="JSON schema: a file, or the JSON itself.")]
Regex = Annotated[str | None, typer.Option(help="Regular expression for the whole answer.")]
Choice = Annotated[list[str] | None, typer.Option(help="One option; repeat for more.")]
Lark = Annotated[Path | None, typer.Option(help="File with a Lark grammar.")]
Tools = Annotated[Path | None, typer.Option(help="File with a JSON list of tools (OpenAI's form).")]
ToolChoice = Annotated[str | None, typer.Option(help="none, auto, required, or a tool's name.")]
Effort = Annotated[str | None, typer.Option("--effort", "-e", help="Reasoning effort: none, minimal, low ... max.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def main() -> None:
    """Run the command line; expected errors become one message and an exit code."""
    try:
        app()
    except GuidedError as error:
        terminal.show_error(err, error)
        sys.exit(EXIT_REFUSED)


@app.command(epilog='Example: guided generate "Alice is 31." --schema person.json --effort low')
def generate(
    prompt: Annotated[str, typer.Argument(help="What to say to the model; - reads standard input.")],
    model: Model = None,
    schema: Schema = None,
    regex: Regex = None,
    choice: Choice = None,
    lark: Lark = None,
    tools: Tools = None,
    tool_choice: ToolChoice = None,
    effort: Effort = None,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop sequence; repeat for more.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", "-n", help="Most tokens to write.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy; default: the model's own setting.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the sampler.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write one answer, streamed, its phases in colours, and print the validated object."""
    guide = _guide(model)
    plan = guide.plan(**_request(schema, regex, choice, lark, tools, tool_choice, effort, stop, max_tokens))
    text = sys.stdin.read() if prompt == "-" else prompt
    chat = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": text}]
    stream = guide.stream(chat, plan, temperature=temperature, seed=seed)
    if not as_json:
        printer = terminal.EventPrinter(out, response=plan.response is not None)
        for event in stream:
            printer(event)
        out.print()
        terminal.show_message(out, stream.message)
    else:
        print(terminal.as_json(_message_json(stream.message)))
    raise typer.Exit({"length": EXIT_CUT, "error": EXIT_FAILED}.get(stream.message.finish_reason, 0))


@app.command(epilog="Example: guided plan --schema person.json --effort low")
def plan(
    model: Model = None,
    schema: Schema = None,
    regex: Regex = None,
    choice: Choice = None,
    lark: Lark = None,
    tools: Tools = None,
    tool_choice: ToolChoice = None,
    effort: Effort = None,
    as_json: AsJson = False,
) -> None:
    """Print the composed grammar, highlighted, with a legend of its regions; loads no weights."""
    tokens, format = _vocabulary(model)
    parts = Parts(**_request(schema, regex, choice, lark, tools, tool_choice, effort, None, None))
    composed = compose(parts, tokens=tokens, format=format)
    if as_json:
        print(terminal.as_json(_plan_json(composed)))
    else:
        terminal.show_plan(out, composed)


@app.command(epilog="Example: guided check --schema person.json --strict")
def check(
    schema: Schema = None,
    regex: Regex = None,
    choice: Choice = None,
    lark: Lark = None,
    strict: Annotated[bool, typer.Option(help="Refuse what the masks cannot enforce.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what of a response format is enforced, keyword by keyword; exit code 1 when it is refused."""
    request = _request(schema, regex, choice, lark, None, None, None, None, None)
    part = response_part(request["response_format"], policy="strict" if strict else "warn")
    if part is None:
        raise RequestError(
            "there is nothing to check", place="check", hint="pass --schema, --regex, --choice or --lark"
        )
    if as_json:
        rows = [asdict(row) for row in part.plan.report.rows]
        print(terminal.as_json({"kind": part.plan.kind, "report": rows}))
    else:
        terminal.show_report(out, part.plan.report)


@app.command(epilog="Example: guided tokens ./my-model --json, or guided tokens chat_template.jinja")
def tokens(
    model: Annotated[
        str | None,
        typer.Argument(help="Model name or folder, or a chat template's file; default: the embedded model."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a model's special tokens and wire format: roles, ends, how it thinks and calls, and who says so."""
    from guided.embedded import model_folder
    from guided.hf.vocabulary import described_vocabulary

    registry, inference = described_vocabulary(model or model_folder())
    if as_json:
        body = _tokens_json(registry, inference.format) | {"notes": list(inference.notes)}
        print(terminal.as_json(body))
    else:
        if registry.added:
            terminal.show_tokens(out, registry)
        terminal.show_format(out, inference.format, inference.notes)


@app.command()
def demo(
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", help="Most tokens of each answer.")] = 160,
) -> None:
    """The main job on the embedded model: effort, tools and a response format, streamed."""
    from guided.demonstration import run

    raise typer.Exit(run(out, max_tokens=max_tokens))


def _guide(model: str | None) -> Any:
    return guided.Guide.from_pretrained(model) if model else guided.demo()


def _vocabulary(model: str | None) -> tuple[Any, Any]:
    from guided.embedded import model_folder
    from guided.hf.vocabulary import vocabulary_of

    return vocabulary_of(model or model_folder())


def _request(
    schema: str | None,
    regex: str | None,
    choice: list[str] | None,
    lark: Path | None,
    tools: Path | None,
    tool_choice: str | None,
    effort: str | None,
    stop: list[str] | None,
    max_tokens: int | None,
) -> dict[str, Any]:
    given = {"--schema": schema, "--regex": regex, "--choice": choice, "--lark": lark}
    used = [flag for flag, value in given.items() if value]
    if len(used) > 1:
        raise RequestError(f"{' and '.join(used)} together", place="response format", expected="one of them")
    response: Any = None
    if schema:
        response = guided.JsonSchema(_json_of(schema, "--schema"))
    elif regex:
        response = guided.Regex(regex)
    elif choice:
        response = guided.Choice(choice)
    elif lark:
        response = guided.Lark(_text_of(lark, "--lark"))
    request: dict[str, Any] = {
        "response_format": response,
        "tools": _json_of(str(tools), "--tools") if tools else None,
        "tool_choice": tool_choice,
        "reasoning_effort": effort,
    }
    if stop:
        request["stop"] = stop
    if max_tokens is not None:
        request["max_tokens"] = max_tokens
    return request


def _json_of(value: str, place: str) -> Any:
    text = value if value.lstrip()[:1] in ("{", "[") or value in ("true", "false") else _text_of(Path(value), place)
    try:
        return json.loads(text)
    except ValueError as error:
        raise RequestError(f"not JSON: {error}", place=place, expected="a JSON file, or JSON") from None


def _text_of(path: Path, place: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(f"cannot read it: {error.strerror}", place=f"{place} {path}") from None


def _message_json(message: Any) -> dict[str, Any]:
    data = asdict(message)
    data["parsed"] = message.parsed.model_dump(mode="json") if hasattr(message.parsed, "model_dump") else message.parsed
    data["error"] = str(message.error) if message.error else None
    return data


def _plan_json(composed: Any) -> dict[str, Any]:
    return {
        "lark": composed.lark,
        "entries": [entry.name for entry in composed.entries],
        "regions": [region.name for region in composed.regions],
        "ends": [asdict(end) for end in composed.ends],
        "budgets": [asdict(budget) for budget in composed.budgets],
        "tokens": dict(composed.grammar.labels),
        "schema_report": [asdict(row) for row in composed.schema_report.rows],
        "notes": list(composed.notes),
    }


def _tokens_json(registry: Any, format: Any) -> dict[str, Any]:
    return {
        "vocab_size": registry.vocab_size,
        "family": registry.family.id if registry.family else None,
        "roles": {role: asdict(marker) for role, marker in registry.roles.items()},
        "ends": [asdict(end) for end in registry.ends],
        "looks_like_end": [token.text for token in registry.looks_like_end],
        "format": format.to_json(),
    }


if __name__ == "__main__":
    main()

"""The commands.  They read options, make one call, and show what came of it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import guided
from guided.cli import terminal
from guided.cli.as_json import anchor_rows, as_json, message_json, plan_json, tokens_json
from guided.cli.groups import takes
from guided.cli.logprobs import show_logprobs
from guided.cli.options import AsJson, Asked, Model, request_options, sampling_options, stop_options
from special_tokens.errors import GuidedError, RequestError

__all__ = ["EXIT_CUT", "EXIT_FAILED", "EXIT_REFUSED", "app", "main"]

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


def main() -> None:
    """Run the command line; expected errors become one message and an exit code."""
    try:
        app()
    except GuidedError as error:
        terminal.show_error(err, error)
        sys.exit(EXIT_REFUSED)


@app.command(epilog='Example: guided generate "Alice is 31." --schema person.json --effort low')
@takes(asked=request_options, sampling=sampling_options, stops=stop_options)
def generate(
    prompt: Annotated[
        str | None, typer.Argument(help="What to say to the model; - reads standard input.", show_default=False)
    ] = None,
    model: Model = None,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", "-n", help="Most tokens to write.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a picture of the generation: one HTML page.")] = None,
    json_: AsJson = False,
    *,
    asked: Asked,
    sampling: dict[str, Any],
    stops: dict[str, Any],
) -> None:
    """Write one answer, streamed, its phases in colours, and print the validated object."""
    chat = _chat(prompt, system, asked)
    if trace is not None:
        from guided.output.trace_records import check_trace_file

        check_trace_file(trace)
    guide = guided.Guide.from_pretrained(model) if model else guided.demo()
    plan = asked.plan(guide, **stops, **({} if max_tokens is None else {"max_tokens": max_tokens}))
    if asked.body is not None:
        sampling = dict(guided.read_request(asked.body).sampling) | sampling
    stream = guide.stream(chat, plan, trace=trace is not None, **sampling)
    if not json_:
        printer = terminal.EventPrinter(out, response=plan.response is not None)
        for event in stream:
            printer(event)
        out.print()
        if stream.message.logprobs is not None:
            show_logprobs(out, stream.message.logprobs, guide.engine.token_bytes)
        terminal.show_message(out, stream.message)
    else:
        print(as_json(message_json(stream.message)))
    message = stream.message
    if trace is not None and message.trace is not None:
        message.trace.write(trace)
        err.print(f"trace: {trace}", style="dim")
    raise typer.Exit({"length": EXIT_CUT, "error": EXIT_FAILED}.get(message.finish_reason, 0))


def _chat(prompt: str | None, system: str | None, asked: Asked) -> list[Any]:
    given = (asked.body or {}).get("messages") or []
    if not isinstance(given, list):
        raise RequestError(f"{type(given).__name__} is no chat", place="messages", expected="a list of messages")
    if given and prompt is not None:
        raise RequestError(
            "a prompt together with a request that has messages", place="prompt", expected="one or the other"
        )
    if not given:
        if prompt is None:
            raise RequestError("there is no prompt", place="prompt", expected="text, - or a request with messages")
        given = [{"role": "user", "content": sys.stdin.read() if prompt == "-" else prompt}]
    return [{"role": "system", "content": system}, *given] if system else given


@app.command(epilog="Example: guided plan --schema person.json --effort low")
@takes(asked=request_options)
def plan(model: Model = None, json_: AsJson = False, *, asked: Asked) -> None:
    """Print the composed grammar, highlighted, with a legend of its regions; loads no weights."""
    from grammars.compose.compose import Parts, compose

    tokens, format = _vocabulary(model)
    parts = (
        guided.read_request(asked.body, trusted=asked.trusted).parts
        if asked.body is not None
        else Parts(**asked.options)
    )
    composed = compose(parts, tokens=tokens, format=format)
    if json_:
        print(as_json(plan_json(composed)))
    else:
        terminal.show_plan(out, composed)


@app.command(epilog="Example: guided check --schema person.json --strict")
@takes(asked=request_options)
def check(
    model: Model = None,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="List unknown keys of a request instead of refusing them.")
    ] = False,
    json_: AsJson = False,
    *,
    asked: Asked,
) -> None:
    """Say what of a response format or request is enforced, keyword by keyword; exit code 1 when it is refused."""
    from guided.inspect.check import check_format, check_request

    if asked.body is None and set(asked.options) <= {"response_format", "schema_policy"}:
        if "response_format" not in asked.options:
            hint = "pass --schema, --regex, --choice, --lark ... or --request"
            raise RequestError("there is nothing to check", place="check", hint=hint)
        policy = asked.options.get("schema_policy", "warn")
        checked = check_format(asked.options["response_format"], policy=policy)
        if json_:
            print(as_json({**asdict(checked), "report": [asdict(row) for row in checked.rows]}))
        else:
            terminal.show_checked_format(out, checked)
        return
    if asked.body is None:
        raise RequestError(
            "tools and effort are checked as part of a request", place="check", hint="pass --request BODY"
        )
    from guided.embedded import model_folder
    from guided.hf.model.vocabulary import engine_of

    engine, format = engine_of(model or model_folder())
    found = check_request(
        asked.body,
        tokens=engine.tokens,
        format=format,
        engine=engine,
        trusted=asked.trusted,
        ignore_unknown=ignore_unknown,
    )
    if json_:
        print(as_json(found.to_json()))
    else:
        terminal.show_checked_request(out, found)


@app.command(epilog="Example: guided tokens ./my-model --json, or guided tokens chat_template.jinja")
def tokens(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Model name or folder, its tokenizer_config.json, or a chat template's file; "
            "default: the embedded model.",
            show_default=False,
        ),
    ] = None,
    family_file: Annotated[bool, typer.Option("--family-file", help="Print a family file for it, to edit.")] = False,
    json_: AsJson = False,
) -> None:
    """Print a model's special tokens and wire format: roles, ends, how it thinks and calls, and who says so."""
    from guided.embedded import model_folder
    from guided.hf.model.vocabulary import described_vocabulary
    from special_tokens.report import family_file as family_text
    from special_tokens.report import report_of, report_text

    registry, inference = described_vocabulary(model or model_folder())
    if family_file:
        print(family_text(registry, format=inference.format.to_json()))
    elif json_:
        print(as_json(tokens_json(registry, inference.format, inference.notes)))
    else:
        if registry.added:
            out.print(report_text(report_of(registry)), markup=False, soft_wrap=True)
        terminal.show_format(out, inference.format, inference.notes)
        terminal.show_anchors(out, anchor_rows(registry, inference.format))
        if registry.added and registry.family is None:
            out.print("No family file fits this tokenizer; guided tokens MODEL --family-file writes one.", style="dim")


@app.command(epilog="Example: guided portfolio --models ./models --json ends.json")
def portfolio(
    models: Annotated[
        list[Path] | None, typer.Option(help="Folder with models; default: the hub's cache. Repeat for more.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the map to this file.")] = None,
) -> None:
    """Run every local model on three short prompts and say how its turns really end."""
    from guided.cli.portfolio import survey, write_map
    from guided.output.output_path import check_writable

    if json_file is not None:
        check_writable(json_file, "json")
    rows = survey(models or None, progress=lambda text: err.print(text, style="dim", markup=False))
    terminal.show_portfolio(out, rows)
    if json_file is not None:
        out.print(f"written: {write_map(rows, json_file)}", style="dim")


@app.command()
def demo(
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", help="Most tokens of each answer.")] = 240,
) -> None:
    """The main job on the embedded model: effort, tools and a response format, streamed."""
    from guided.cli.demonstration import run

    raise typer.Exit(run(out, max_tokens=max_tokens))


def _vocabulary(model: str | None) -> tuple[Any, Any]:
    from guided.embedded import model_folder
    from guided.hf.model.vocabulary import vocabulary_of

    return vocabulary_of(model or model_folder())

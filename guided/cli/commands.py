"""The commands.  Each reads its options, makes one call and prints the result.

Modules that are slow to import are imported in the commands that need them: `--help` and usage errors are quick.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

import guided
from grammars.requests.body import check_roles
from guided.cli.consoles import err, out, say, show_error, waiting
from guided.cli.inputs import expand_path, read_text, resolve_model
from guided.cli.options import AsJson, Asked, Model, request_options, sampling_options, stop_options, takes
from guided.cli.serving import serve
from special_tokens.errors import GuidedError, RequestError

__all__ = ["EXIT_CUT", "EXIT_FAILED", "EXIT_REFUSED", "app", "main"]

EXIT_REFUSED, EXIT_CUT, EXIT_FAILED = 1, 3, 4

app = typer.Typer(
    name="guided",
    help="A Hugging Face model writes exactly what it was asked for.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    # typer makes a flag that is not given a bool by pydantic, which takes a third of the time of a command's help
    context_settings={"help_option_names": ["-h", "--help"], "default_map": {"help": False}},
)


def main() -> None:
    """Run the command line; expected errors become one message and an exit code."""
    try:
        app()
    except GuidedError as error:
        show_error(err, error)
        sys.exit(EXIT_REFUSED)


def _version(asked: bool) -> None:
    if asked:
        print(f"guided {guided.__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A Hugging Face model writes exactly what it was asked for."""


@app.command(epilog='Example: guided generate "Alice is 31." --schema person.json --effort low | jq .age')
@takes(asked=request_options, sampling=sampling_options, stops=stop_options)
def generate(
    prompt: Annotated[
        str | None, typer.Argument(help="What to say to the model; - reads standard input.", show_default=False)
    ] = None,
    model: Model = None,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", "-n", help="Most tokens to write.")] = None,
    no_landing: Annotated[
        bool, typer.Option("--no-landing", help="Let --max-tokens cut the answer, not end it whole.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write a picture of the generation: an HTML page, or JSON.")
    ] = None,
    json_: AsJson = False,
    *,
    asked: Asked,
    sampling: dict[str, Any],
    stops: dict[str, Any],
) -> None:
    """Write one answer: it alone goes to standard output, reasoning and the summary to standard error."""
    chat = _chat(prompt, system, asked)
    more = stops | ({} if max_tokens is None else {"max_tokens": max_tokens})
    if trace is not None:
        from guided.output.trace_records import check_writable

        check_writable(trace := expand_path(trace), "trace")
    settings = _checked_before_the_load(asked, more, sampling, model) | ({"landing": False} if no_landing else {})
    guide = _loaded(model)

    from guided.cli.answer import EventPrinter, show_message
    from guided.cli.as_json import as_json, message_json
    from guided.cli.terminal import show_logprobs

    with waiting("Reading the prompt"):
        plan = asked.plan(guide, **more)
        stream = guide.stream(chat, plan, trace=trace is not None, **settings)
        events = [event for event in [next(stream, None)] if event is not None]
    if not json_:
        printer = EventPrinter(out, response=plan.response is not None, aside=err)
        for event in chain(events, stream):
            printer(event)
        printer.close()
        if stream.message.logprobs is not None:
            show_logprobs(err, stream.message.logprobs, guide.engine.token_bytes)
        show_message(err, stream.message)
    else:
        with waiting("Writing"):
            message = stream.message
        print(as_json(message_json(message)))
    message = stream.message
    if trace is not None and message.trace is not None:
        message.trace.write(trace)
        err.print(f"trace: {trace}", style="dim")
    raise typer.Exit({"length": EXIT_CUT, "error": EXIT_FAILED}.get(message.finish_reason, 0))


def _chat(prompt: str | None, system: str | None, asked: Asked) -> list[Any]:
    given = (asked.body or {}).get("messages") or []
    if not isinstance(given, list):
        raise RequestError(f"{type(given).__name__} is not a chat", place="messages", expected="a list of messages")
    if given and prompt is not None:
        raise RequestError(
            "a prompt together with a request that has messages", place="prompt", expected="one or the other"
        )
    if not given:
        if prompt is None:
            raise RequestError("there is no prompt", place="prompt", expected="text, - or a request with messages")
        given = [{"role": "user", "content": read_text(prompt, "prompt") if prompt == "-" else prompt}]
    check_roles(given)
    return [{"role": "system", "content": system}, *given] if system else given


def _checked_before_the_load(
    asked: Asked, more: dict[str, Any], sampling: dict[str, Any], model: str | None
) -> dict[str, Any]:
    """Return the settings of the answer; raise errors of the request now, before the weights are loaded."""
    from guided.sampling import sampling_of

    parts, settings = asked.parts(**more), {}
    if asked.body is not None:
        request = guided.read_request(asked.body, trusted=asked.trusted)
        sampling = dict(request.sampling) | sampling
        settings = {"landing": request.landing, "short_budget": request.short_budget}
    sampling_of(dict(sampling))
    with waiting("Composing"):
        _plan_of(model, parts)
    return sampling | settings


def _loaded(model: str | None) -> Any:
    with waiting(f"Loading {model or 'the embedded model'}"):
        if model is None:
            return guided.demo(progress=say)
        from guided.embedded import quiet

        with quiet():
            return guided.Guide.from_pretrained(model)


@app.command(epilog="Example: guided shell chat.json --effort low")
@takes(asked=request_options, sampling=sampling_options, stops=stop_options)
def shell(
    file: Annotated[Path, typer.Argument(help="The chat's file: gone on with if it is there, else made.")] = Path(
        "chat.json"
    ),
    model: Model = None,
    system: Annotated[str | None, typer.Option(help="System message of a new chat.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", "-n", help="Most tokens of each answer.")] = None,
    *,
    asked: Asked,
    sampling: dict[str, Any],
    stops: dict[str, Any],
) -> None:
    """Talk to a model, line by line; the chat goes to a file that `guided generate --request` takes."""
    from guided.cli.shell import ChatFile, talk

    chat = ChatFile.open(expand_path(file), system)
    if asked.body is not None:
        raise RequestError("a whole request", place="--request", hint=f"its messages can stand in {file}")
    more = stops | ({} if max_tokens is None else {"max_tokens": max_tokens})
    sampling = _checked_before_the_load(asked, more, sampling, model)
    guide = _loaded(model)
    with waiting("Composing"):
        plan = asked.plan(guide, **more)
    talk(guide, plan, chat, sampling)


@app.command(epilog="Example: guided plan --schema person.json --effort low")
@takes(asked=request_options)
def plan(
    model: Model = None,
    json_: AsJson = False,
    *,
    asked: Asked,
) -> None:
    """Print the composed grammar, highlighted, with a legend of its regions; loads no weights."""
    from guided.cli import terminal
    from guided.cli.as_json import as_json, plan_json

    with waiting("Composing"):
        composed = _plan_of(model, asked.parts())
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
    """Show how a response format or request would be enforced, keyword by keyword; exit code 1 if it is refused."""
    is_format = asked.body is None and set(asked.options) <= {"response_format", "schema_policy"}
    if is_format and "response_format" not in asked.options:
        hint = "pass --schema, --regex, --choice, --lark ... or --request"
        raise RequestError("there is nothing to check", place="check", hint=hint)
    if not is_format and asked.body is None:
        raise RequestError(
            "tools and effort are checked as part of a request", place="check", hint="pass --request BODY"
        )
    from guided.cli import terminal
    from guided.cli.as_json import as_json
    from guided.inspect.check import check_format, check_request

    if is_format:
        policy = asked.options.get("schema_policy", "warn")
        with waiting("Compiling"):
            checked = check_format(asked.options["response_format"], _engine(model)[0], policy=policy)
        if json_:
            print(as_json({**asdict(checked), "report": [asdict(row) for row in checked.rows]}))
        else:
            terminal.show_checked_format(out, checked)
        return
    with waiting("Compiling"):
        engine, format = _engine(model)
        report = check_request(
            asked.body or {},
            tokens=engine.tokens,
            format=format,
            engine=engine,
            trusted=asked.trusted,
            ignore_unknown=ignore_unknown,
        )
    if json_:
        print(as_json(report.to_json()))
    else:
        terminal.show_checked_request(out, report)


@app.command(epilog="Example: guided tokens ./my-model --json, or guided tokens chat_template.jinja")
def tokens(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Model name or folder, its tokenizer_config.json, or a chat template's file; "
            "default: the embedded model.",
            show_default=False,
            callback=resolve_model,
        ),
    ] = None,
    family_file: Annotated[bool, typer.Option("--family-file", help="Print a family file for it, to edit.")] = False,
    json_: AsJson = False,
) -> None:
    """Print a model's special tokens and wire format (roles, ends, reasoning, tool calls), each with its source."""
    from guided.cli import terminal
    from guided.cli.as_json import anchor_rows, as_json, tokens_json
    from guided.embedded import model_folder
    from guided.hf.model.vocabulary import described_vocabulary
    from special_tokens.report import family_file as family_text
    from special_tokens.report import report_of, report_text

    with waiting("Reading the tokenizer"):
        registry, inference = described_vocabulary(model or model_folder(weights=False))
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


@app.command()
def demo(
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", help="Most tokens of each answer.")] = 240,
) -> None:
    """Show the main job on the embedded model: effort, tools and a response format, streamed."""
    from guided.cli.demonstration import run

    raise typer.Exit(run(out, max_tokens=max_tokens))


app.command(epilog="Example: guided serve, then curl http://localhost:8000/v1/models")(serve)


def _plan_of(model: str | None, parts: Any) -> Any:
    from guided.embedded import model_folder
    from guided.hf.model.vocabulary import plan_of

    return plan_of(model or model_folder(weights=False), parts)


def _engine(model: str | None) -> tuple[Any, Any]:
    from guided.embedded import model_folder
    from guided.hf.model.vocabulary import context_of

    context = context_of(model or model_folder(weights=False))
    return context.engine, context.format

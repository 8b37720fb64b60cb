"""The command ``guided serve``."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from guided.cli.consoles import say
from guided.cli.inputs import expand_path, resolve_model
from guided.cli.options import option
from special_tokens.errors import GuidedError

__all__ = ["serve"]

_PACKAGES = ("starlette", "uvicorn", "prometheus_client")
_MODEL, _LIMITS, _CLIENTS, _OPERATORS = "Model", "Limits", "Clients", "Operators"


def serve(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Model name or folder; default: the embedded model.", show_default=False, callback=resolve_model
        ),
    ] = None,
    host: Annotated[str, option("Address to listen on; 0.0.0.0 for all.")] = "localhost",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    log_level: Annotated[Literal["debug", "info", "warning", "error"], option("Least level of the log.")] = "info",
    device: Annotated[str | None, option("cpu, cuda, mps ...; default: a GPU if there is one.", panel=_MODEL)] = None,
    dtype: Annotated[str, option("Type of the weights: auto, float32, bfloat16 ...", panel=_MODEL)] = "auto",
    attn_implementation: Annotated[
        str | None, option("Attention of the model, as in transformers.", panel=_MODEL)
    ] = None,
    max_rows: Annotated[int, option("Most answers that are written at once.", panel=_LIMITS)] = 16,
    max_waiting: Annotated[int, option("Most requests that wait; more are refused.", panel=_LIMITS)] = 64,
    cache_tokens: Annotated[
        int, option("Most tokens of all running answers and their prompts together.", panel=_LIMITS)
    ] = 32_768,
    cache_bytes: Annotated[int | None, option("Most bytes of what is kept for later turns.", panel=_LIMITS)] = None,
    piece: Annotated[
        int | None,
        option("Most tokens of new prompts in one forward; default: as many as cost little.", panel=_LIMITS),
    ] = None,
    api_key_file: Annotated[
        Path | None, option("File of keys, one a line; without it everyone may ask.", panel=_CLIENTS)
    ] = None,
    no_constraint_api: Annotated[
        bool, option("Refuse constraints of clients; reasoning and tools stay.", "--no-constraint-api", panel=_CLIENTS)
    ] = False,
    served_model_name: Annotated[
        list[str] | None, option("Name of the model for clients; repeat for more.", panel=_CLIENTS)
    ] = None,
    no_page: Annotated[bool, option("No page at /.", "--no-page", panel=_OPERATORS)] = False,
    page_shows_text: Annotated[
        bool, option("The page shows text of answers, whoever asked.", "--page-shows-text", panel=_OPERATORS)
    ] = False,
    otel: Annotated[bool, option("Trace requests with OpenTelemetry.", "--otel", panel=_OPERATORS)] = False,
) -> None:
    """Serve a model with OpenAI's API: chat completions, completions, responses; many requests at once."""
    if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise GuidedError(
            f"serving needs {names}", place="serve", hint="in a checkout of guided: pip install '.[serve]'"
        )
    from guided.serve.settings import Settings, read_keys, write_logs

    settings = Settings(
        names=tuple(served_model_name or ()),
        keys=read_keys(expand_path(api_key_file)) if api_key_file is not None else (),
        constraint_api=not no_constraint_api,
        max_rows=max_rows,
        max_waiting=max_waiting,
        cache_tokens=cache_tokens,
        piece=piece,
        page=not no_page,
        page_shows_text=page_shows_text,
        otel=otel,
    )
    write_logs(log_level)
    if otel:
        try:
            from guided.serve.observing.spans import export_spans

            export_spans()
        except ImportError as error:
            hint = "in a checkout of guided: pip install '.[otel]'"
            raise GuidedError(f"tracing needs {error.name}", place="--otel", hint=hint) from None
    say(f"Loading {model or 'the embedded model'} ...")
    began = time.monotonic()

    def ready(guide: Any) -> None:
        address = f"http://{host}:{port}"
        name = (*settings.names, guide.context.name)[0]
        say(f"Ready after {time.monotonic() - began:.0f} s: {name} at {address}/v1")

    from guided.serve.server import load_guide, run_server

    run_server(
        lambda: load_guide(model, device, dtype, attn_implementation, cache_bytes, progress=say),
        settings,
        host=host,
        port=port,
        on_ready=ready,
    )

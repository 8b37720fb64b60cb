"""The right calls fed by force, no model: how many of their tokens a model would have to choose."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tool_calls import CATEGORIES, CallCase, load_cases
from grammars.compose.compose import Parts, compose
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import Format
from grammars.values.tool import Call
from guided.hf.model.vocabulary import context_of
from guided.rows.sequence import RowSequence
from special_tokens.errors import GuidedError
from tests.made_up.wire_forms import FORMS

__all__ = ["truth_rows", "vocabularies_here"]


def truth_rows(vocabularies: Sequence[str], limit: int) -> list[tuple[str, ...]]:
    """Return rows: syntax, then forwards per token for each vocabulary if the model writes the right call."""
    cases = [case for category in CATEGORIES for case in load_cases(category, limit)]
    rows: list[tuple[str, ...]] = []
    engines = [context_of(name).engine for name in vocabularies]
    for name, form in FORMS.items():
        shares = []
        for engine in engines:
            sampled = total = 0
            for case in cases:
                found = _forced_share(engine, Format(name, tool_calls=form), case)
                if found is not None:
                    sampled, total = sampled + found[0], total + found[1]
            shares.append(f"{sampled / total:.3f}" if total else "none could be written")
        rows.append((name, *shares))
    return rows


def _forced_share(engine: Any, form: Format, case: CallCase) -> tuple[int, int] | None:
    """Sampled tokens and all tokens of the right call, its end included; None where the syntax cannot write it."""
    values = {
        key: options[0] for key, options in case.answer[case.tool["function"]["name"]].items() if options[0] != ""
    }
    try:
        plan = compose(
            Parts(tools=[case.tool], tool_choice="required", parallel_tool_calls=False),
            tokens=engine.tokens,
            format=form,
        )
        tools = {tool.name: tool for tool in plan.tools}
        assert form.tool_calls is not None
        text = syntax(form.tool_calls.syntax).render(
            form.tool_calls, [Call(case.tool["function"]["name"], values)], tools
        )
        row = RowSequence(plan, engine)
    except GuidedError:
        return None
    rest = text.encode()
    sampled = total = 0
    while rest:
        run = row.forced_run(10_000)
        written = b"".join(map(engine.token_bytes, run))
        if not rest.startswith(written) and not written.startswith(rest):
            return None  # the syntax writes this value otherwise
        rest, total = rest[len(written) :], total + len(run)
        if not rest or row.is_done:
            break
        token = next((t for t in engine.tokenize(rest.decode("utf-8", "replace"))[:1] if row.state.allows(t)), None)
        if token is None:
            return None
        row.extend([token])
        rest = rest[len(engine.token_bytes(token)) :]
        sampled, total = sampled + 1, total + 1
    return sampled + (not row.is_done), total + (not row.is_done)


def vocabularies_here() -> list[str]:
    """The folders of SmolLM2's and Qwen3's tokenizers, where `make tokenizers` put them."""
    folder = Path(os.environ.get("GUIDED_TOKENIZERS", Path.home() / ".cache" / "guided" / "tokenizers"))
    found = [str(folder / name) for name in ("smollm2", "qwen3") if (folder / name).exists()]
    if not found:
        sys.exit("no tokenizers: run `make tokenizers`, or name folders with --vocabulary")
    return found

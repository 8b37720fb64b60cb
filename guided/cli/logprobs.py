"""Log-probabilities as a table on the terminal; ``--json`` prints the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from guided.sampling import TokenLogprob

__all__ = ["show_logprobs"]


def show_logprobs(console: Console, logprobs: Sequence[TokenLogprob], token_bytes: Callable[[int], bytes]) -> None:
    """Print one row per token: its log-probability before and after the mask, and the best tokens before it."""

    def text(token: int) -> str:
        return repr(token_bytes(token).decode("utf-8", "backslashreplace"))

    table = Table("token", "model's own", "masked", "legal", "best tokens of the model", title="Log-probabilities")
    for found in logprobs:
        best = "  ".join(f"{text(token)} {logprob:.2f}" for token, logprob in found.top)
        numbers = (f"{found.logprob:.2f}", f"{found.masked:.2f}", f"{found.num_allowed:,}")
        table.add_row(Text(text(found.token_id)), *numbers, Text(best))
    console.print(table)

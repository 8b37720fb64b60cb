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
    for token_logprob in logprobs:
        best = "  ".join(f"{text(token)} {logprob:.2f}" for token, logprob in token_logprob.top)
        numbers = (f"{token_logprob.logprob:.2f}", f"{token_logprob.masked:.2f}", f"{token_logprob.num_allowed:,}")
        table.add_row(Text(text(token_logprob.token_id)), *numbers, Text(best))
    console.print(table)

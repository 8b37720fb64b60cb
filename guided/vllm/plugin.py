"""The entry point ``vllm.general_plugins``, which vLLM calls once in each of its processes.

vLLM goes on without a plugin whose import fails, and stops where the plugin's function raises: so our imports are
inside `register`.
"""

from __future__ import annotations

import functools

__all__ = ["register"]


@functools.cache
def register() -> None:
    """Install guided in this process; raises `UnsupportedVllm` where vLLM is not as it was tried."""
    from guided.vllm import names

    names.check()

    from guided.vllm import hooks

    hooks.install()

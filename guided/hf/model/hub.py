"""The hub of models: whether it answers for a name that no folder and no cache has."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from special_tokens.errors import ModelError, shown

__all__ = ["check_reachable"]

#: What the HTTP clients of the hub's package call a host that is not found or does not answer.
_UNREACHABLE = ("ConnectError", "ConnectTimeout", "ProxyError", "OfflineModeIsEnabled")


def check_reachable(name: str | Path, **loading: Any) -> None:
    """Raise `ModelError` for a name that is not a folder and not in the hub's cache while the hub cannot be reached.

    The loaders ask for each file six times, which takes 50 s without a network; this asks once.  ``loading`` are the
    keyword arguments of the loaders.  Whatever else may be wrong with a name, they say.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    name = str(name)
    with contextlib.suppress(OSError):  # a name too long for a path is the loaders' business
        if Path(name).exists() or loading.get("local_files_only"):
            return
    where = {key: value for key in ("cache_dir", "revision") if (value := loading.get(key))}
    try:
        with contextlib.suppress(LocalEntryNotFoundError):
            snapshot_download(name, local_files_only=True, **where)
            return
        get_hf_file_metadata(hf_hub_url(name, "config.json", revision=where.get("revision")))
    except HFValidationError:
        reason = "it is not a folder, and not a name on the hub either"
    except Exception as error:  # missing files and rights are the loaders' business, as are slow answers
        if type(error).__name__ not in _UNREACHABLE:
            return
        reason = f"it is not a folder, it is not in the hub's cache, and the hub cannot be reached ({error})"
    else:
        return
    raise ModelError(
        f"cannot load {shown(name)}: {reason}",
        place="model",
        expected="a model name or a folder with config.json, weights and tokenizer.json",
    )

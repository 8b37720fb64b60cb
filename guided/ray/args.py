"""The arguments of the application, checked before anything is deployed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from guided.serve.settings import Settings, read_keys

__all__ = ["ReplicaArgs"]


class ReplicaArgs(BaseModel, extra="forbid", hide_input_in_errors=True):
    """The model, how many replicas, their processors, and `guided.serve.settings.Settings`.

    With ``max_replicas`` there are as many as the queue needs, from ``replicas`` on; ``cpus`` and ``gpus`` are those of
    one, and ``ingresses`` share requests out.  ``api_key_file`` is on each machine.
    """

    model: str | None = None
    replicas: int = Field(1, ge=1)
    max_replicas: int | None = None
    cpus: float = Field(1, ge=0)
    gpus: float = Field(0, ge=0)
    ingresses: int = Field(1, ge=1)
    device: str | None = None
    dtype: str = "auto"
    attn_implementation: str | None = None
    cache_bytes: int | None = Field(None, ge=0)
    api_key_file: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    settings: Settings = Settings()

    @field_validator("max_replicas")
    @classmethod
    def _not_below(cls, most: int | None, info: ValidationInfo) -> int | None:
        least = info.data.get("replicas", 1)
        if most is not None and most < least:
            raise ValueError(f"{most} is less than replicas: {least}")
        return most

    def to_settings(self) -> Settings:
        """Return the settings with the keys of the file, and no page, which would show one replica alone."""
        keys = () if self.api_key_file is None else read_keys(self.api_key_file)
        return replace(self.settings, keys=(*self.settings.keys, *keys), page=False)

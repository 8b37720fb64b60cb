"""A self-test that finds, by a few small forwards, which uses of its KV cache a model supports.

Each use is tried on the model itself and compared with a forward over the same ids without a cache.  The tolerance is
measured too: it is the error of decoding token by token on the model's own cache, as ``generate`` does.  Nothing is
concluded from class names, because some models compute wrong results without an error.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from guided.hf.cache.kv_cache import AppendKV, KVCache, RowKV

__all__ = ["Abilities", "CacheTrial", "abilities_of", "attention_of", "short_error"]

#: The error of the control, relative to the logits, from which on the model is not judged at all.
_MAX_NOISE = {torch.float32: 1e-3, torch.float64: 1e-3}
_MAX_NOISE_IN_HALF = 0.1

log = logging.getLogger("guided")

_abilities: weakref.WeakKeyDictionary[Any, dict[Any, Abilities]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Abilities:
    """The uses of a cache that gave right results on one model.

    A model without any is decoded step by step, on inputs prepared as ``generate`` prepares them.

    ``several``: several tokens in one forward on a warm cache.  ``crop``: tokens can be forgotten, on `RowKV`.
    ``snapshot``: a row can be taken out and put back.  ``ragged``: rows of different lengths in one forward, on
    `RowKV`.  Without ``crop`` the cache to use is `AppendKV`.  ``notes`` say in a sentence each what is off and why.
    """

    several: bool = False
    crop: bool = False
    snapshot: bool = False
    ragged: bool = False
    notes: tuple[str, ...] = ()


def abilities_of(model: Any) -> Abilities:
    """Return the abilities of ``model``, tested once per model, attention, dtype and device; log those it lacks."""
    try:
        abilities = _abilities.setdefault(model, {})
        key = (attention_of(model), model.dtype, str(model.device), model.training)
    except (TypeError, AttributeError):
        return Abilities(notes=("the object passed as a model is not one of transformers: decoded step by step",))
    if key not in abilities:
        abilities[key] = _test(model)
        for note in abilities[key].notes:
            log.warning("%s", note)
    return abilities[key]


def attention_of(model: Any) -> str:
    """The name of the model's attention, of its text part."""
    return str(getattr(model.config.get_text_config(decoder=True), "_attn_implementation", ""))


def _test(model: Any) -> Abilities:
    name = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        return Abilities(notes=(f"{name} has an encoder: decoded step by step",))
    if getattr(model.config.get_text_config(decoder=True), "index_topk", None):  # DeepSeek-V3.2, GLM-MoE-DSA
        # After that number of tokens the choice, and so the logits, depend on how many are fed at once.
        return Abilities(notes=(f"{name} chooses the tokens that it attends to: decoded step by step",))
    if _turns_by_length(model.config.get_text_config(decoder=True)):
        return Abilities(notes=(f"{name} turns its positions by the length of the text: decoded step by step",))
    try:
        trial = CacheTrial(model)
    except torch.OutOfMemoryError:
        raise  # it says nothing of the model
    except Exception as error:  # models may raise anything: it is the answer
        log.debug("%s: %s", name, short_error(error))
        return Abilities(notes=(f"{name} is not called with a KV cache like others: decoded step by step",))
    if not trial.noise <= _MAX_NOISE.get(model.dtype, _MAX_NOISE_IN_HALF):
        return Abilities(notes=(f"{name} differs by {trial.noise:.1e} with and without a cache: decoded step by step",))
    notes: list[str] = []

    def right(check: Callable[[], float], what: str) -> bool:
        try:
            error = check()
        except torch.OutOfMemoryError:
            raise
        except Exception as raised:  # as above
            log.debug("%s: %s: %s", name, what, short_error(raised))
            notes.append(f"{name}: {what} off, its cache does not allow them")
            return False
        if error <= trial.bound:
            return True
        notes.append(f"{name}: {what} off, the logits differ by {error:.1e} (token by token: {trial.noise:.1e})")
        return False

    if right(trial.row_cache, "rows that are cropped"):
        if counts := _counts_columns(model.config.get_text_config(decoder=True)):
            notes.append(f"{name}: rows of different lengths off, {counts}")
        ragged = not counts and right(trial.ragged, "rows of different lengths")
        return Abilities(True, True, True, ragged, tuple(notes))
    several = right(trial.several, "several tokens in one forward")
    snapshot = right(trial.snapshot, "snapshots")
    return Abilities(several=several, snapshot=snapshot, notes=tuple(notes))


def _turns_by_length(config: Any) -> bool:
    """Whether rotary angles depend on how long the text is, so that a kept state is wrong in a longer one."""
    ropes = [getattr(config, name, None) or {} for name in ("rope_parameters", "rope_scaling")]
    ropes += [part for rope in ropes if isinstance(rope, dict) for part in rope.values() if isinstance(part, dict)]
    kinds = {rope.get(key) for rope in ropes if isinstance(rope, dict) for key in ("rope_type", "type")}
    return not kinds.isdisjoint({"longrope", "dynamic"})


def _counts_columns(config: Any) -> str:
    """The reason why a short row is wrong next to one that is longer by hundreds of tokens; "" if nothing says so.

    The rows of the trial are too short to show it: these models count columns of the cache where they mean positions.
    """
    if "local" in (getattr(config, "attention_layers", None) or ()):  # GPT-Neo
        return "local attention counts columns of the cache"
    if getattr(config, "attn_temperature_tuning", False):  # Llama 4
        return "the temperature of attention counts columns of the cache"
    return ""


def _largest(*errors: float) -> float:
    """Return the largest error; one that is not a number is the largest."""
    return max(errors, key=lambda error: (error != error, error))


def short_error(error: BaseException) -> str:
    """The class of an error with the beginning of its first line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}".rstrip(": ")


class CacheTrial:
    """The forwards of one self-test: each check returns its largest error, relative to the logits."""

    def __init__(self, model: Any) -> None:
        self.model = model
        size = model.get_input_embeddings().weight.shape[0]
        # Past the first ids, which are often special, and before the last, where placeholders of images are.
        low, high = size // 8, max(size // 2, size // 8 + 1)
        ids = torch.randint(low, high, (18,), generator=torch.Generator().manual_seed(0)).tolist()
        self.first, self.other, self.wrong = ids[:8], ids[8:14], ids[14:]
        self.first_logits, self.other_logits = (self._without_cache(row) for row in (self.first, self.other))
        control = AppendKV(model, 1)
        steps = [control.feed([chunk]) for chunk in (self.first[:5], *([token] for token in self.first[5:]))]
        self.noise = _largest(*(self._error(out[0, -1], 4 + i) for i, out in enumerate(steps)))
        self.bound = 8 * max(self.noise, torch.finfo(model.dtype).eps)

    def _without_cache(self, ids: Sequence[int]) -> torch.Tensor:
        with torch.no_grad():
            row = torch.tensor([ids], device=self.model.get_input_embeddings().weight.device)
            logits: torch.Tensor = self.model(input_ids=row, use_cache=False, return_dict=True).logits[0].float()
            return logits

    def _error(self, logits: torch.Tensor, column: int, other: bool = False) -> float:
        right = (self.other_logits if other else self.first_logits)[column]
        return float((logits.float() - right).norm() / right.norm())

    def several(self) -> float:
        """Several tokens at once on the warm cache that the forward makes."""
        cache = AppendKV(self.model, 1)
        cache.feed([self.first[:3]])
        out = cache.feed([self.first[3:]], keep=2)
        return _largest(self._error(out[0, -1], 7), self._error(out[0, -2], 6))

    def snapshot(self) -> float:
        """A snapshot of the cache that the forward makes, put back after other tokens."""
        cache = AppendKV(self.model, 1)
        cache.feed([self.first[:7]])
        taken = cache.take(0)
        cache.feed([self.wrong[:1]])
        back = AppendKV(self.model, 0)
        back.put(taken)
        return self._error(back.feed([self.first[7:]])[0, -1], 7)

    def row_cache(self) -> float:
        """Several tokens on a warm row cache, cropped, taken out and put back; no masks of ours."""
        cache: KVCache = RowKV(self.model, 1)
        cache.feed([self.first[:3]])
        taken = cache.take(0)
        cache.feed([self.wrong])
        cache.crop(0, 3)
        errors = [self._error(cache.feed([self.first[3:]])[0, -1], 7)]
        cache.select([])
        cache.put(taken)
        out = cache.feed([self.first[3:]], keep=2)
        return _largest(*errors, self._error(out[0, -1], 7), self._error(out[0, -2], 6))

    def ragged(self, make: Callable[[Any, int], KVCache] = RowKV) -> float:
        """Two rows: padding in the first forward and after it, an empty chunk, a crop of one row, a repeated row."""
        cache = make(self.model, 2)
        out = cache.feed([self.first[:4], self.other[:2]])
        errors = [self._error(out[0, -1], 3), self._error(out[1, -1], 1, other=True)]
        cache.feed([self.wrong, []])
        cache.crop(0, 4)
        cache.select([1, 0, 0])
        out = cache.feed([self.other[2:], self.first[4:6], self.first[4:]])
        errors += [self._error(out[0, -1], 5, other=True), self._error(out[1, -1], 5), self._error(out[2, -1], 7)]
        return _largest(*errors)

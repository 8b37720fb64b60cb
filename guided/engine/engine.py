"""The engine: llguidance's tokenizer for one vocabulary, compiled grammars and their cache.

One `Engine` per vocabulary, shared by all plans and threads.  A plan's grammar is compiled once; each sequence
gets a deep copy, which costs microseconds and keeps its own position.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cached_property, partial
from typing import Any, TypeVar

import llguidance

from grammars.limits.bounded_cache import BoundedCache, CacheInfo
from grammars.limits.deadline import deadline, is_late, time_left
from grammars.plan.plan import SENTINELS, Plan
from guided.engine.compile_trial import Trial, TrialOutcome
from special_tokens import SpecialTokens
from special_tokens.errors import (
    GrammarError,
    GuidedError,
    LimitExceeded,
    MatcherFailed,
    PlanError,
    RequestError,
    TokenizerError,
)

__all__ = ["SIMPLER", "CacheInfo", "Engine", "check_matcher", "checked_engine", "compile_grammar", "grammar_bytes"]

_Derived = TypeVar("_Derived")

#: Raised over the engine's defaults, which stop valid JSON in mid-string (a pattern with a large maxLength) and after
#: the first of 500 optional keys (four items of a row each: here for 3,000); measured harmless elsewhere.
_LIMITS = {
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 20_000_000,
    "max_lexer_states": 2_000_000,
    "max_items_in_row": 12_500,
}
LIMITS = llguidance.LLParserLimits(verbose_errors=False, **_LIMITS)
#: The limits of a grammar that has passed a trial.  The engine's own count of work estimates the cost of a grammar; the
#: first limit above is reached within 0.2 s, and few of 4,750 real schemas need more.
_TRIED_LIMITS = _LIMITS | {"initial_lexer_fuel": 100_000_000}
_trial = Trial()

#: What to do where something that lives in one process is wanted in another.
SEND_PLANS = "plans and messages can be sent: make the guide in the other process"

#: Most compiled grammars that an engine keeps, and most bytes of memory that they may take by our estimate.
CACHE_SIZE = 256
CACHE_BYTES = 512 * 1024 * 1024

#: Estimate of the memory of a compiled grammar by its text, since the engine does not report it: the upper end of the
#: measured growth of a process (65 to 175 bytes a character, up to a third more in use; see `benchmarks/compile.py`).
GRAMMAR_BYTES = 32_768
BYTES_A_CHARACTER = 180

#: The engine follows chains of rules on the stack and dies where it ends (2,700 rules on 8 MB, 160 on 512 kB).
STACK_BYTES = 64 * 1024 * 1024
_MANY_LINES = 100
#: Grammars whose first mask is computed as well: those of more characters, and those with a repeat of thousands.
_STEP_CHARACTERS = 8_000
_LARGE_REPEAT = re.compile(r"\{[0-9]{4,}")
_MANY_CHARACTERS = 30_000  # JSON schemas are one line, whatever their depth
_stack_lock = threading.Lock()

#: Words of the engine's error for a grammar for which the first limit is too low.
_COSTLY_WORDS = ("fuel", "initial lexer configuration")
SIMPLER = "use fewer or simpler intersections, complements and repeats"
_LIMIT_REASONS = {"MaxTokensTotal", "ParserTooComplex", "LexerTooComplex"}
_LIMIT_WORDS = ("too big", "too many", "Too many", "max is", "fuel", "limit")


class Engine:
    """llguidance's tokenizer for one vocabulary, and the grammars compiled for it.

    ``tokenizer`` is the text of a ``tokenizer.json``.  Building it takes about a second; it is immutable and may
    be shared by threads.
    """

    def __init__(
        self, tokenizer: str, tokens: SpecialTokens, *, capacity: int = CACHE_SIZE, max_bytes: int = CACHE_BYTES
    ) -> None:
        self.tokens = tokens
        self.vocab_size = tokens.vocab_size
        self.ll_tokenizer = _ll_tokenizer(tokenizer, tokens, _eos(tokens))
        self._compiled: BoundedCache[Any] = BoundedCache(capacity, max_bytes, lambda grammar, _: grammar_bytes(grammar))
        self._bytes: dict[int, bytes] = {}
        self._ids: dict[bytes, list[int]] | None = None
        self._derived: dict[Callable[[Engine], Any], Any] = {}
        self._derive_lock = threading.RLock()  # a factory may call `derived` itself

    def __reduce__(self) -> Any:
        """Raises `GuidedError`: what is compiled lives in this process, and so what holds an engine does."""
        raise GuidedError("what holds an engine (a guide's inputs, a state) cannot be pickled", hint=SEND_PLANS)

    def derived(self, factory: Callable[[Engine], _Derived]) -> _Derived:
        """Return ``factory(self)``, computed on first use and kept as long as the engine: all per-engine data is here.

        ``factory`` is a class or a module-level function, the same object each time.  Thread-safe: it is called once.
        """
        value: _Derived | None = self._derived.get(factory)
        if value is None:
            with self._derive_lock:
                value = self._derived.get(factory)
                if value is None:
                    value = self._derived[factory] = factory(self)
        return value

    def pristine(self, plan: Plan, entry: str = "") -> Any:
        """Return the matcher of an entry of a plan that sequences copy (never advance it), from the cache or new.

        Raises `PlanError` for a plan of another vocabulary, `GrammarError` or `LimitExceeded` where the engine
        refuses the grammar.
        """
        if plan.fingerprint != self.tokens.fingerprint:
            raise PlanError(
                f"the plan belongs to vocabulary {plan.fingerprint}, this model has {self.tokens.fingerprint}",
                hint="compose it with this model's guide, or with SpecialTokens of the same folder",
            )
        try:
            return self.compile(plan.engine_text(entry))
        except LimitExceeded as error:
            asked = "response_format" if plan.response is not None else "tools" if plan.tools else ""
            error.place = error.place or asked
            raise

    def compile_private(self, plan: Plan, entry: str = "") -> Any:
        """Return a matcher compiled now for the caller alone: failures of other matchers do not reach it."""
        return compile_grammar(self.ll_tokenizer, plan.engine_text(entry))

    def compile(self, grammar: str) -> Any:
        """Return the pristine matcher of ``grammar`` (never advance it), from the cache or compiled now."""
        matcher = self._compiled.get(grammar)
        if matcher is None:
            matcher = compile_grammar(self.ll_tokenizer, grammar)
            self._compiled.put(grammar, matcher)
        return matcher

    def forget(self, plan: Plan, entry: str, failed: Any) -> None:
        """Drop the pristine matcher of an entry of a plan from the cache if it is the object ``failed``."""
        self._compiled.drop(plan.engine_text(entry), failed)

    def cache_info(self) -> CacheInfo:
        """Return counters of the compile cache since the engine was built."""
        return self._compiled.info()

    # -- vocabulary

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that a token writes: a marker token's are its name, another id writes none."""
        data = self._bytes.get(token_id)
        if data is None:
            is_known = 0 <= token_id < self.tokens.facts.vocab_size
            data = bytes(self.ll_tokenizer.decode_bytes([token_id])) if is_known else b""
            self._bytes[token_id] = data
        return data

    def tokenize(self, text: str) -> list[int]:
        """Return the canonical token ids of ordinary text (marker names in it become marker tokens)."""
        return list(self.ll_tokenizer.tokenize_str(text))

    @cached_property
    def blurs_spaces(self) -> bool:
        """Whether the tokenizer reads U+2581 as a space, which SentencePiece writes as that character."""
        return b"".join(map(self.token_bytes, self.tokenize("\u2581"))) != "\u2581".encode()

    def tokens_within(self, data: bytes) -> list[int]:
        """Return the ids of all ordinary tokens whose bytes are a non-empty prefix of ``data``."""
        if self._ids is None:
            markers = self.tokens.marker_ids
            ids: dict[bytes, list[int]] = {}
            for i in range(self.vocab_size):
                if i not in markers:
                    ids.setdefault(self.token_bytes(i), []).append(i)  # byte fallbacks write what others write, too
            self._ids = ids
        return [i for n in range(1, min(len(data), 64) + 1) for i in self._ids.get(data[:n], ())]


def checked_engine(engine: object) -> Engine:
    """Return ``engine``; raise `PlanError` if it is of another type."""
    if not isinstance(engine, Engine):
        raise PlanError(f"{type(engine).__name__} is not an engine", place="engine", expected="guide.engine")
    return engine


#: How the engine quotes the grammar that we wrote, and its places in it: not the client's.
_QUOTED = re.compile(r"\s*(\d+ \||\^+\s*$)")
_PLACE = re.compile(r"^at \d+\(\d+\): ")


def grammar_bytes(grammar: str) -> int:
    """Return an estimate of the memory that the compiled ``grammar`` takes, in bytes."""
    return GRAMMAR_BYTES + BYTES_A_CHARACTER * len(grammar)


def compile_grammar(tokenizer: Any, grammar: str) -> Any:
    """Return a matcher of ``grammar`` on one of the engine's tokenizers, compiled now.

    Raises `GrammarError` or `LimitExceeded` if the engine refuses the grammar or it has no sentence.  A grammar that
    costs the engine much is compiled in a worker process first (`guided.engine.compile_trial`).  Compiling stops at the
    deadline of the thread (`grammars.limits.deadline`), or at one of its own if the thread has none.
    """
    if is_late():
        raise LimitExceeded("the grammar is not compiled before the deadline of its request", hint=SIMPLER)
    vocab_size = tokenizer.vocab_size
    verdict = _trial.cached_verdict(grammar, vocab_size=vocab_size, limits=_TRIED_LIMITS)
    matcher = _compiled(tokenizer, grammar, LIMITS) if verdict is None else None
    if matcher is None or (matcher.is_error() and any(w in _message(matcher) for w in _COSTLY_WORDS)):
        with deadline():  # set only here: few grammars need it, and for the others it would be much of the cost
            if verdict is None:
                verdict = _trial.verdict(grammar, vocab_size=vocab_size, limits=_TRIED_LIMITS)
            _check_verdict(verdict)
        matcher = _compiled(tokenizer, grammar, llguidance.LLParserLimits(verbose_errors=False, **_TRIED_LIMITS))
    check_matcher(matcher, "the grammar does not compile")
    _probe(matcher, step=len(grammar) > _STEP_CHARACTERS or _LARGE_REPEAT.search(grammar) is not None)
    return matcher


def _check_verdict(verdict: TrialOutcome) -> None:
    """Raise `LimitExceeded` for a grammar that must not be compiled in this process, now or at all."""
    if verdict.limit:
        raise LimitExceeded(verdict.limit, hint=SIMPLER)
    if verdict.error is not None:  # perhaps only of the worker, which knows no named tokens; too costly to try here
        raise LimitExceeded(f"the grammar does not compile: {_words(verdict.error)}", hint=SIMPLER)
    if verdict.seconds > time_left():
        seconds = f"takes {verdict.seconds:.1f} s, and {max(0.0, time_left()):.1f} s are left until its deadline"
        raise LimitExceeded(f"compiling the grammar {seconds}", hint="try again when the machine is less busy")


def _compiled(tokenizer: Any, grammar: str, limits: Any) -> Any:
    # Sub-grammars are in JSON, where a line break is two characters.
    num_lines = grammar.count("\n") + grammar.count("\\n")
    make = partial(llguidance.LLMatcher, tokenizer, grammar, log_level=0, limits=limits)
    return _on_a_large_stack(make) if num_lines > _MANY_LINES or len(grammar) > _MANY_CHARACTERS else make()


def _message(matcher: Any) -> str:
    """Return the engine's error message without its quotations."""
    return _words(str(matcher.get_error()))


def _words(error: str) -> str:
    lines = [line for line in error.split("\n<")[0].splitlines() if not _QUOTED.match(line)]
    return _PLACE.sub("", "\n".join(lines).strip())


def _on_a_large_stack(make: Callable[[], Any]) -> Any:
    """Call ``make`` on a thread whose stack holds deep chains of rules; return its result, or raise what it raises."""
    made: Future[Any] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    with _stack_lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=run, name="guided-compile").start()
        finally:
            threading.stack_size(before)
    return made.result()


def check_matcher(matcher: Any, what: str) -> None:
    """Raise when the matcher is in its error state, which would otherwise look like a finished answer."""
    if not matcher.is_error():
        return
    message = _message(matcher)
    if matcher.stop_reason() in _LIMIT_REASONS or any(word in message for word in _LIMIT_WORDS):
        raise LimitExceeded(f"{what}: {message}", hint=SIMPLER)
    if what == "the grammar does not compile":
        raise GrammarError(f"{what}: {message}", expected="a grammar that llguidance compiles")
    raise MatcherFailed(f"{what}: {message}")


def _probe(pristine: Any, *, step: bool) -> None:
    """Compute one mask, because the engine compiles a grammar that no text matches; raise `GrammarError` then.

    With ``step`` one token is written as well, because thousands of options at one place exceed the engine's limits
    only then.
    """
    matcher = pristine.deep_copy()
    mask = matcher.compute_bitmask()
    if matcher.is_error():
        message = _message(matcher)
        if matcher.stop_reason() == "NoExtensionBias" or "NoExtension" in message:
            raise GrammarError(
                "no text matches this grammar", hint="look for intersections and complements that exclude each other"
            )
        check_matcher(matcher, "the grammar does not compile")
    if step:
        first = next((8 * i + (byte & -byte).bit_length() - 1 for i, byte in enumerate(mask) if byte), None)
        if first is not None:
            matcher.consume_token(first)
            if matcher.is_error() and any(word in _message(matcher) for word in _LIMIT_WORDS):
                check_matcher(matcher, "the grammar does not compile")


#: How the tokenizers library begins the text of a tokenizer that neither pads nor truncates.
_UNPADDED = re.compile(r'\s*\{\s*"version":\s*"[^"]*",\s*"truncation":\s*null,\s*"padding":\s*null,')


def _unpadded(tokenizer: str) -> str:
    """Return the tokenizer without padding and truncation.  Slow, since it parses megabytes of JSON."""
    try:
        body = json.loads(tokenizer)
    except ValueError as error:
        raise TokenizerError(f"the tokenizer is not JSON: {error}", expected="the text of a tokenizer.json") from None
    body["padding"] = body["truncation"] = None
    return json.dumps(body)


def _eos(tokens: SpecialTokens) -> int:
    """Return the end token to pass to the engine, which would guess one otherwise.

    A real end is safe, because no grammar contains one: the engine sets its bit only where a grammar without sentinels
    may end, and when it is in error.
    """
    eos = next(iter(tokens.end_ids), None)
    return max(tokens.marker_ids, default=tokens.facts.vocab_size - 1) if eos is None else eos


def _ll_tokenizer(tokenizer: str, tokens: SpecialTokens, eos: int) -> Any:
    if not _UNPADDED.match(tokenizer):
        tokenizer = _unpadded(tokenizer)
    try:
        return llguidance.LLTokenizer(tokenizer, n_vocab=tokens.vocab_size + SENTINELS, eos_token=[eos])
    except (ValueError, RequestError) as error:
        raise TokenizerError(
            f"llguidance cannot use this tokenizer: {error}",
            expected="a byte-level or byte-fallback tokenizer",
        ) from None

"""vLLM's own manager of grammars, with rows of ours and grammars of its own in one batch; no model runs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vllm in an environment of its own (`make test-vllm`)")

from vllm.v1 import structured_output
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.request import StructuredOutputRequest

from grammars.values.constraints import Choice
from guided.bitmask import allowed_ids, num_words
from guided.engine.engine import Engine
from guided.vllm.hooks import _make_rows
from guided.vllm.sealed import seal
from tests.judges.plans import plan_of

ROWS = 4


@pytest.fixture
def manager(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A manager of a server that has just started."""
    for name in ("__init__", "grammar_init", "validate_tokens"):  # what is replaced is put back
        monkeypatch.setattr(StructuredOutputManager, name, getattr(StructuredOutputManager, name))
    _make_rows(StructuredOutputManager)
    made: Any = StructuredOutputManager.__new__(StructuredOutputManager)
    made.vllm_config = SimpleNamespace(
        model_config=SimpleNamespace(get_vocab_size=lambda: engine.vocab_size, is_diffusion=False),
        scheduler_config=SimpleNamespace(max_num_seqs=ROWS, async_scheduling=False),
        num_speculative_tokens=0,
    )
    made.backend = made._grammar_bitmask = made.tokenizer = made.reasoner_cls = None
    made._use_async_grammar_compilation, made.enable_in_reasoning = True, False
    made.fill_bitmask_parallel_threshold = 128
    made.executor, made.guided_context = ThreadPoolExecutor(1), Future()
    made.guided_context.set_result(SimpleNamespace(engine=engine))
    yield made
    made.executor.shutdown()


def request_of(name: str, **asked: Any) -> Any:
    nothing = dict.fromkeys(("json", "json_object", "regex", "choice", "grammar", "structural_tag"))
    params: Any = SimpleNamespace(_backend="xgrammar", **nothing | asked)
    sampling = SimpleNamespace(structured_outputs=params, all_stop_token_ids=set())
    return SimpleNamespace(
        request_id=name,
        sampling_params=sampling,
        structured_output_request=StructuredOutputRequest(params),
        prompt_token_ids=[1, 2],
        max_tokens=40,
    )


def test_a_cold_manager_gets_both_kinds_at_once(engine: Engine, manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler asks for the masks of our rows while vLLM's backend is made, which takes seconds."""
    plan = plan_of(engine, response_format=Choice(("yes", "no")))
    ours = request_of("ours", grammar=seal(plan))
    found = []

    def masks() -> None:
        words = manager.grammar_bitmask({"ours": ours}, ["ours"], {})
        assert words.shape == (1, num_words(engine.vocab_size))
        found.append(allowed_ids(words[0]))

    class Slow:
        def __init__(self, *_: Any, **__: Any) -> None:
            masks()

        def compile_grammar(self, *_: Any, **__: Any) -> str:
            return "theirs"

    monkeypatch.setattr(structured_output, "XgrammarBackend", Slow)
    manager.grammar_init(ours)
    ours.structured_output_request._grammar.result()
    theirs = request_of("theirs", regex="a")
    manager.grammar_init(theirs)
    assert theirs.structured_output_request._grammar.result() == "theirs"
    masks()
    assert found[0] == found[1] != []

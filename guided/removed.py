"""Public names that version 0.1 had and where their jobs are done now: using one says so.  Goes with version 0.3."""

from __future__ import annotations

import sys

__all__ = ["METHODS", "NAMES", "NAMES_OF_HF", "removed"]

NAMES = {
    "Batch": "guided.hf.Batch",
    "CacheInfo": "grammars.limits.bounded_cache.CacheInfo; guide.stats() holds two",
    "ChoiceProbability": "guided.sampling.ChoiceProbability; guide.choice_probabilities returns them",
    "Guidance": "guided.engine.counters.Guidance; message.guidance is one",
    "HiddenStates": "guided.hf.HiddenStates",
    "LastHiddenState": "guided.hf.LastHiddenState",
    "Llguidance": "grammars.values.constraints.Llguidance",
    "NotMsgpack": "guided.WireError, its base class",
    "RegionName": "grammars.plan.plan.RegionName",
    "ReportRow": "grammars.values.report.ReportRow; plan.schema_report.rows holds them",
    "SchemaReport": "grammars.values.report.SchemaReport; plan.schema_report is one",
    "TokenLogprob": "guided.sampling.TokenLogprob; message.logprobs holds them",
    "ToolResult": "guided.hf.tool_loop.ToolResult; run.results holds them",
    "ToolRun": "guided.hf.ToolRun",
    "Trace": "guided.output.trace_records.Trace; message.trace is one",
    "UnfinishedMarkup": "guided.output.parser.UnfinishedMarkup",
    "UnknownVersion": "guided.WireError, its base class",
    "Usage": "guided.output.message.Usage; message.usage is one",
}

NAMES_OF_HF = {"Inputs": "guided.hf.Batch; batch.inputs is one"}

METHODS = {
    "cache_info": "guide.stats().grammars",
    "cache_stats": "guide.stats().kept",
    "check_max_tokens": 'short_budget="error" in the request, or guide.check(plan).min_tokens',
    "generate_kwargs": "guide.batch(chats, plans): model.generate(**batch)",
    "hidden_states": "guided.hf.hidden_states(guide, messages, message)",
    "inputs": "guide.batch(chats, plans).inputs",
    "messages": "guide.batch(chats, plans).messages(output)",
    "min_tokens": "guide.check(plan).min_tokens",
    "pad_id": "guide.tokenizer.pad_token_id; guide.batch gives model.generate what it needs",
    "plan_from_request": "guide.plan(guided.read_request(body))",
    "plans": "guide.stats().plans",
    "shortest": "guide.check(plan).shortest",
}


def removed(owner: str, name: str, roads: dict[str, str]) -> AttributeError | ImportError:
    """Return the error for an attribute ``name`` that ``owner`` does not have, with where its job is done now.

    Called by ``__getattr__``.  ``from guided import NAME`` drops the text of an `AttributeError`, and gets another.
    """
    if name not in roads:
        return AttributeError(f"{owner} has no attribute {name!r}", name=name)
    kind = ImportError if sys._getframe(2).f_code.co_name == "_handle_fromlist" else AttributeError
    return kind(f"{owner} has no attribute {name!r}; use {roads[name]}", name=name)

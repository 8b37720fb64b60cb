"""Infer how a template writes tool calls from rendered sample calls."""

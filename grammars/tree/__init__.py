"""The grammar tree: immutable nodes, their rendering as Lark for llguidance, marker text as tokens."""

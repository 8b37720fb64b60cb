"""The syntaxes in which models write tool calls, and the parts that they share."""

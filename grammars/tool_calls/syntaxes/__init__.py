"""The tool-call syntaxes, one module each; `lookup` finds them by id."""

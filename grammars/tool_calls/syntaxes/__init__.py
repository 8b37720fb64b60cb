"""The tool-call syntaxes, which `lookup` finds by id."""

"""Infer reasoning markers, switches and prompt suffixes from renderings."""

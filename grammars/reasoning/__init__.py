"""Reasoning effort: levels, templates, and the reasoning block of a plan."""

"""Infer a model's wire format from its chat template, and check it against what the template writes."""

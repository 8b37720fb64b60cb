"""Limits on what a request may cost: deadline, schema limits, cached outcomes."""

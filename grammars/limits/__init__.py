"""Limits on what a request may cost: work and time, the size of schemas, cached outcomes."""

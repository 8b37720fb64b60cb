"""Rows of a batch: guided, unguided, and followed through beam search."""

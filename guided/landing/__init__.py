"""The path from any place of an answer to its end: a search over bytes, verified on the answer's state."""

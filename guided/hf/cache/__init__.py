"""The KV cache of the decode loop: rows of their own lengths, and a self-test of what a model supports."""

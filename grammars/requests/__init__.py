"""OpenAI-style request bodies, read into the parts of a plan."""

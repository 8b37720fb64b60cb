"""The server ``guided serve``: OpenAI's endpoints over one model, many requests at once."""

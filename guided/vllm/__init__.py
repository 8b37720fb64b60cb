"""guided inside vLLM: our rows in its scheduler, and our Chat Completions on its engine."""

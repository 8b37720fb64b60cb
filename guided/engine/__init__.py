"""The llguidance engine: tokenizer, compiled grammars and their cache, matchers, trial compiles."""

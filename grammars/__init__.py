"""Grammars of answers: from the parts of a request to one plan with one grammar. No tokenizer, no engine, no tensor."""

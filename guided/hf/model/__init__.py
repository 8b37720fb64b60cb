"""Facts read from a model and its tokenizer: special tokens, chat template, wire format."""

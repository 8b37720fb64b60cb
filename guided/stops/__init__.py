"""Stop sequences and stop patterns: `matcher` follows one row, `compiled` says what each token does to a stop."""

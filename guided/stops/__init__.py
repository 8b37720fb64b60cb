"""Stop sequences and stop patterns: `matcher` follows one row, `automaton` holds the table that rows share."""

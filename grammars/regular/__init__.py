"""Regular languages over code points: terms, algebra, search, and JSON strings as lexemes."""

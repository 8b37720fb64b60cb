"""From shapes to grammar nodes: nonterminals, member order, lexemes, and the constraints left to the run time."""

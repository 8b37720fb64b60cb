"""The solver: from conjunctions of schemas to shapes, memoised."""

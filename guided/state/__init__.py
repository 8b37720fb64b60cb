"""The guidance of one sequence: token mask, commit, rollback, budgets."""

"""Tools that look at plans and generations: checks, shortest outputs, traces."""

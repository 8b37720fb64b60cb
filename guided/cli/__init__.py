"""The command line ``guided``: arguments to calls, results to the terminal, errors to exit codes.

Exit codes: 0 done; 1 the request, the model or the cache is at fault (the message says which); 2 wrong usage;
3 the answer was cut by max_tokens; 4 guidance failed while writing.
"""

from guided.cli.commands import EXIT_CUT, EXIT_FAILED, EXIT_REFUSED, app, main

__all__ = ["EXIT_CUT", "EXIT_FAILED", "EXIT_REFUSED", "app", "main"]

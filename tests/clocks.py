"""The clocks of the code, made slower: no test may fail for want of processors.

What a search may take is bounded by time as well as by work, and errors of those bounds are right on a machine that is
busy with other things.  Tests ask for something else, so the clocks wait.  How slow a machine is cannot be measured
beforehand: some are ten times slower a minute later.  Tests of a clock set their own.
"""

from __future__ import annotations

from contextlib import suppress

import grammars.deadline
import guided.engine.engine
import guided.engine.compile_trial
import guided.inspect.shortest
import guided.validation.validate_python
from grammars.limits.schema_limits import DEFAULT_LIMITS

__all__ = ["SLOWEST", "slow_down"]

#: How many times slower than usual a machine may be on which the tests pass.
SLOWEST = 60

#: Processor time gets longer there as well, by less; what never ends takes all that these clocks give.
_OF_PROCESSOR_TIME = 4

#: Working a schema out always ends by work before it ends by this clock.
_OF_SCHEMAS = 20


def slow_down() -> None:
    """Let the clocks of this process run so many times slower."""
    grammars.deadline.SECONDS *= SLOWEST
    guided.engine.compile_trial._WAIT *= SLOWEST
    guided.engine.engine._trial.seconds *= _OF_PROCESSOR_TIME
    object.__setattr__(DEFAULT_LIMITS, "seconds", DEFAULT_LIMITS.seconds * _OF_SCHEMAS)
    guided.inspect.shortest._SECONDS *= _OF_PROCESSOR_TIME
    guided.inspect.shortest._FIRST_SECONDS *= _OF_PROCESSOR_TIME
    guided.validation.validate_python._SECONDS *= _OF_PROCESSOR_TIME
    with suppress(ImportError):  # an optional extra
        import guided.validation.validate_rust as rust

        rust._WAIT *= SLOWEST

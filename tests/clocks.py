"""The clocks of the code, made slower where the machine is: no test may fail for want of processors.

What a search may take is bounded by time as well as by work, and errors of those bounds are right on a machine that is
busy with other things.  Tests ask for something else, so the clocks wait for the machine, as far as it is measured
slower than one on which the bounds were chosen.  Tests of a clock set their own.
"""

from __future__ import annotations

import time
from contextlib import suppress

import grammars.deadline
import guided.compile
import guided.compile_trial
import guided.shortest
import guided.validate_python
from grammars.json_schema.limits import DEFAULT_LIMITS

__all__ = ["SLOWNESS", "slow_down"]

_ADDITIONS = 300_000
_USUAL_S = 0.012  # for them, on the machine of which the bounds were chosen
_MARGIN = 4  # a machine gets slower while one measures
_MOST = 60
_FEW = 4


def _slowness() -> float:
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        total = 0
        for i in range(_ADDITIONS):
            total += i
        times.append(time.perf_counter() - begun)
    found = max(times) / _USUAL_S
    return 1.0 if found < _MARGIN else min(_MOST, found * _MARGIN)


#: How many times slower the machine is than usual; 1 up to a few times, which the bounds allow for.
SLOWNESS = _slowness()


def slow_down(times: float = SLOWNESS) -> None:
    """Let the clocks of this process run so many times slower; those of processor time a few times at the most.

    The latter run slower by themselves, and what never ends takes all of them.
    """
    if times <= 1:
        return
    few = min(times, _FEW)
    grammars.deadline.SECONDS *= times
    guided.compile_trial._WAIT = int(guided.compile_trial._WAIT * times)
    guided.compile._trial.seconds *= few
    object.__setattr__(DEFAULT_LIMITS, "seconds", DEFAULT_LIMITS.seconds * few)
    guided.shortest._SECONDS *= few
    guided.shortest._FIRST_SECONDS *= few
    guided.validate_python._SECONDS *= few
    with suppress(ImportError):  # an optional extra
        import guided.validate_rust as rust

        rust._WAIT *= times

"""What tests a store or a service. Ships in the wheel, for backends and services we have never seen.

* `StoreConformance`: the promises of the port, to be subclassed in five lines; `guarantees()` lists them.
* `explore`: every interleaving, crash point and unknown outcome of racing operations.
* `Recorder`, `linearizable`: whether what many threads saw can be explained by one order.
* `strongroom.testing.machine`: a state machine against a plain model (needs Hypothesis, so it is not imported here).
"""

from strongroom.testing.conformance import Guarantee, StoreConformance, failures, guarantees, race, raises
from strongroom.testing.driven import Driven
from strongroom.testing.explore import CRASHED, Exploration, Failure, Step, explore
from strongroom.testing.linearizability import EMPTY, Operation, Recorder, linearizable, store_step

__all__ = [
    "CRASHED",
    "EMPTY",
    "Driven",
    "Exploration",
    "Failure",
    "Guarantee",
    "Operation",
    "Recorder",
    "Step",
    "StoreConformance",
    "explore",
    "failures",
    "guarantees",
    "linearizable",
    "race",
    "raises",
    "store_step",
]

"""The cases of `inputs`, in jax."""

from typing import Any

import inputs
import jax
import jax.numpy
from jax.experimental import multihost_utils
from place import Place


def run(place: Place) -> dict[str, Any]:
    """Results of each case."""
    jax.distributed.initialize(place.address, place.count, place.process)
    return inputs.outcomes(jax, jax.numpy, multihost_utils)

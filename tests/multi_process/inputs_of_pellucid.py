"""The cases of `inputs`, in pellucid."""

from typing import Any

import inputs
from place import Place
from programs import join

import pellucid
import pellucid.numpy
from pellucid.experimental import multihost_utils


def run(place: Place) -> dict[str, Any]:
    """Results of each case."""
    join(place)
    return inputs.outcomes(pellucid, pellucid.numpy, multihost_utils)

"""Taylor mode under the name of `jax.experimental.jet`."""

from pellucid._machine.transforms.jet import jet as jet
from pellucid._machine.xla.arrays import Array
from pellucid.scipy.special import factorial


def fact(n: int) -> Array:
    """n!, by which the n-th derivative is divided for a Taylor coefficient, as a floating number.

    >>> fact(3)
    Array(6., dtype=float32, weak_type=True)
    """
    return factorial(n)


__all__ = ["fact", "jet"]

"""`pellucid.scipy.special`: special functions."""

from pellucid._machine.higher_order.staged_functions import give_stages as _give_stages
from pellucid.scipy.special import (
    bessel,
    complex_functions,
    entropies,
    gamma_functions,
    hypergeometric,
    integrals,
    legendre,
    normal,
)
from pellucid.scipy.special.bessel import *
from pellucid.scipy.special.complex_functions import *
from pellucid.scipy.special.entropies import *
from pellucid.scipy.special.gamma_functions import *
from pellucid.scipy.special.hypergeometric import *
from pellucid.scipy.special.integrals import *
from pellucid.scipy.special.legendre import *
from pellucid.scipy.special.normal import *

__all__ = sorted([  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]
    *bessel.__all__, *complex_functions.__all__, *entropies.__all__, *gamma_functions.__all__,
    *hypergeometric.__all__, *integrals.__all__, *legendre.__all__, *normal.__all__,
])  # fmt: skip

_give_stages(globals())

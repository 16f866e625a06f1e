"""`pellucid.numpy.linalg`: linear algebra on the matrices in the last two axes of arrays.

Integers become floats of the default width. Matrices of narrower floats than float32 are refused: no library has them.
"""

from pellucid._machine.higher_order.staged_functions import give_stages as _give_stages
from pellucid.numpy.linalg import decompositions, equations, hermitian_functions, norms, products
from pellucid.numpy.linalg.decompositions import *
from pellucid.numpy.linalg.equations import *
from pellucid.numpy.linalg.hermitian_functions import *
from pellucid.numpy.linalg.norms import *
from pellucid.numpy.linalg.products import *

__all__ = sorted([  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]
    *decompositions.__all__, *equations.__all__, *hermitian_functions.__all__, *norms.__all__, *products.__all__,
])  # fmt: skip

_give_stages(globals())

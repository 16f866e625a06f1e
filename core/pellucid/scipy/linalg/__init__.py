"""`pellucid.scipy.linalg`: SciPy's linear algebra. Options about memory and checks of elements have no effect."""

from pellucid._machine.higher_order.staged_functions import give_stages as _give_stages
from pellucid.scipy.linalg import equations, functions, special_matrices
from pellucid.scipy.linalg.equations import *
from pellucid.scipy.linalg.functions import *
from pellucid.scipy.linalg.special_matrices import *

__all__ = sorted([  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]
    *equations.__all__, *functions.__all__, *special_matrices.__all__,
])  # fmt: skip

_give_stages(globals())

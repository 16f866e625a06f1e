"""Matrix decompositions and solvers under the names of `jax.lax.linalg`."""

from pellucid._machine.higher_order.staged_functions import give_stages as _give_stages
from pellucid._machine.linalg import polar as _polar
from pellucid._machine.linalg.cholesky import *
from pellucid._machine.linalg.eig import *
from pellucid._machine.linalg.lu import *
from pellucid._machine.linalg.polar import *
from pellucid._machine.linalg.qr import *
from pellucid._machine.linalg.reductions import *
from pellucid._machine.linalg.svd import *
from pellucid._machine.linalg.symmetric_eigen import *
from pellucid._machine.linalg.triangular import *
from pellucid._machine.linalg.tridiagonal_solve import *
from pellucid._machine.linalg.updates import *

_give_stages({"qdwh": _polar.qdwh})

"""Matrix decompositions and solvers under the names of `jax.lax.linalg`."""

from pellucid.higher_order.staged_functions import give_stages as _give_stages
from pellucid.linalg import polar as _polar
from pellucid.linalg.cholesky import *
from pellucid.linalg.eig import *
from pellucid.linalg.lu import *
from pellucid.linalg.polar import *
from pellucid.linalg.qr import *
from pellucid.linalg.reductions import *
from pellucid.linalg.svd import *
from pellucid.linalg.symmetric_eigen import *
from pellucid.linalg.triangular import *
from pellucid.linalg.tridiagonal_solve import *
from pellucid.linalg.updates import *

_give_stages({"qdwh": _polar.qdwh})

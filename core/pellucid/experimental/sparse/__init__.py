"""Sparse arrays, under the names of `jax.experimental.sparse`.

BCOO and BCSR arrays have batch and dense dimensions beside the sparse ones, and operators; COO, CSR and CSC are
matrices. `sparsify` applies functions of dense arrays to sparse ones.
"""

from pellucid.experimental.sparse import linalg as linalg, operators as operators
from pellucid.experimental.sparse.base import *
from pellucid.experimental.sparse.bcoo import *
from pellucid.experimental.sparse.bcsr import *
from pellucid.experimental.sparse.compressed import *
from pellucid.experimental.sparse.convolution import *
from pellucid.experimental.sparse.creation import *
from pellucid.experimental.sparse.derivatives import *
from pellucid.experimental.sparse.layouts import *
from pellucid.experimental.sparse.movement import *
from pellucid.experimental.sparse.products import *
from pellucid.experimental.sparse.trace import *

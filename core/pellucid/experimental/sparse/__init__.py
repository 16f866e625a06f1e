"""Sparse arrays, under the names of `jax.experimental.sparse`.

BCOO and BCSR arrays have batch and dense dimensions beside the sparse ones, and operators; COO, CSR and CSC are
matrices. `sparsify` applies functions of dense arrays to sparse ones.
"""

from pellucid.experimental.sparse import (
    ad as ad,
    api as api,
    bcoo as bcoo,
    bcsr as bcsr,
    coo as coo,
    csr as csr,
    linalg as linalg,
    operators as operators,
    random as random,
    transform as transform,
    util as util,
)
from pellucid.experimental.sparse.base import *
from pellucid.experimental.sparse.bcsr import *
from pellucid.experimental.sparse.compressed import *
from pellucid.experimental.sparse.convolution import *
from pellucid.experimental.sparse.coordinates import *
from pellucid.experimental.sparse.creation import *
from pellucid.experimental.sparse.derivatives import *
from pellucid.experimental.sparse.layouts import *
from pellucid.experimental.sparse.movement import *
from pellucid.experimental.sparse.products import *
from pellucid.experimental.sparse.trace import *

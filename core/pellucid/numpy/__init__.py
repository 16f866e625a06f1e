"""`pellucid.numpy`: the NumPy API on arrays that are traced, transformed, compiled and sharded."""

from __future__ import annotations

import numpy as np

from pellucid._machine.base.dtypes import (
    SCALAR_TYPES as _SCALAR_TYPES,
    finfo as finfo,
    iinfo as iinfo,
    isdtype as isdtype,
    issubdtype as issubdtype,
    promote_types as promote_types,
    result_type as result_type,
)
from pellucid._machine.higher_order.staged_functions import give_stages as _give_stages
from pellucid._machine.primitives.movement import broadcast_shapes as broadcast_shapes
from pellucid._machine.xla.arrays import Array as ndarray  # noqa: N813
from pellucid.numpy import (
    fft as fft,
    linalg as linalg,
    operators as _operators,
    ufuncs as _ufuncs,
)
from pellucid.numpy.axes import *
from pellucid.numpy.convolutions import *
from pellucid.numpy.creation import *
from pellucid.numpy.cumulative import *
from pellucid.numpy.differences import *
from pellucid.numpy.einsum import *
from pellucid.numpy.elementwise import *
from pellucid.numpy.grids import *
from pellucid.numpy.guarded_formulas import *
from pellucid.numpy.histograms import *
from pellucid.numpy.imports import *
from pellucid.numpy.joining import *
from pellucid.numpy.manipulation import *
from pellucid.numpy.namespace import (
    __array_api_version__ as __array_api_version__,
    __array_namespace_info__ as __array_namespace_info__,
)
from pellucid.numpy.nan_reductions import *
from pellucid.numpy.number_kinds import *
from pellucid.numpy.number_parts import *
from pellucid.numpy.padding import *
from pellucid.numpy.polynomials import *
from pellucid.numpy.products import *
from pellucid.numpy.quantiles import *
from pellucid.numpy.queries import *
from pellucid.numpy.reductions import *
from pellucid.numpy.searching import *
from pellucid.numpy.selection import *
from pellucid.numpy.sets import *
from pellucid.numpy.sorting import *
from pellucid.numpy.statistics import *
from pellucid.numpy.ufuncs import *
from pellucid.numpy.vectorized import vectorize as vectorize
from pellucid.numpy.windows import *

globals().update(_SCALAR_TYPES)
bool_ = _SCALAR_TYPES["bool"]
int_ = _SCALAR_TYPES["int64"]
uint = _SCALAR_TYPES["uint64"]
float_ = double = _SCALAR_TYPES["float64"]
single = _SCALAR_TYPES["float32"]
complex_ = cdouble = _SCALAR_TYPES["complex128"]
csingle = _SCALAR_TYPES["complex64"]

ComplexWarning = np.exceptions.ComplexWarning
e, pi, euler_gamma, inf, nan, newaxis = np.e, np.pi, np.euler_gamma, np.inf, np.nan, None
dtype = np.dtype
generic, number, inexact, floating, complexfloating = (
    np.generic, np.number, np.inexact, np.floating, np.complexfloating,
)  # fmt: skip
integer, signedinteger, unsignedinteger, character, flexible, object_ = (
    np.integer, np.signedinteger, np.unsignedinteger, np.character, np.flexible, np.object_,
)  # fmt: skip
set_printoptions, get_printoptions, printoptions = (
    np.set_printoptions, np.get_printoptions, np.printoptions,
)  # fmt: skip

_operators.install()
_ufuncs.install()

_give_stages(globals())

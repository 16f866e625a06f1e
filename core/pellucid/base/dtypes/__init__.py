"""Dtypes: which there are, which one a value has, and which one several values have together."""

from pellucid.base.dtypes.canonical import (
    as_dtype,
    canonicalize_dtype,
    check_user_dtype,
    default_complex_dtype,
    default_float_dtype,
    default_int_dtype,
    default_uint_dtype,
    dtype_and_weak_type,
    dtype_of,
    is_weakly_typed,
    register_weak_scalar,
    scalar_type_of,
)
from pellucid.base.dtypes.catalog import (
    ALL,
    BOOL,
    COMPLEXES,
    FLOATS,
    KINDS,
    NARROW_FLOATS,
    NUMERIC,
    SIGNED,
    SUPPORTED,
    UNSIGNED,
    DType,
    DTypeLike,
    finfo,
    iinfo,
    itemsize_bits,
    short_name,
    supports_inf,
)
from pellucid.base.dtypes.conversion import (
    to_complex_dtype,
    to_floating_dtype,
    to_inexact_dtype,
    to_numeric_dtype,
)
from pellucid.base.dtypes.errors import (
    TruncatedDtypeWarning,
    TypePromotionError,
)
from pellucid.base.dtypes.extended import ExtendedDType, extended, float0, prng_key
from pellucid.base.dtypes.facts import canonicalize, is_inexact, item_bytes, tangent_dtype
from pellucid.base.dtypes.hierarchy import isdtype, issubdtype
from pellucid.base.dtypes.promotion import (
    OperandType,
    lattice_result_type,
    promote,
    promote_types,
    result_type,
    safe_to_cast,
)
from pellucid.base.dtypes.scalar_types import SCALAR_TYPES, ScalarType

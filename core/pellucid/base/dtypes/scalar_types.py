"""Scalar types as `jax.numpy` names them: `float32(3)` gives an array, `float32` names a dtype."""

from typing import Any

from pellucid.base.late import late

from .catalog import ALL, DType


class ScalarType(type):
    """Class of the scalar types. Each equals, and hashes as, NumPy's type of the same dtype.

    >>> float32 = SCALAR_TYPES["float32"]
    >>> float32 == np.float32, np.dtype(float32), isinstance(np.float32(1), float32)
    (True, dtype('float32'), True)
    """

    dtype: DType

    def __call__(cls, x: Any) -> Any:
        """`x` as an array of this dtype."""
        return late("asarray")(x, cls.dtype)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return cls is other or cls.dtype.type == other

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(dtype: DType) -> ScalarType:
    namespace = {
        "dtype": dtype,
        "__doc__": f"Scalar type of the dtype {dtype.name}; called, it makes an array of it.",
        "__module__": "pellucid.numpy",
    }
    return ScalarType(dtype.name, (), namespace)


SCALAR_TYPES: dict[str, ScalarType] = {dtype.name: _scalar_type(dtype) for dtype in ALL}
"""Every scalar type by the name of its dtype."""

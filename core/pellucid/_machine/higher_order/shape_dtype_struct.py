"""`ShapeDtypeStruct`: the type of an array, used in place of an array."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    canonical_shape,
    dtypes,
)
from pellucid._machine.ir import (
    Described,
    abstract_ref,
    aval_at,
    narrow_type,
    shaped_array,
)
from pellucid._machine.sharding import ManualAxisType, check_without_addends
from pellucid._machine.sharding.explicit_types import check_divisible
from pellucid._machine.sharding.layout import AutoLayout, Format
from pellucid._machine.sharding.stated import stated_layout, stated_sharding
from pellucid._machine.tracing import (
    type_of,
)
from pellucid._machine.xla import ARRAY_TYPES


class ShapeDtypeStruct(Described):
    """Shape and dtype of an array, in place of an array where only these matter.

    `sharding` may also be a PartitionSpec over the current mesh, or a Format. `manual_axis_type` gives the Manual mesh
    axes over which the value varies inside `shard_map`. With `is_ref`, it describes a reference to such an array.

    Raises: ArgumentValueError without a dtype; ArgumentTypeError for a `manual_axis_type` of another kind;
    MissingMeshError for a PartitionSpec where no mesh is current; ShardingError for a sharding that doesn't fit;
    LayoutError for a layout of another rank; UnsupportedError for addends.

    >>> ShapeDtypeStruct((2, 3), np.float32)
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_stated", "sharding", "layout", "manual_axis_type")

    dtype, itemsize, nbytes = (
        property(operator.attrgetter(f"_stated.{name}"), doc=f"`{name}` as it was stated.")
        for name in ("dtype", "itemsize", "nbytes")
    )

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: ManualAxisType | None = None,
        is_ref: bool = False,
    ) -> None:
        if dtype is None:
            raise ArgumentValueError("ShapeDtypeStruct needs a dtype.")
        if not isinstance(manual_axis_type, (ManualAxisType, type(None))):
            raise ArgumentTypeError(
                "ShapeDtypeStruct: `manual_axis_type` must be a ManualAxisType.",
                got=f"manual_axis_type: {type(manual_axis_type).__name__}",
                do="Take that of a value, `typeof(x).manual_axis_type`.",
            )
        chosen = dtype if isinstance(dtype, dtypes.ExtendedDType) else np.dtype(dtype)
        aval = shaped_array(canonical_shape(shape), chosen, weak_type)
        self.layout = stated_layout(sharding)
        if isinstance(self.layout, AutoLayout):
            raise ArgumentTypeError(
                "ShapeDtypeStruct can't have `Layout.AUTO`.",
                got=f"sharding: {sharding}",
                do="Give `Layout.AUTO` to jit's `in_shardings`.",
            )
        if self.layout is not None:
            self.layout.check_compatible_aval(aval.shape)
        self.sharding: Any = stated_sharding("ShapeDtypeStruct", sharding, with_layout=True)
        if self.sharding is not None:
            self.sharding.check_compatible_aval(aval.shape)
            aval = aval_at(aval, self.sharding)
            if aval.shown_sharding is not None:
                mesh, spec = aval.shown_sharding.mesh, aval.shown_sharding.spec
                check_divisible(aval.shape, spec, mesh, "ShapeDtypeStruct: ")
        self.manual_axis_type = manual_axis_type
        if manual_axis_type is not None:
            check_without_addends("ShapeDtypeStruct", manual_axis_type)
            aval = aval.update(varying=manual_axis_type.varying)
        self._stated: Any = abstract_ref(aval) if is_ref else aval

    @property
    def aval(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The aval; 64-bit dtypes are narrowed while they are disabled."""
        stated = self._stated
        if hasattr(stated, "inner_aval"):
            return abstract_ref(narrow_type(stated.inner_aval))
        return narrow_type(stated)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The ShapeDtypeStruct of `x`, an array, number or ShapeDtypeStruct, with the placement of a committed array.

        >>> ShapeDtypeStruct.like(np.zeros(3, np.int8))
        ShapeDtypeStruct(shape=(3,), dtype=int8)
        """
        if isinstance(x, cls):
            return x
        aval = type_of(x)
        is_placed = type(x) in ARRAY_TYPES and x.committed
        return cls(
            aval.shape,
            aval.dtype,
            sharding=x.format if is_placed else aval.shown_sharding,
            weak_type=aval.weak_type,
            manual_axis_type=ManualAxisType(varying=aval.varying) if aval.varying else None,
        )

    @property
    def is_ref(self) -> bool:
        """Whether it describes a reference."""
        return hasattr(self._stated, "inner_aval")

    @property
    def format(self) -> Format:
        """Layout and sharding, each None if unspecified."""
        return Format(self.layout, self.sharding)

    def __reduce__(self) -> Any:
        fields = self._fields()
        del fields["format"]
        shape, dtype = fields.pop("shape"), fields.pop("dtype")
        if self.layout is not None:
            fields["sharding"] = self.format
        stated = {name: value for name, value in fields.items() if value not in (None, False)}
        make = functools.partial(ShapeDtypeStruct, **stated) if stated else ShapeDtypeStruct
        return make, (shape, dtype)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """Restores pickles of JAX, which store the state only."""
        fields = {name.lstrip("_"): value for name, value in state[1].items()}
        layout = fields.pop("dll")
        if layout is not None:
            fields["sharding"] = Format(layout, fields["sharding"])
        self.__init__(**fields)

    def __len__(self) -> int:
        return len(self.aval)

    def _fields(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "dtype": self.dtype, "sharding": self.sharding,
            "format": self.layout, "weak_type": self.weak_type,
            "manual_axis_type": self.manual_axis_type, "is_ref": self.is_ref,
        }  # fmt: skip

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """This struct with some fields replaced."""
        fields = self._fields()
        if fields.pop("format") is not None:
            fields["sharding"] = self.format
        return ShapeDtypeStruct(**(fields | changes))

    def __repr__(self) -> str:
        fields = self._fields() | {"dtype": getattr(self.dtype, "name", self.dtype)}
        shown = [f"{name}={value}" for name, value in fields.items() if value not in (None, False)]
        return f"ShapeDtypeStruct({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(tuple(self._fields().values()))

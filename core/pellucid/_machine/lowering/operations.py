"""Building blocks of lowering rules: types, constants, layouts and operations of the module being built.

`ctx.avals_in`, `ctx.avals_out` and `ctx.location` belong to the equation at hand; the same object serves
the whole module, so that lowering an equation allocates nothing but its operation.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import (
    CompilationError,
    Ints,
    Names,
    Shape,
    Size,
    Symbol,
    describe,
    dtypes,
)
from pellucid._machine.ir import (
    AbstractValue,
    Avals,
    Effect,
    Equation,
    ShapedArray,
    abstract_token,
    element_shape,
    physical,
    shaped_array,
)
from pellucid._machine.sharding import NamedSharding
from pellucid._machine.sharding.explicit_types import shown_sharding
from pellucid._machine.xla import Device
from pellucid._machine.xla.mlir import element_types, ir

from .dynamic_shapes import dynamic_form, size_value, sizes_value
from .faults import STRETCHED_ADDENDS, Fault, is_suspended
from .rule_context import RuleContext

_create = ir.Operation.create
_I64 = np.dtype(np.int64)
_ELEMENT_BY_ELEMENT = {f"stablehlo.{op}" for op in ("convert", "reverse", "transpose", "reshape")}
FRONTEND = "mhlo.frontend_attributes"
"""The attribute of an operation that holds what the user says of it to XLA."""
Attributes: TypeAlias = dict[str, Any]
"""Attributes of an operation by name: MLIR's, or Python values of the types in `_ATTRIBUTE_OF`."""
Values: TypeAlias = Sequence[ir.Value]


@dataclass(slots=True, eq=False)
class OperationBuilder(RuleContext):
    """Base class of `LoweringContext`: the building blocks that rules use.

    Operations are made by name (`ctx.op`, `ctx.op1`): generated op classes cost three times as much and
    change between releases.
    """

    context: ir.Context
    platforms: Names
    """The platforms that the equation at hand is lowered for; see `platform`."""
    reads_platform: bool = False
    """Whether the rule of the equation at hand has asked for the platform."""
    globals: Values = ()
    """Values that every function of the module takes in front of its own arguments: which one of several platforms the
    program runs on, and its sizes."""
    dimensions: Names = ()
    """The dimension variables of the program, whose values are the last ones of `globals`."""
    equation: Equation | None = None
    """The equation at hand."""
    location: ir.Location = field(default_factory=ir.Location.unknown)
    avals_in: tuple[Any, ...] = ()
    avals_out: tuple[Any, ...] = ()
    tokens: dict[Effect, ir.Value] = field(default_factory=dict[Effect, ir.Value])
    host_callbacks: list[Any] = field(default_factory=list[Any])
    """Python functions that the compiled program calls, by index."""
    host_failures: list[list[BaseException] | None] = field(
        default_factory=list[list[BaseException] | None]
    )
    """For each of them, where it puts its failures instead of raising them; None where it raises."""
    keep_alive: list[Any] = field(default_factory=list[Any])
    """Objects that must live as long as the executable."""
    checks: list[Callable[[Any], None]] = field(default_factory=list[Callable[[Any], None]])
    """Checks of the compiled program before it runs."""
    self_updates: list[Any] = field(default_factory=list[Any])
    """Updates of arrays that read their array, settled when the module is whole."""
    largest_contraction: float = 0.0
    """Most products that one matrix multiplication takes, infinite if one is in a loop; see `note_contraction`."""
    loop_depth: int = 0
    sharding_groups: int = 0
    """Number of groups of values that Shardy gives one sharding."""
    is_slow_in_calls: bool = False
    """Whether XLA has fast kernels for some operation only where the call around it is inlined."""
    is_exact: bool = False
    """Whether products and quotients are rounded as in eager operations (`exact.py`)."""
    sharding_attributes: Any = None
    frontend_attributes: dict[str, ir.Attribute] = field(default_factory=dict[str, ir.Attribute])
    """The frontend attributes of the equation at hand: metadata that the user passes to XLA."""
    manual: Any = None
    """The manual region being lowered (`lowering.collectives`), if there is one."""
    _remembered: dict[Any, Any] = field(
        default_factory=lambda: {abstract_token: ir.Type.parse("!stablehlo.token")}
    )
    """MLIR's types and attributes by what they are made of: an aval, a dtype, a text, or a kind and values."""

    @property
    def platform(self) -> str:
        """The platform that the equation at hand is lowered for.

        A rule that asks for it is used once for each platform of a module of several, and lowered as a choice.
        """
        self.reads_platform = True
        return self.platforms[0]

    # Types ------------------------------------------------------------------------------------

    def type(self, aval: Any) -> ir.Type:
        """The MLIR type of values of type `aval`."""
        mlir_type = self._remembered.get(aval)
        if mlir_type is None:
            array = physical(aval)
            dynamic = ir.ShapedType.get_dynamic_size()
            shape = [dynamic if isinstance(size, Symbol) else size for size in array.shape]
            mlir_type = ir.RankedTensorType.get(shape, self.element_type(array.dtype))
            self._remembered[aval] = mlir_type
        return mlir_type

    def types(self, avals: Avals) -> list[ir.Type]:
        """The MLIR types of `avals`."""
        return [self.type(aval) for aval in avals]

    def element_type(self, dtype: Any) -> ir.Type:
        """The MLIR type of one element."""
        element_type = self._remembered.get(dtype)
        if element_type is None:
            make = element_types.get(dtype)
            if make is None:
                raise CompilationError(
                    f"arrays of dtype {dtypes.short_name(dtype)} can't be compiled.",
                    do="Convert to a dtype that XLA has.",
                )
            element_type = self._remembered[dtype] = make()
        return element_type

    # Sizes ------------------------------------------------------------------------------------

    def size(self, size: Size) -> ir.Value:
        """A size as an int32 scalar."""
        return size_value(self, size).value

    def sizes(self, sizes: Iterable[Size]) -> ir.Value:
        """Sizes as an int32 vector."""
        return sizes_value(self, sizes)

    def refuse_symbols(self, what: str, values: Iterable[Any]) -> None:
        symbols = [x for x in values if isinstance(x, Symbol)]
        if symbols:
            equation = self.equation
            name = "the program" if equation is None else f"`{equation.primitive.name}`"
            raise CompilationError(
                f"{name} can't be lowered for a symbolic dimension: {what} must be known when it is compiled.",
                got=f"{symbols[0]}",
                where=None if equation is None else describe(equation.source),
                do="Make that dimension an integer.",
            )

    # Attributes -------------------------------------------------------------------------------

    def ints(self, values: Ints) -> ir.Attribute:
        """`array<i64: ...>`."""
        key = ("ints", tuple(values))
        attribute = self._remembered.get(key)
        if attribute is None:
            self.refuse_symbols("these sizes", values)
            attribute = self._remembered[key] = ir.DenseI64ArrayAttr.get(list(values))
        return attribute

    def bools(self, values: Sequence[bool]) -> ir.Attribute:
        """`array<i1: ...>`."""
        return ir.DenseBoolArrayAttr.get(list(values))

    def int_matrix(self, values: Any) -> ir.Attribute:
        """`dense<...> : tensor<...xi64>`, for padding and replica groups."""
        if self.dimensions:
            self.refuse_symbols("these sizes", np.asarray(values, object).flat)
        return ir.DenseIntElementsAttr.get(np.ascontiguousarray(values, dtype=_I64))

    def integer(self, value: int, width: int = 64) -> ir.Attribute:
        """`value : iN`."""
        key = ("integer", value, width)
        attribute = self._remembered.get(key)
        if attribute is None:
            attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(width), value)
            self._remembered[key] = attribute
        return attribute

    def boolean(self, value: bool) -> ir.Attribute:
        """`true` or `false`."""
        return ir.BoolAttr.get(value)

    def string(self, value: str | bytes) -> ir.Attribute:
        """A string attribute."""
        return ir.StringAttr.get(value)

    def dictionary(self, attributes: Attributes) -> ir.Attribute:
        """A dictionary of attributes."""
        return ir.DictAttr.get(self.attributes(attributes))

    def attributes(self, attributes: Attributes) -> dict[str, ir.Attribute]:
        """MLIR attributes for those that a rule states, some as Python values."""
        converted: dict[str, ir.Attribute] = {}
        for name, x in attributes.items():
            make = _ATTRIBUTE_OF.get(type(x))  # pyright: ignore[reportUnknownArgumentType]  # of any value
            if make is None and self.dimensions:
                self.refuse_symbols(f"`{name}`", [x])
            converted[name] = x if make is None else make(self, x)
        return converted

    def attribute(self, text: str) -> ir.Attribute:
        """An attribute by its text, remembered: `#stablehlo<comparison_direction LT>`."""
        attribute = self._remembered.get(text)
        if attribute is None:
            attribute = self._remembered[text] = ir.Attribute.parse(text, self.context)
        return attribute

    def enum(self, kind: str, value: str) -> ir.Attribute:
        """`#stablehlo<kind value>`."""
        return self.attribute(f"#stablehlo<{kind} {value}>")

    # Operations -------------------------------------------------------------------------------

    def op(
        self,
        name: str,
        result_types: Sequence[ir.Type],
        operands: Values,
        attributes: Attributes | None = None,
        regions: int = 0,
    ) -> Any:
        """A new operation at the insertion point; `.results`, `.regions`."""
        return _create(
            name, results=result_types, operands=operands,
            attributes=self.frontend_attributes | self.attributes(attributes) if attributes else self.frontend_attributes,
            regions=regions, loc=self.location,
        )  # fmt: skip

    def op1(
        self,
        name: str,
        result: Any,
        operands: Values,
        attributes: Attributes | None = None,
    ) -> ir.Value:
        """The one result of a new operation; `result` is its aval."""
        if self.dimensions:
            name, operands, attributes = dynamic_form(
                self, name, result, operands, attributes or {}
            )
        return _create(
            name, results=[self.type(result)], operands=operands,
            attributes=self.frontend_attributes | self.attributes(attributes) if attributes else self.frontend_attributes,
            loc=self.location,
        ).result  # fmt: skip

    def as_result(
        self, name: str, operands: Values, attributes: Attributes | None = None
    ) -> ir.Value:
        """The one result of a new operation that gives the one result of the equation at hand."""
        return self.op1(name, self.avals_out[0], operands, attributes)

    def note_metadata(self, x: ir.Value, texts: dict[str, str]) -> None:
        """Add metadata to the operation that computes `x`; an argument has none to add it to."""
        if isinstance(x.owner, ir.Block):
            return
        attributes = x.owner.attributes
        metadata: Any = attributes[FRONTEND] if FRONTEND in attributes else ()  # noqa: SIM401  (it has no get)
        merged = {entry.name: entry.attr for entry in metadata}
        attributes[FRONTEND] = self.dictionary(merged | texts)

    def constant(self, value: Any, dtype: Any = None) -> ir.Value:
        """A constant from a NumPy array or scalar, or a symbolic size; `dtype` if it isn't the value's own."""
        if isinstance(value, Symbol):
            aval = shaped_array((), np.dtype(np.int32 if dtype is None else dtype))
            return self.convert(self.size(value), aval)
        array = np.asarray(value, dtype=dtype)
        if array.dtype == dtypes.float0:  # a device holds it as bool, see `physical`
            array = np.zeros(array.shape, bool)
        attribute = self.dense(array)
        return self.op("stablehlo.constant", [attribute.type], [], {"value": attribute}).result

    def dense(self, array: np.ndarray) -> ir.Attribute:
        """A dense attribute; extension dtypes travel as bytes of their width."""
        element = self.element_type(array.dtype)
        if array.dtype.kind == "V" or array.dtype.type.__module__ == "ml_dtypes":
            width = np.uint8 if array.dtype.itemsize == 1 else np.uint16
            return ir.DenseElementsAttr.get(
                np.ascontiguousarray(array).view(width), type=element, shape=array.shape
            )
        return ir.DenseElementsAttr.get(
            np.ascontiguousarray(array), type=element, shape=array.shape
        )

    def full(self, aval: ShapedArray, value: Any) -> ir.Value:
        """An array of type `aval` filled with `value`."""
        scalar = self.constant(value, aval.dtype)
        return self.broadcast(scalar, (), aval) if aval.shape else scalar

    def zeros(self, aval: ShapedArray) -> ir.Value:
        """An array of zero bits that holds values of type `aval`."""
        return self.full(physical(aval), 0)

    def broadcast(self, x: ir.Value, dims: Ints, result: Any) -> ir.Value:
        """`x` with its axes at `dims` of the result."""
        if self.addends is not None and self.has_fault(STRETCHED_ADDENDS):
            shape = ir.RankedTensorType(x.type).shape
            unstretched = [i for i, size in enumerate(shape) if size != 1]
            if len(unstretched) < len(shape):
                x = self.reshape(
                    x, shaped_array(tuple([shape[i] for i in unstretched]), result.dtype)
                )
                dims = [dims[i] for i in unstretched]
        return self.op1("stablehlo.broadcast_in_dim", result, [x], {"broadcast_dimensions": dims})

    def broadcast_to(self, x: ir.Value, aval: ShapedArray, shape: Shape) -> ir.Value:
        """`x` of type `aval` repeated to `shape`: a scalar, or an array whose dimensions of size 1 stretch."""
        result = shaped_array(shape, aval.dtype)
        n_words = len(element_shape(aval))
        return self.broadcast(x, range(len(shape) - aval.ndim, len(shape) + n_words), result)

    def reshape(self, x: ir.Value, result: Any) -> ir.Value:
        """`x` with another shape."""
        return self.op1("stablehlo.reshape", result, [x])

    def convert(self, x: ir.Value, result: Any) -> ir.Value:
        """`x` converted to the dtype of aval `result`."""
        return self.op1("stablehlo.convert", result, [x])

    def compare(
        self,
        x: ir.Value,
        y: ir.Value,
        direction: str,
        aval: ShapedArray,
        *,
        total_order: bool = False,
    ) -> ir.Value:
        """Elementwise comparison of two values of type `aval`; direction EQ, NE, LT, LE, GT, GE.

        `total_order` gives signed zeros and NaNs a place among the floating numbers.
        """
        if dtypes.is_inexact(aval.dtype):
            compare_type = "TOTALORDER" if total_order else "FLOAT"
        else:
            is_signed = aval.dtype.kind not in "ub" and dtypes.short_name(aval.dtype)[0] != "u"
            compare_type = "SIGNED" if is_signed else "UNSIGNED"
        return self.op1(
            "stablehlo.compare", shaped_array(aval.shape, np.dtype(bool)), [x, y],
            {"comparison_direction": self.enum("comparison_direction", direction),
             "compare_type": self.enum("comparison_type", compare_type)},
        )  # fmt: skip

    def transpose(self, x: ir.Value, permutation: Ints, result: Any) -> ir.Value:
        """`x` with permuted axes."""
        return self.op1("stablehlo.transpose", result, [x], {"permutation": permutation})

    def reduce(self, x: ir.Value, initial: ir.Value, axes: Ints, op: str, result: Any) -> ir.Value:
        """`x` reduced along `axes` by the StableHLO operation `op`, beginning with the scalar `initial`."""
        reduction = self.op(
            "stablehlo.reduce",
            [self.type(result)],
            [x, initial],
            {"dimensions": axes},
            regions=1,
        )
        self.scalar_body(reduction.regions[0], op, result.dtype)
        return reduction.result

    def block(self, region: ir.Region, avals: Avals, names: Sequence[str] = ()) -> ir.Block:
        """A new block in `region` with arguments of types `avals`; the last `len(names)` of them have `names` as locations."""
        types = self.types(avals)
        locations = [self.location] * (len(types) - len(names))
        locations += [ir.Location.name(name, context=self.context) for name in names]
        return ir.Block.create_at_start(region, types, locations)

    def constrain(self, x: ir.Value, sharding: Any, aval: Any, **options: Any) -> ir.Value:
        """`x` of type `aval`, which must be laid out as `sharding`; `x` itself in a program of one device.

        Options are those of `sharding.shardy.describe`.
        """
        if self.sharding_attributes is None:
            return x
        attribute = self.sharding_attributes.attribute(sharding, aval, **options)
        return self._constrained(x, aval, attribute)

    def _constrained(self, x: ir.Value, aval: AbstractValue, attribute: ir.Attribute) -> ir.Value:
        return self.op1("sdy.sharding_constraint", aval, [x], {"sharding": attribute})

    def on_one_device(self, n_results: int, device: Device | None = None) -> Attributes:
        """Attributes of an operation that one device does for all: it gets whole operands, and all get its results.

        That is `device`, or the first. None are needed in a program of one device, nor in a manual region, where each
        position does its own; an operation without results counts as one.
        """
        if self.sharding_attributes is None or self.manual is not None:
            return {}
        return {"sdy.sharding": self.sharding_attributes.on_one_device(max(n_results, 1), device)}

    def note_contraction(self, products: float) -> None:
        """Count a matrix multiplication of so many products, or those of a function; it guides which library does them."""
        if self.dimensions:
            return  # the module isn't compiled as it is
        if products and self.loop_depth:
            products = math.inf
        self.largest_contraction = max(self.largest_contraction, products)

    @property
    def is_partitioned(self) -> bool:
        """Whether XLA's partitioner cuts operations: it doesn't on one device, nor where every mesh axis is manual."""
        return self.sharding_attributes is not None and not (self.manual and self.manual.is_full)

    @property
    def may_cut_by_some_axes(self) -> bool:
        """Whether a value may be cut by some mesh axes, while along others devices hold the same part."""
        if not self.is_partitioned:
            return False
        mesh = self.sharding_attributes.mesh
        return mesh is None or sum(n > 1 for n in mesh.axis_sizes) > 1

    def everywhere(self, x: ir.Value, aval: Any) -> ir.Value:
        """`x` of type `aval`, which every device must hold in full.

        `x` itself in a program of one device, and in a manual region, where each position has a value of its own.
        """
        if self.sharding_attributes is None or self.manual is not None:
            return x
        return self._constrained(x, aval, self.sharding_attributes.everywhere(aval))

    def has_fault(self, fault: Fault) -> bool:
        """Whether the program at hand needs the workaround of `fault`."""
        if is_suspended(fault) or (fault.is_of_cpus and self.platform != "cpu"):
            return False
        if fault.scope == "cut operations":
            return self.is_partitioned
        return fault.scope == "all programs" or self.sharding_attributes is not None

    def whole_along(self, fault: Fault, x: ir.Value, aval: Any, dims: Ints) -> ir.Value:
        """`x` of type `aval`, which no device holds a part of along `dims`, if XLA has `fault`; as with `everywhere`."""
        if self.sharding_attributes is None or self.manual is not None or not self.has_fault(fault):
            return x
        return self._constrained(x, aval, self.sharding_attributes.whole_along(aval, dims))

    def is_surely_whole(self, x: ir.Value) -> bool:
        """Whether `x` is made, element by element, of a constant or an argument of the program that no axis cuts."""
        while not isinstance(x.owner, ir.Block) and x.owner.name in _ELEMENT_BY_ELEMENT:
            x = x.owner.operands[0]
        if not isinstance(x.owner, ir.Block):
            return x.owner.name == "stablehlo.constant"
        stated = self.stated_for_argument(x)
        return stated is not None and '"' not in str(stated.get("sdy.sharding"))

    def stated_for_argument(self, x: Any) -> Attributes | None:
        """The attributes of an argument of `main`; None for other arguments of blocks."""
        function: Any = x.owner.owner.operation.attributes
        if "sym_name" not in function or function["sym_name"] != self.string("main"):
            return None
        if "arg_attrs" not in function:
            return {}
        return {a.name: a.attr for a in function["arg_attrs"][ir.BlockArgument(x).arg_number]}

    def splits_evenly(self, aval: Any, dims: Iterable[int]) -> bool:
        """Whether every mesh axis splits dimensions `dims` of a value of type `aval` into parts of one size."""
        attributes = self.sharding_attributes
        return attributes.mesh is not None and not {*dims}.intersection(
            attributes.uneven_dims(aval, any)
        )

    def in_even_parts(
        self,
        fault: Fault,
        x: ir.Value,
        aval: Any,
        uneven_along: Callable[[Iterable[bool]], bool] = any,
    ) -> ir.Value:
        """`x` of type `aval`, whole along dimensions that mesh axes, `all` or `any` of them, split unevenly.

        As with `whole_along`.
        """
        if self.sharding_attributes is None:
            return x
        dims = self.sharding_attributes.uneven_dims(aval, uneven_along)
        return self.whole_along(fault, x, aval, dims) if dims else x

    def as_typed(self, x: ir.Value, aval: Any) -> ir.Value:
        """`x`, laid out over Explicit mesh axes as its type `aval` says."""
        sharding = self.placed_by_type(aval)
        return x if sharding is None else self.constrain(x, sharding, aval, leave_auto_open=True)

    def placed_by_type(self, aval: Any) -> Any:
        """The sharding in the type `aval`, without what it says of axes along which positions are programs."""
        sharding = getattr(aval, "shown_sharding", None)
        if sharding is None or self.manual is None:
            return sharding
        spec = sharding.spec
        marks = [marks - self.manual.manual for marks in (spec.unreduced, spec.reduced)]
        return shown_sharding(sharding.mesh, spec.update(None, *marks))

    @property
    def addends(self) -> NamedSharding | None:
        """The sharding of this equation's results if devices hold addends of these, else None."""
        for aval in self.avals_out:
            sharding = self.placed_by_type(aval)
            if sharding is not None and sharding.spec.unreduced:
                return sharding
        return None

    @contextlib.contextmanager
    def inside(self, region: ir.Region, avals: Avals) -> Generator[list[ir.Value]]:
        """Build operations in a new block in `region`, whose arguments are given."""
        block = self.block(region, avals)
        with ir.InsertionPoint(block):
            yield list(block.arguments)

    def scalar_body(self, region: ir.Region, op: str, dtype: Any) -> None:
        """Fill `region` with `(x, y) -> op(x, y)` on scalars of `dtype`, for a reduction."""
        aval = shaped_array((), dtype)
        with self.inside(region, [aval, aval]) as operands:
            self.op("stablehlo.return", [], [self.op1(op, aval, operands)])


_ATTRIBUTE_OF: dict[type, Callable[[OperationBuilder, Any], ir.Attribute]] = {
    bool: OperationBuilder.boolean,
    int: OperationBuilder.integer,
    **dict.fromkeys((str, bytes), OperationBuilder.string),
    **dict.fromkeys((tuple, list, range), OperationBuilder.ints),
}
"""How values of Python become attributes; numbers are integers of 64 bits, several of them an array."""

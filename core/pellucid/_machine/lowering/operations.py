"""Building blocks for lowering rules: types, constants, layouts and operations of the module.

`ctx.avals_in`, `ctx.avals_out` and `ctx.location` refer to the current equation. One object is used for the whole
module, so that lowering an equation allocates nothing but its operation.
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

from .dynamic_shapes import dynamic_form, size_value, sizes_value, unknown_size
from .faults import STRETCHED_ADDENDS, Fault, is_suspended
from .rule_context import RuleContext

_create = ir.Operation.create
_I64 = np.dtype(np.int64)
_ELEMENT_BY_ELEMENT = {f"stablehlo.{op}" for op in ("convert", "reverse", "transpose", "reshape")}
FRONTEND = "mhlo.frontend_attributes"
"""Attribute with the user's metadata for XLA."""
Attributes: TypeAlias = dict[str, Any]
"""Attributes of an operation by name: MLIR attributes, or Python values of the types in `_ATTRIBUTE_OF`."""
Values: TypeAlias = Sequence[ir.Value]


@dataclass(slots=True, eq=False)
class OperationBuilder(RuleContext):
    """Base class of `LoweringContext`: the building blocks that rules use.

    Operations are made by name (`ctx.op`, `ctx.op1`): generated op classes cost three times as much and
    change between releases.
    """

    context: ir.Context
    platforms: Names
    """Platforms for which the current equation is lowered; see `platform`."""
    reads_platform: bool = False
    """Whether the rule of the current equation has read `platform`."""
    globals: Values = ()
    """Leading arguments of every function in the module: the index of the platform, and the values of dimension
    variables.
    """
    takes_symbols: bool = True
    """Whether types may have symbolic dimensions: not where no argument of the module has one."""
    dimensions: Names = ()
    """Dimension variables of the program, whose values are the last of `globals`."""
    equation: Equation | None = None
    """The current equation."""
    location: ir.Location = field(default_factory=ir.Location.unknown)
    avals_in: tuple[Any, ...] = ()
    avals_out: tuple[Any, ...] = ()
    tokens: dict[Effect, ir.Value] = field(default_factory=dict[Effect, ir.Value])
    host_callbacks: list[Any] = field(default_factory=list[Any])
    """Python functions called by the compiled program, by index."""
    host_failures: list[list[BaseException] | None] = field(
        default_factory=list[list[BaseException] | None]
    )
    """For each of them, where it stores its exceptions instead of raising; None if it raises."""
    keep_alive: list[Any] = field(default_factory=list[Any])
    """Objects that must live as long as the executable."""
    checks: list[Callable[[Any], None]] = field(default_factory=list[Callable[[Any], None]])
    """Checks of the compiled program before it runs."""
    self_updates: list[Any] = field(default_factory=list[Any])
    """Updates of arrays that read the array itself, resolved when the module is complete."""
    selected_products: list[ir.Operation] = field(default_factory=list[ir.Operation])
    """Products of matrices with an operand that is a selection, resolved when the module is complete."""
    largest_contraction: float = 0.0
    """Number of products in the largest matrix multiplication, infinite if one is in a loop; see `note_contraction`."""
    loop_depth: int = 0
    sharding_groups: int = 0
    """Number of groups of values to which Shardy gives the same sharding."""
    is_slow_in_calls: bool = False
    """Whether XLA has a fast kernel for some operation only if the call around it is inlined."""
    is_exact: bool = False
    """Whether to round products and quotients as in eager operations (`exact.py`)."""
    sharding_attributes: Any = None
    frontend_attributes: dict[str, ir.Attribute] = field(default_factory=dict[str, ir.Attribute])
    """Frontend attributes of the current equation: the user's metadata for XLA."""
    manual: Any = None
    """The current manual region (`lowering.collectives`), if any."""
    _remembered: dict[Any, Any] = field(
        default_factory=lambda: {abstract_token: ir.Type.parse("!stablehlo.token")}
    )
    """Cache of MLIR types and attributes, by aval, dtype, text, or (kind, values)."""

    @property
    def platform(self) -> str:
        """The platform for which the current equation is lowered.

        A rule that reads it is lowered once for each platform of a multi-platform module, with a selection at run time.
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
            if dynamic in shape and not self.takes_symbols:
                raise unknown_size(array.shape[shape.index(dynamic)])
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
        """Converts attributes given as Python values to MLIR attributes."""
        converted: dict[str, ir.Attribute] = {}
        for name, x in attributes.items():
            make = _ATTRIBUTE_OF.get(type(x))  # pyright: ignore[reportUnknownArgumentType]  # of any value
            if make is None and self.dimensions:
                self.refuse_symbols(f"`{name}`", [x])
            converted[name] = x if make is None else make(self, x)
        return converted

    def attribute(self, text: str) -> ir.Attribute:
        """An attribute parsed from text and cached: `#stablehlo<comparison_direction LT>`."""
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
        """Creates an operation at the insertion point, with `.results` and `.regions`."""
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
        """Creates an operation with one result, of aval `result`, and returns that result."""
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
        """Creates an operation whose result has the type of the current equation's only result."""
        return self.op1(name, self.avals_out[0], operands, attributes)

    def note_metadata(self, x: ir.Value, texts: dict[str, str]) -> None:
        """Adds metadata to the operation that computes `x`; does nothing for an argument."""
        if isinstance(x.owner, ir.Block):
            return
        attributes = x.owner.attributes
        metadata: Any = attributes[FRONTEND] if FRONTEND in attributes else ()  # noqa: SIM401  (it has no get)
        merged = {entry.name: entry.attr for entry in metadata}
        attributes[FRONTEND] = self.dictionary(merged | texts)

    def constant(self, value: Any, dtype: Any = None) -> ir.Value:
        """A constant from a NumPy array or scalar, or from a symbolic size; `dtype` defaults to the value's own."""
        if isinstance(value, Symbol):
            aval = shaped_array((), np.dtype(np.int32 if dtype is None else dtype))
            return self.convert(self.size(value), aval)
        array = np.asarray(value, dtype=dtype)
        if array.dtype == dtypes.float0:  # on devices it is an array of bools, see `physical`
            array = np.zeros(array.shape, bool)
        attribute = self.dense(array)
        return self.op("stablehlo.constant", [attribute.type], [], {"value": attribute}).result

    def dense(self, array: np.ndarray) -> ir.Attribute:
        """A dense attribute; extension dtypes are passed as raw bytes."""
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
        """An array of zero bits with the physical type of `aval`."""
        return self.full(physical(aval), 0)

    def broadcast(self, x: ir.Value, dims: Ints, result: Any) -> ir.Value:
        """Broadcasts `x`, whose axes become the axes `dims` of the result."""
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
        """Broadcasts `x` of type `aval` to `shape`: a scalar, or an array whose dimensions of size 1 are expanded."""
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

        `total_order` orders signed zeros and NaNs among floating-point numbers.
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
        """Creates a block in `region` with arguments of types `avals`; the last `len(names)` have `names` as locations."""
        types = self.types(avals)
        locations = [self.location] * (len(types) - len(names))
        locations += [ir.Location.name(name, context=self.context) for name in names]
        return ir.Block.create_at_start(region, types, locations)

    def constrain(self, x: ir.Value, sharding: Any, aval: Any, **options: Any) -> ir.Value:
        """Annotates `x`, of type `aval`, with `sharding`; returns `x` itself in a program of one device.

        Options are those of `sharding.shardy.describe`.
        """
        if self.sharding_attributes is None:
            return x
        attribute = self.sharding_attributes.attribute(sharding, aval, **options)
        return self._constrain(x, aval, attribute)

    def _constrain(self, x: ir.Value, aval: AbstractValue, attribute: ir.Attribute) -> ir.Value:
        return self.op1("sdy.sharding_constraint", aval, [x], {"sharding": attribute})

    def on_one_device(self, n_results: int, device: Device | None = None) -> Attributes:
        """Attributes of an operation that one device executes on whole operands, with its results sent to all devices.

        That is `device`, or the first one. Empty in a program of one device, and in manual regions, where each position
        executes it. An operation without results counts as having one.
        """
        if self.sharding_attributes is None or self.manual is not None:
            return {}
        return {"sdy.sharding": self.sharding_attributes.on_one_device(max(n_results, 1), device)}

    def note_contraction(self, products: float) -> None:
        """Records a matrix multiplication, or a function with one, of this number of products; used to select the
        matmul library.
        """
        if self.dimensions:
            return  # the module isn't compiled in this form
        if products and self.loop_depth:
            products = math.inf
        self.largest_contraction = max(self.largest_contraction, products)

    @property
    def is_partitioned(self) -> bool:
        """Whether XLA's partitioner splits operations: not on one device, nor if every mesh axis is manual."""
        return self.sharding_attributes is not None and not (self.manual and self.manual.is_full)

    @property
    def may_cut_by_some_axes(self) -> bool:
        """Whether a value may be sharded over some mesh axes and replicated over others."""
        if not self.is_partitioned:
            return False
        mesh = self.sharding_attributes.mesh
        return mesh is None or sum(n > 1 for n in mesh.axis_sizes) > 1

    def everywhere(self, x: ir.Value, aval: Any) -> ir.Value:
        """Annotates `x`, of type `aval`, as replicated on all devices.

        Returns `x` itself in a program of one device, and in a manual region, where each position has its own value.
        """
        if self.sharding_attributes is None or self.manual is not None:
            return x
        return self._constrain(x, aval, self.sharding_attributes.everywhere(aval))

    def has_fault(self, fault: Fault) -> bool:
        """Whether the current program needs the workaround of `fault`."""
        if is_suspended(fault) or (fault.is_of_cpus and self.platform != "cpu"):
            return False
        if fault.scope == "cut operations":
            return self.is_partitioned
        return fault.scope == "all programs" or self.sharding_attributes is not None

    def whole_along(self, fault: Fault, x: ir.Value, aval: Any, dims: Ints) -> ir.Value:
        """Like `everywhere`, but only unshards dimensions `dims` of `x`, and only if XLA has `fault`."""
        if self.sharding_attributes is None or self.manual is not None or not self.has_fault(fault):
            return x
        return self._constrain(x, aval, self.sharding_attributes.whole_along(aval, dims))

    def shard_alike(self, fault: Fault, *values: ir.Value) -> None:
        """Lets Shardy shard values of one shape alike, if XLA has `fault`."""
        if self.sharding_attributes is not None and self.has_fault(fault):
            self.sharding_groups += 1
            for x in values:
                self.op("sdy.sharding_group", [], [x], {"group_id": self.sharding_groups})

    def is_surely_whole(self, x: ir.Value) -> bool:
        """Whether `x` is computed elementwise from a constant, or an argument of `main` annotated with no mesh axis."""
        while not isinstance(x.owner, ir.Block) and x.owner.name in _ELEMENT_BY_ELEMENT:
            x = x.owner.operands[0]
        if not isinstance(x.owner, ir.Block):
            return x.owner.name == "stablehlo.constant"
        stated = self.stated_for_argument(x)
        return stated is not None and '"' not in str(stated.get("sdy.sharding"))

    def stated_for_argument(self, x: Any) -> Attributes | None:
        """Attributes of an argument of `main`; None for arguments of other blocks."""
        function: Any = x.owner.owner.operation.attributes
        if "sym_name" not in function or function["sym_name"] != self.string("main"):
            return None
        if "arg_attrs" not in function:
            return {}
        return {a.name: a.attr for a in function["arg_attrs"][ir.BlockArgument(x).arg_number]}

    def splits_evenly(self, aval: Any, dims: Iterable[int]) -> bool:
        """Whether mesh axes divide dimensions `dims` of a value of type `aval` evenly."""
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
        """Unshards dimensions of `x` that all mesh axes, or `any`, divide unevenly, if XLA has `fault`.

        See `whole_along`.
        """
        if self.sharding_attributes is None:
            return x
        dims = self.sharding_attributes.uneven_dims(aval, uneven_along)
        return self.whole_along(fault, x, aval, dims) if dims else x

    def as_typed(self, x: ir.Value, aval: Any) -> ir.Value:
        """Annotates `x` with the sharding over Explicit mesh axes in its type `aval`."""
        sharding = self.placed_by_type(aval)
        return x if sharding is None else self.constrain(x, sharding, aval, leave_auto_open=True)

    def placed_by_type(self, aval: Any) -> Any:
        """The sharding in type `aval`, without its marks for manual axes."""
        sharding = getattr(aval, "shown_sharding", None)
        if sharding is None or self.manual is None:
            return sharding
        spec = sharding.spec
        marks = [marks - self.manual.manual for marks in (spec.unreduced, spec.reduced)]
        return shown_sharding(sharding.mesh, spec.update(None, *marks))

    @property
    def addends(self) -> NamedSharding | None:
        """The sharding of this equation's results if they are unreduced, else None."""
        for aval in self.avals_out:
            sharding = self.placed_by_type(aval)
            if sharding is not None and sharding.spec.unreduced:
                return sharding
        return None

    @contextlib.contextmanager
    def inside(self, region: ir.Region, avals: Avals) -> Generator[list[ir.Value]]:
        """Context manager that builds a new block in `region`; yields its arguments."""
        block = self.block(region, avals)
        with ir.InsertionPoint(block):
            yield list(block.arguments)

    def scalar_body(self, region: ir.Region, op: str, dtype: Any) -> None:
        """Fills `region` with `(x, y) -> op(x, y)` on scalars of `dtype`, the body of a reduction."""
        aval = shaped_array((), dtype)
        with self.inside(region, [aval, aval]) as operands:
            self.op("stablehlo.return", [], [self.op1(op, aval, operands)])


_ATTRIBUTE_OF: dict[type, Callable[[OperationBuilder, Any], ir.Attribute]] = {
    bool: OperationBuilder.boolean,
    int: OperationBuilder.integer,
    **dict.fromkeys((str, bytes), OperationBuilder.string),
    **dict.fromkeys((tuple, list, range), OperationBuilder.ints),
}
"""Conversions of Python values to attributes; numbers become 64-bit integers, sequences arrays."""

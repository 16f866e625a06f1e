"""References outside of traces, and the primitives `new_ref`, `get`, `swap` and others."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    BatchingRuleError,
    DeletedArrayError,
    EffectsError,
    cached,
    insert_at,
    strict_zip,
)
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import (
    INDEXING,
    AbstractRef,
    Avals,
    BatchAxis,
    BatchDim,
    Described,
    Dims,
    Effects,
    Equation,
    Linearized,
    NoParams,
    OnReferences,
    Operands,
    P,
    Primitive,
    Results,
    Runs,
    Shown,
    Traits,
    Values,
    Zero,
    abstract_ref,
    accum_effect,
    allocation_effect,
    read_effect,
    shaped_array,
    write_effect,
)
from pellucid._machine.primitives import (
    broadcast,
    broadcast_to,
    convert_element_type,
    empty,
    instantiate,
    iota,
    move_axis,
    reshape,
    zero_of,
)
from pellucid._machine.runtime.transfer import copy_array, from_host
from pellucid._machine.tracing import ReferenceCell, bind, bind1, context, type_of, types_of
from pellucid._machine.xla import ARRAY_TYPES

from . import index as indexing
from .index import ReferenceWindow, RefIndex


def own_copy(x: Any) -> Any:
    """A copy of `x` in memory that no other array shares, so that programs may overwrite it."""
    aval = type_of(x)
    if type(x) not in ARRAY_TYPES:
        return from_host(np.array(x, dtype=aval.dtype))
    array = copy_array(x)
    return convert_element_type(array, aval.dtype) if aval.weak_type else array


class _RefType(type):
    """Makes traced references instances of `Ref`."""

    def __instancecheck__(cls, x: Any) -> bool:
        return type.__instancecheck__(cls, x) or type(getattr(x, "aval", None)) is AbstractRef


class Accessed:
    """Base class of references and views: indexing, and the methods of references."""

    __slots__ = ()

    @property
    def at(self) -> Any:
        """`ref.at[index]` is a reference to a part of the value."""
        return AbstractRef.methods["at"](self)

    @property
    def T(self) -> Any:
        """A view of the value with its axes reversed."""
        return AbstractRef.methods["T"](self)

    def __getattr__(self, name: str) -> Any:
        method = AbstractRef.methods.get(name)
        if method is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return functools.partial(method, self)

    def __getitem__(self, index: Any) -> Any:
        return AbstractRef.methods["get"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        AbstractRef.methods["set"](self, value, index)


class Ref(Accessed, Described, metaclass=_RefType):
    """A mutable cell that holds an array; made by `new_ref`, read and written by `ref[...]`.

    A compiled function that takes it, or uses it from outside, reads and changes what it holds. Compared and hashed by
    identity.

    >>> ref = pl.new_ref(jnp.zeros(3))
    >>> pl.jit(lambda: ref.__setitem__(1, 2.0))()
    >>> ref[...]
    Array([0., 2., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_given_up_by", "_value", "aval")

    def __init__(self, value: Any, kind: Any = None) -> None:
        self.aval = abstract_ref(value.aval, kind)
        self._value = value
        self._given_up_by = ""

    @property
    def value(self) -> Any:
        """The array that it contains; programs may overwrite its memory.

        Raises: DeletedArrayError if the reference is deleted.
        """
        if self._value is None:
            raise DeletedArrayError(
                f"a reference was used after `{self._given_up_by}`.",
                got=self.aval.text(),
                do="Make a new one with `new_ref`.",
            )
        return self._value

    @value.setter
    def value(self, array: Any) -> None:
        self._value = array

    def given_up(self, function: str) -> Any:
        """The value; deletes the reference, on behalf of `function`."""
        value, self._value = self.value, None
        self._given_up_by = function
        return value

    sharding, format, committed = (
        property(operator.attrgetter(f"value.{name}"), doc=f"`{name}` of the array.")
        for name in ("sharding", "format", "committed")
    )

    def unsafe_buffer_pointer(self) -> int:
        """The current address of the array's memory."""
        return self.value.unsafe_buffer_pointer()

    def block_until_ready(self) -> Ref:
        """Wait until its content is computed."""
        self.value.block_until_ready()
        return self

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return iter(self[...])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise ArgumentTypeError(
            "a reference is not an array.",
            got=self.aval.text(),
            do="Read what it holds: `ref[...]`.",
        )

    def __repr__(self) -> str:
        if self._value is None:
            return f"Ref(given up by {self._given_up_by}: {self.aval.text()})"
        return repr(self._value).replace("Array", "Ref", 1)


_ALLOCATES: Effects = frozenset({allocation_effect})
_READS: Effects = frozenset({read_effect})
_WRITES: Effects = frozenset({read_effect, write_effect})
_ADDS: Effects = frozenset({accum_effect})


class OfReference(OnReferences, Runs, Primitive[P]):
    """Base class of primitives whose first operand is a reference."""

    traits = INDEXING
    types_are_laid_out = True


# Making and giving up ---------------------------------------------------------------------------------


class NewRefParams(NamedTuple):
    """`kind` is that of the type; `memory_space` is a name for kernels."""

    kind: Any
    memory_space: Any


class NewRef(Linearized, OfReference[NewRefParams]):
    """Creates a reference that contains the operand."""

    name = "new_ref"
    traits = Traits(kind="creation", flops=0.0)
    always_transformed = True
    own_effects = _ALLOCATES

    def abstract_eval(self, avals, params):
        return [abstract_ref(avals[0], params.kind)]

    def run(self, operands, params):
        return [Ref(own_copy(operands[0]), params.kind)]

    def jvp(self, primals, tangents, params):
        def tangent() -> Results:
            value = instantiate(tangents[0])
            # A reference to a constant may contain a differentiated value later.
            start = context.trace.as_tangent(value) if type(tangents[0]) is Zero else value
            return bind(self, start, params=params)

        return self.beside(primals, params, tangent)

    def linearize(self, trace, primals, tangents, params):
        tangent = lambda: trace.stage_linear(self, (trace.linear_value(tangents[0]),), params)
        return self.beside(primals, params, tangent)

    def beside(self, primals: Operands, params: Any, tangent: Callable[[], Results]) -> Any:
        """(reference, reference to its tangent, which `tangent()` creates; `Zero` for one without tangents)."""
        results = bind(self, *primals, params=params)
        aval = type_of(results[0])
        return results, tangent() if aval.is_differentiable else [Zero(aval.tangent())]

    def batch(self, axis, operands, dims, params):
        # A reference without a batch axis may contain a different value for each element later.
        x = broadcast(operands[0], (axis.size,)) if dims[0] is None else operands[0]
        return bind(self, x, params=params), [dims[0] or 0]

    def discharge(self, operands, params):
        # What it holds is strongly typed, as the type of the reference says.
        [x] = operands
        aval = type_of(x)
        return [ReferenceCell(convert_element_type(x, aval.dtype) if aval.weak_type else x)]


class EmptyRefParams(NamedTuple):
    """`ty` is the type of the reference's content."""

    memory_space: Any
    ty: Any


class EmptyRef(Linearized, Shown, OfReference[EmptyRefParams]):
    """Creates a reference to an array with undefined contents."""

    name = "empty_ref"
    traits = Traits(kind="creation", flops=0.0)
    always_transformed = True
    own_effects = _ALLOCATES

    def abstract_eval(self, avals, params):
        return [abstract_ref(params.ty)]

    def run(self, operands, params):
        return [Ref(empty(params.ty.shape, params.ty.dtype))]

    def jvp(self, primals, tangents, params):
        return new_ref_p.jvp(*_as_new(params))

    def linearize(self, trace, primals, tangents, params):
        return new_ref_p.linearize(trace, *_as_new(params))

    def batch(self, axis, operands, dims, params):
        ty = params.ty.update(shape=(axis.size, *params.ty.shape))
        return bind(self, params=params._replace(ty=ty)), [0]

    def discharge(self, operands, params):
        return [ReferenceCell(empty(params.ty.shape, params.ty.dtype))]

    def printed_params(self, equation):
        params = equation.params
        shape = ",".join(map(str, params.ty.shape))
        return {"memory_space": params.memory_space, "ty": f"{params.ty.dtype.name}[{shape}]"}


def _as_new(params: EmptyRefParams) -> tuple[tuple[Any], tuple[Zero], NewRefParams]:
    """(primals, tangents, params) of `new_ref` for an array with undefined contents."""
    value, zero = empty(params.ty.shape, params.ty.dtype), Zero(params.ty.tangent())
    return (value,), (zero,), NewRefParams(None, params.memory_space)


class Deletion(OfReference[NoParams]):
    """Base class of primitives that delete a reference."""

    own_effects = _READS

    def run(self, operands, params):
        value = operands[0].given_up(self.name)
        return [] if self.multiple_results else [value]

    def discharge(self, operands, params):
        return self.run(operands, params)

    def batch(self, axis, operands, dims, params):
        return bind(self, *operands), [] if self.multiple_results else dims


class Freeze(Deletion):
    """Returns the value of a reference and deletes it."""

    name = "freeze"

    def abstract_eval(self, avals, params):
        return [avals[0].inner_aval]

    def jvp(self, primals, tangents, params):
        return bind(self, *primals), bind(self, *tangents)


class FreeRef(Deletion):
    """Deletes a reference and its value."""

    name = "free_ref"
    traits = INDEXING.replace(returns_list=True)

    def abstract_eval(self, avals, params):
        return []

    def jvp(self, primals, tangents, params):
        bind(self, *tangents)
        return bind(self, *primals), []


# Parts ------------------------------------------------------------------------------------------------


class PartParams(NamedTuple):
    """The accessed part of the reference's value; operands of the index come last."""

    index: RefIndex


@cached(2048)
def _compiled_access(function, index: RefIndex, *, donates: bool):
    """`function` (of an array, the index, its operands, a new value) as a compiled program on arrays."""

    def access_arrays(array, operands, *new):
        return function(array, index, operands, *new)

    access_arrays.__name__ = function.__name__
    return jit(access_arrays, donate_argnums=(0,) if donates else ())


def _swap_part(array, index: RefIndex, operands: Operands, new) -> tuple[Any, Any]:
    return (
        indexing.write(array, index, operands, new),
        indexing.read(array, index, operands),
    )


class Get(Shown, OfReference[PartParams]):
    """Reads a part of a reference's value."""

    name = "get"
    own_effects = _READS

    def abstract_eval(self, avals, params):
        ref, *operands = avals
        shape = params.index.result_shape(operands)
        if params.index.is_full:
            return [ref.inner_aval]
        return [shaped_array(shape, ref.dtype)]

    def run(self, operands, params):
        ref, *rest = operands
        if params.index.is_full:
            return [own_copy(ref.value)]
        return [_compiled_access(indexing.read, params.index, donates=False)(ref.value, rest)]

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        return results, bind(self, tangents[0], *primals[1:], params=params)

    def batch(self, axis, operands, dims, params):
        (ref, *rest), (dim, *rest_dims) = operands, dims
        index, rest, out = batched_index(axis, params.index, dim, rest, rest_dims)
        return [bind1(self, ref, *rest, params=PartParams(index))], [out]

    def discharge(self, operands, params):
        cell, *rest = operands
        return [indexing.read(cell.value, params.index, rest)]

    def printed_equation(self, equation, results, operands):
        return f"{results} <- {_access_text(equation, operands[0], operands[1:])}"

    def printed_params(self, equation):
        return _shown_index(equation, 1)


def _shown_index(equation: Equation, n_front: int) -> dict[str, Any]:
    """The index as a param, with `i0`, `i1` for its operands, which come after `n_front` others; nothing for all of the reference."""
    index = equation.params.index
    names = [f"i{n}" for n in range(len(equation.operands) - n_front)]
    return {} if index.is_full else {"index": index.text(names)}


def _access_text(equation, ref: str, operands: Sequence[str]) -> str:
    return f"{ref}[{equation.params.index.text(operands)}]"


class Write(Shown, OfReference[P]):
    """Base class of primitives that take (reference, new value, other values of the part's shape, operands of the index)."""

    n_values = 1
    """Number of operands of the part's shape."""

    def printed_params(self, equation):
        return _shown_index(equation, 1 + self.n_values)

    def check(self, avals: Avals, params: Any) -> Any:
        """The type of the part; raises EffectsError for a new value of another type."""
        ref, new, *operands = *avals[:2], *avals[1 + self.n_values :]
        part = shaped_array(params.index.result_shape(operands), ref.dtype)
        if new.shape != part.shape or new.dtype != part.dtype:
            raise EffectsError(
                f"`{self.name}`: the new value doesn't have the type of the part of the reference.",
                got=f"{ref.text()}, part {part.text()}, new value {new.text()}",
            )
        return part

    def tangent(self, primals: Operands, tangents: Operands) -> Any:
        """The tangent to be written; None if neither the reference nor the value has one.

        Raises: EffectsError for a differentiated value if the reference is differentiable, but has no tangent.
        """
        if type(tangents[0]) is not Zero:
            self._check_axes(*types_of(primals))
            return instantiate(tangents[1])
        if type(tangents[1]) is Zero or not type_of(primals[0]).is_differentiable:
            return None
        raise EffectsError(
            f"`{self.name}`: a differentiated value can't be written to a reference from outside.",
            got=f"{type_of(primals[0]).text()}, value {type_of(primals[1]).text()}",
            do="Write `lax.stop_gradient(value)`, return the value as auxiliary data, make the reference inside the "
            "differentiated function, or of `kind='no_grad_no_remat'`.",
        )

    def _check_axes(self, ref: Any, new: Any, *others: Any) -> None:
        """Raise EffectsError for a value, or an index, that varies over axes of `shard_map` along which the reference's content is the same by its type.

        What is read of it would be cast to vary, so that cotangents were summed over these axes.
        """
        axes = new.varying.union(*(x.varying for x in others)) - ref.varying
        if axes:
            names = ", ".join(map(repr, sorted(axes)))
            raise EffectsError(
                f"`{self.name}`: a value that differs along {names} can't be written to a reference whose content doesn't, where they are differentiated.",
                got=f"{ref.text()}, value {new.text()}",
                do=f"Make it of a value that differs there: `new_ref(lax.pcast(x, ({names},), to='varying'))`.",
            )

    def jvp(self, primals, tangents, params):
        tangent = self.tangent(primals, tangents)
        results = bind(self, *primals, params=params)
        if tangent is None:
            return results, [*map(zero_of, results)]
        return results, bind(self, tangents[0], tangent, *primals[2:], params=params)

    def batch(self, axis, operands, dims, params: Any):
        n = 1 + self.n_values
        (ref, *values), rest = operands[:n], operands[n:]
        (dim, *value_dims), rest_dims = dims[:n], dims[n:]
        if dim is None:
            what = (
                "write values that differ between"
                if self.own_effects != _ADDS
                else "add for each of"
            )
            raise EffectsError(
                f"vmap can't {what} the elements of a batch to one reference for all.",
                got=f"{type_of(ref).text()}, written by `{self.name}`",
                do="Give the batched function a reference with a batch axis as an argument, or reduce over the batch "
                "outside, and write then.",
            )
        avals = strict_zip(types_of(rest), rest_dims)
        elements = [a if d is None else a.without_dim(d) for a, d in avals]
        shape = params.index.result_shape(elements)
        index, rest, out = batched_index(axis, params.index, dim, rest, rest_dims)
        full = insert_at(shape, out, axis.size)

        def batched(value: Any, value_dim: BatchDim) -> Any:
            if value_dim is None:
                return broadcast_to(reshape(value, insert_at(shape, out, 1)), full)
            return move_axis(value, value_dim, out)

        batches = [batched(x, d) for x, d in strict_zip(values, value_dims)]
        results = bind(self, ref, *batches, *rest, params=params._replace(index=index))
        return results, [out] * len(results)


class Swap(Write[PartParams]):
    """Replaces a part of a reference's value, and returns the previous part."""

    name = "swap"
    own_effects = _WRITES

    def abstract_eval(self, avals, params):
        return [self.check(avals, params)]

    def run(self, operands, params):
        ref, new, *rest = operands
        if params.index.is_full:
            old, ref.value = ref.value, own_copy(new)
            return [old]
        swapped = _compiled_access(_swap_part, params.index, donates=True)
        ref.value, old = swapped(ref.value, rest, new)
        return [old]

    def discharge(self, operands, params):
        cell, new, *rest = operands
        cell.value, old = _swap_part(cell.value, params.index, rest, new)
        return [old]

    def printed_equation(self, equation, results, operands):
        ref, new, *rest = operands
        part = _access_text(equation, ref, rest)
        value = _atom_text(equation.operands[1], new)
        if results.startswith("_:"):
            return f"{part} <- {value}"
        return f"{results}, {part} <- {part}, {value}"


def _atom_text(atom, shown: str) -> str:
    """A literal with its type; a variable without."""
    return f"{shown}:{atom.aval.text()}" if hasattr(atom, "val") else shown


class AddUpdate(Write[PartParams]):
    """Adds to a part of a reference's value."""

    name = "addupdate"
    traits = INDEXING.replace(flops=1.0, returns_list=True)
    always_transformed = True  # a batch of additions to one reference isn't a single addition
    own_effects = _ADDS

    def abstract_eval(self, avals, params):
        self.check(avals, params)
        return []

    def run(self, operands, params):
        ref, new, *rest = operands
        ref.value = _compiled_access(indexing.add_at, params.index, donates=True)(
            ref.value, rest, new
        )
        return []

    def discharge(self, operands, params):
        cell, new, *rest = operands
        cell.value = indexing.add_at(cell.value, params.index, rest, new)
        return []

    def printed_equation(self, equation, results, operands):
        ref, new, *rest = operands
        return f"{_access_text(equation, ref, rest)} += {_atom_text(equation.operands[1], new)}"


new_ref_p = NewRef()
empty_ref_p = EmptyRef()
freeze_p = Freeze()
free_ref_p = FreeRef()
get_p = Get()
swap_p = Swap()
addupdate_p = AddUpdate()


# Batches ----------------------------------------------------------------------------------------------


def batched_index(
    axis: BatchAxis,
    index: RefIndex,
    dim: BatchDim,
    operands: Operands,
    dims: Dims,
) -> tuple[RefIndex, Values, int]:
    """(the index of a batch of parts, its operands, the parts' batch axis)."""
    avals: Avals = types_of(operands)
    entries, shape = list(index.entries), list(index.shape)
    # An operand for each entry that is None (an index array) or a window with a traced start.
    are_starts = [e is not None for e in entries if e is None or e.start is None]
    if any(is_start and d is not None for is_start, d in strict_zip(are_starts, dims)):
        raise BatchingRuleError(
            "vmap of `ref[ds(start, size)]` needs a start that is the same for the whole batch.",
            do="Use an array of indices: `ref[start + jnp.arange(size)]`.",
        )
    if dim is not None:
        shape.insert(dim, axis.size)
    if dim is not None and not any(a.shape for a in avals):
        # No index array: the batch axis is one more window, taken whole, behind the dimensions of the windows before it.
        out = sum(e is not None for e in entries[:dim])
        entries.insert(dim, ReferenceWindow(0, axis.size))
        return RefIndex(tuple(shape), tuple(entries), 0), list(operands), out
    # Index arrays as [batch or 1, 1, …, the element's dimensions], of one rank, so that they broadcast as before.
    ranks = [a.ndim - (d is not None) for a, d in strict_zip(avals, dims)]
    rank = max(ranks)
    vectors: Values = []
    for x, aval, d, is_start in strict_zip(operands, avals, dims, are_starts):
        if is_start:
            vectors.append(x)
            continue
        front = move_axis(x, d, 0) if d is not None else reshape(x, (1, *aval.shape))
        size, *dims_of_element = type_of(front).shape
        vectors.append(
            reshape(front, (size, *[1] * (rank - len(dims_of_element)), *dims_of_element))
        )
    if dim is not None:
        # Along the reference's batch axis element i of the batch takes i: one more index array, among the operands before `dim`.
        before = sum(e is None or e.start is None for e in entries[:dim])
        entries.insert(dim, None)
        vectors.insert(before, reshape(iota("int32", axis.size), (axis.size, *[1] * rank)))
    return RefIndex(tuple(shape), tuple(entries), index.position), vectors, index.position

"""Primitives of values that consist of arrays: outside of traces they run at once, under one their arrays are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base.dtypes import float0
from pellucid._machine.base.errors import ArgumentTypeError, MissingRule, UnsupportedError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.tree import tree_flatten, tree_leaves, tree_map
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.higher_order.custom_rules import SymbolicZero
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.custom_vmap import custom_vmap
from pellucid._machine.primitives.creation import instantiate
from pellucid._machine.primitives.families import add_tangents
from pellucid._machine.tracing import Tracer, context, is_array_like, type_of
from pellucid._machine.xla import pytree
from pellucid._machine.xla.pytree import library_types
from pellucid.numpy.manipulation import moveaxis

from . import mutable
from .types import (
    AvalQDD,
    HiType,
    carrier_types,
    hi_type_of,
    is_value,
    lower_value,
    raise_value,
    tangent_arrays,
    tangent_of,
    zero_tangent,
    zeros_of,
)


class HiPrimitive:
    """A primitive of arrays and of values that consist of arrays.

    Subclasses define `abstract_eval(*types, **params)`, which gives (type of the result, effects), and
    `to_lojax(*values, **params)`, which computes the result by operations on the arrays of the values; `impl` does it
    outside of traces where it is defined. `jvp(primals, tangents, **params)` gives (result, its tangent); without it, the
    operations of `to_lojax` are differentiated. With `multiple_results`, results and types of them are lists.

    Raises: MissingRule, by derivatives, without `jvp` where the tangent of a value consists of other arrays than those
    of the value's.

    >>> class Half(HiPrimitive):
    ...     def abstract_eval(self, x):
    ...         return x, set()
    ...     def to_lojax(self, x):
    ...         return x / 2
    ...     def jvp(self, primals, tangents):
    ...         return self.bind(*primals), self.bind(*tangents)
    >>> pl.grad(Half("half").bind)(1.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether it has operands or results that aren't arrays."""
        return True

    def abstract_eval(self, *arg_avals: Any, **params: Any) -> Any:
        """(type of the result, effects); subclasses define it."""
        raise NotImplementedError(f"{self.name}.abstract_eval")

    def to_lojax(self, *lotypes_wrapped_in_hitypes: Any, **params: Any) -> Any:
        """The result, computed by operations on arrays; subclasses define it."""
        raise NotImplementedError(f"{self.name}.to_lojax")

    def impl(self, *operands: Any, **params: Any) -> Any:
        """The result outside of traces; by default that of `to_lojax`."""
        return self.to_lojax(*operands, **params)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """(Result, tangent of the result); subclasses define it."""
        raise MissingRule(
            f"`{self.name}` has no jvp rule.",
            do="Define `jvp(self, primals, tangents, **params)`, which gives (result, tangent of the result).",
        )

    def transpose(self, *args: Any, **params: Any) -> Any:
        """Cotangents of the operands; not called here, where the operations of `to_lojax` are transposed."""
        raise NotImplementedError(f"{self.name}.transpose")

    def bind(self, *operands: Any, **params: Any) -> Any:
        """The result for `operands` under the current trace."""
        if any(type(x) in library_types and mutable.is_mutable(x) for x in operands):
            return self._bind_mutable(operands, params)
        if context.trace.is_eager:
            return self.impl(*operands, **params)
        types = [hi_type_of(x) for x in operands]
        result_types, _ = self.abstract_eval(*types, **params)
        result_types = [*result_types] if self.multiple_results else [result_types]
        if any(isinstance(t, AvalQDD) or mutable.is_mutable_type(t) for t in result_types):
            return self._hold_results(self.to_lojax(*operands, **params))
        arrays = [lower_value(x, t) for x, t in strict_zip(operands, types)]
        results = self._on_arrays(types, result_types, params)(*arrays)
        values = [raise_value(t, x) for t, x in strict_zip(result_types, results)]
        return values if self.multiple_results else values[0]

    def _bind_mutable(self, operands: Any, params: Any) -> Any:
        """The result for operands of which some change in place."""
        copies: list[tuple[Any, Any, list[Any]]] = []
        values: list[Any] = []
        for x in operands:
            if not mutable.is_mutable(x) or mutable.is_changed_in_place(x):
                values.append(x)
                continue
            state, arrays = mutable.read(x)
            values.append(mutable.copy(x, state, arrays))
            copies.append((x, values[-1], arrays))
        compute = self.impl if context.trace.is_eager else self.to_lojax
        results = self._hold_results(compute(*values, **params))
        for original, copied, before in copies:
            state = mutable.state_of(copied)
            after = hi_type_of(copied).read_loval(state, copied)
            mutable.write(original, state, after, before if len(before) == len(after) else ())
        return results

    def _hold_results(self, results: Any) -> Any:
        for x in results if self.multiple_results else [results]:
            if mutable.is_mutable(x):
                mutable.hold(x)
        return results

    def _on_arrays(self, types: Any, result_types: Any, params: Any) -> Callable[..., Any]:
        """The primitive as a function of the arrays of each operand, with the rule for derivatives if there is one."""

        def results_of(values: Any) -> list[Any]:
            results = values if self.multiple_results else [values]
            return [lower_value(x, t) for x, t in strict_zip(results, result_types)]

        def compute(*arrays: Any) -> list[Any]:
            return results_of(
                self.to_lojax(*[raise_value(t, x) for t, x in strict_zip(types, arrays)], **params)
            )

        own_rule = type(self).jvp is not HiPrimitive.jvp
        if not own_rule and not any(carrier_types(t) for t in (*types, *result_types)):
            return compute

        def rule(primals: Any, tangents: Any) -> Any:
            values = [raise_value(t, x) for t, x in strict_zip(types, primals)]
            dots = [tangent_of(t, x) for t, x in strict_zip(types, tangents)]
            results, result_dots = self.jvp(tuple(values), tuple(dots), **params)
            dots = result_dots if self.multiple_results else [result_dots]
            return results_of(results), [
                tangent_arrays(t, x) for t, x in strict_zip(result_types, dots)
            ]

        function = custom_jvp(compute)
        function.defjvp(rule)
        return function

    def __repr__(self) -> str:
        return self.name


class _Accumulator:
    """Cotangent of an array, to which `accum(cotangent)` adds."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval
        self.total: Any = None

    def accum(self, cotangent: Any) -> None:
        if self.total is not None:
            leaves, tree = pytree.flatten(cotangent)
            cotangent = tree.unflatten(map(add_tangents, pytree.flatten(self.total)[0], leaves))
        self.total = cotangent


class VJPHiPrimitive:
    """Base class of operations on pytrees of arrays, with rules of their own.

    A subclass sets `in_avals`, a tuple of trees of types, `out_aval`, a tree of them, and `params`, a dict, before it
    calls `super().__init__()`, and defines `expand(*args)`, the operation by others. Derivatives are those of `expand`
    unless it defines `vjp_fwd(nzs_in, *args)`, which gives (result, residuals), and `vjp_bwd_retval(residuals, cotangent)`,
    which gives a tuple of cotangents, or `vjp_bwd(residuals, cotangent, *accumulators)`, which calls their `accum`; or
    `jvp(primals, tangents)`, which gives (result, tangent); or `lin(nzs_in, *primals)`, which gives (result, residuals), and
    `linearized(residuals, *tangents)`. `batch(axis_data, args, dims)` gives (result, its batch axes) for a whole batch.

    Raises: AttributeError without the attributes, or with both backward rules; ArgumentTypeError for arguments of other
    types.

    >>> class Cube(VJPHiPrimitive):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return x**3
    ...     def vjp_fwd(self, nzs_in, x):
    ...         return self(x), x
    ...     def vjp_bwd_retval(self, x, cotangent):
    ...         return (3 * x**2 * cotangent,)
    >>> pl.grad(Cube(pl.typeof(2.0)))(2.0)
    Array(12., dtype=float32, weak_type=True)
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(
                    f"{type(self).__name__} must set `self.{name}` before `super().__init__()`."
                )
        if self._defines("vjp_bwd") and self._defines("vjp_bwd_retval"):
            raise AttributeError(
                f"{type(self).__name__} must define one of `vjp_bwd` and `vjp_bwd_retval`, not both."
            )

    def _defines(self, rule: str) -> bool:
        return getattr(type(self), rule) is not getattr(VJPHiPrimitive, rule)

    def expand(self, *args: Any) -> Any:
        """The result by other operations; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """(Result, residuals); `nzs_in` has for each argument a tree of bools: which arrays are differentiated."""
        raise NotImplementedError(f"{type(self).__name__}.vjp_fwd")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Add the cotangents of the arguments to their accumulators."""
        cotangents = self.vjp_bwd_retval(res, outgrad)
        for accumulators, cotangent in strict_zip(arg_accums, cotangents):
            tree_map(lambda a, ct: a.accum(ct), accumulators, cotangent)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """The cotangents of the arguments."""
        raise NotImplementedError(f"{type(self).__name__}.vjp_bwd_retval")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """(Result, tangent of the result)."""
        raise NotImplementedError(f"{type(self).__name__}.jvp")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """(Result, residuals)."""
        raise NotImplementedError(f"{type(self).__name__}.lin")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result, linear in `tangents`."""
        raise NotImplementedError(f"{type(self).__name__}.linearized")

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        """(Result, batch axes of the result) for arguments whose batch axes are `dims`, None if there is none."""
        raise NotImplementedError(f"{type(self).__name__}.batch")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *tree_leaves(self.in_avals)))

    def __call__(self, *args: Any) -> Any:
        """The result of the operation on `args`, trees of arrays whose types are `in_avals`."""
        leaves, tree = tree_flatten(args)
        avals, expected = tree_flatten(self.in_avals)
        types = [_comparison_type(hi_type_of(x)) for x in leaves if is_value(x)]
        if tree != expected or types != [*map(_comparison_type, avals)]:
            raise ArgumentTypeError(
                f"{type(self).__name__} needs arguments of the types `in_avals`.",
                got=[
                    f"got {tree_map(lambda x: _type_text(hi_type_of(x)) if is_value(x) else x, args)}",
                    f"in_avals: {tree_map(_type_text, self.in_avals)}",
                ],
            )
        return self._function()(*args)

    def _function(self) -> Callable[..., Any]:
        function = self._batched_function() if self._defines("batch") else self.expand
        if self._defines("vjp_fwd"):
            backward = custom_vjp(function)
            backward.defvjp(self._forward, self._backward, symbolic_zeros=True)
            return backward
        if self._defines("jvp") or self._defines("lin"):
            differentiated = custom_jvp(function)
            differentiated.defjvp(self.jvp if self._defines("jvp") else self._linearize)
            return differentiated
        return function

    def _forward(self, *args: Any) -> Any:
        values = tree_map(lambda p: p.value, args)
        return self.vjp_fwd(tree_map(lambda p: p.perturbed, args), *values)

    def _backward(self, residuals: Any, cotangent: Any) -> Any:
        cotangent = tree_map(instantiate_symbolic, cotangent)
        if not self._defines("vjp_bwd"):
            return tuple(self.vjp_bwd_retval(residuals, cotangent))
        accumulators = tree_map(_Accumulator, self.in_avals)
        self.vjp_bwd(residuals, cotangent, *accumulators)
        return tree_map(
            lambda a: zero_tangent(a.aval) if a.total is None else a.total, accumulators
        )

    def _linearize(self, primals: Any, tangents: Any) -> Any:
        result, residuals = self.lin(tree_map(lambda _: True, primals), *primals)
        return result, self.linearized(residuals, *tangents)

    def _batched_function(self) -> Callable[..., Any]:
        function = custom_vmap(self.expand)

        @function.def_vmap
        def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
            dims = tree_map(lambda is_batched: 0 if is_batched else None, tuple(in_batched))
            result, result_dims = self.batch(AxisData(axis_size), args, dims)
            flat, tree = tree_flatten(result)
            axes = tree_leaves(result_dims, is_leaf=lambda d: d is None)
            axes = axes * len(flat) if len(axes) == 1 else axes
            moved = [x if d in (None, 0) else moveaxis(x, d, 0) for x, d in strict_zip(flat, axes)]
            return tree.unflatten(moved), tree.unflatten([d is not None for d in axes])

        return function


class AxisData:
    """The axis that `vmap` adds: its size."""

    def __init__(self, size: int) -> None:
        self.size = size


def instantiate_symbolic(cotangent: Any) -> Any:
    """`cotangent`, with zeros in place of a symbolic zero."""
    return zeros_of(cotangent.aval) if type(cotangent) is SymbolicZero else cotangent


def _comparison_type(hi_type: Any) -> Any:
    """The type of an argument for comparison with `in_avals`: without its weak type."""
    return hi_type if isinstance(hi_type, HiType) else (hi_type.shape, hi_type.dtype)


def _type_text(hi_type: Any) -> str:
    return str(hi_type) if isinstance(hi_type, HiType) else hi_type.text()


def cur_qdd(x: Any) -> Any:
    """State of a value of a mutable type, which its method `cur_qdd` or `type_state` returns.

    Raises: UnsupportedError for other values.

    >>> class Cell:
    ...     def cur_qdd(self):
    ...         return "empty"
    >>> cur_qdd(Cell())
    'empty'
    """
    if isinstance(x, Tracer) or not (hasattr(x, "cur_qdd") or hasattr(x, "type_state")):
        raise UnsupportedError(
            "cur_qdd needs a value of a mutable type.",
            got=type_of(x).text() if is_array_like(x) else type(x).__name__,
        )
    return mutable.state_of(x)

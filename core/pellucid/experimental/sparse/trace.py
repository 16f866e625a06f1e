"""`sparsify`: functions of dense arrays applied to sparse ones, by a trace whose rules keep results sparse where they
can.

A rule takes BCOO or BCSR arrays and dense ones in place of operands. What has no rule raises UnsupportedError: nothing
becomes dense that isn't asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid import lax, numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.base.tree import tree_map
from pellucid._machine.higher_order.stages import eval_shape
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.ir.primitive import Primitive, called_program
from pellucid._machine.tracing.current import context, use_trace
from pellucid._machine.tracing.staging import replay
from pellucid._machine.tracing.trace import Trace
from pellucid._machine.tracing.tracer import Tracer
from pellucid._machine.transforms.arguments import check_callable, wraps
from pellucid.experimental.sparse.base import JAXSparse
from pellucid.experimental.sparse.bcsr import BCSR
from pellucid.experimental.sparse.coordinates import BCOO

TRACED = (BCOO, BCSR)
"""Formats that a function under `sparsify` can compute with."""

Rule = Callable[..., Any]
"""(operands, params) -> the result, or a list of results."""
rules: dict[Primitive[Any], Rule] = {}


class SparseTracer(Tracer):
    """A sparse array in a function of dense ones; its type is that of the dense array.

    >>> from pellucid.experimental import sparse
    >>> def f(x):
    ...     print(x)
    ...     return 2 * x
    >>> sparse.sparsify(f)(sparse.eye(2))
    SparseTracer(float32[2,2], BCOO(float32[2, 2], nse=2))
    BCOO(float32[2, 2], nse=2)
    """

    __slots__ = ("spvalue",)

    def __init__(self, trace: SparseTrace, *, spvalue: Any) -> None:
        self._trace = trace
        self.aval = shaped_array(spvalue.shape, spvalue.dtype, False)
        self.spvalue = spvalue

    def details(self) -> str:
        return f", {self.spvalue!r}"


class SparseTrace(Trace):
    """Applies `rules` to sparse operands."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace) -> None:
        self.parent = parent

    def lower(self, x: Any) -> Any:
        """The sparse array of a tracer of this trace; other values as they are."""
        return x.spvalue if type(x) is SparseTracer and x._trace is self else x

    def lift(self, x: Any) -> Any:
        """The tracer of a sparse array; other values as they are."""
        return SparseTracer(self, spvalue=x) if isinstance(x, TRACED) else x

    def interpret(self, primitive, operands, params):
        values = [self.lower(x) for x in operands]
        is_sparse = any(isinstance(x, TRACED) for x in values)
        body = called_program(primitive, params) if is_sparse and primitive not in rules else None
        if body is not None:
            return replay(body, (), *operands)
        with use_trace(self.parent):
            if not is_sparse:
                return self.parent.interpret(primitive, tuple(values), params)
            rule = rules.get(primitive)
            if rule is None:
                raise UnsupportedError(
                    f"sparse rule for {primitive.name} is not implemented.",
                    got=", ".join(repr(x) if isinstance(x, JAXSparse) else str(jnp.shape(x)) for x in values),
                    do="To compute with all elements, convert the arrays: `sparse.todense(x)`.",
                )  # fmt: skip
            results = rule(values, params)
        results = results if isinstance(results, list) else [results]
        return [self.lift(x) for x in results]

    def custom_call(self, call, operands):
        # The user's rule has no sparse operands: the function itself is made sparse.
        if any(type(x) is SparseTracer and x._trace is self for x in operands):
            return call.function(*operands)
        with use_trace(self.parent):
            return self.parent.custom_call(call, operands)


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse array of any format."""
    return isinstance(x, JAXSparse)


def with_distinct_rows(x: Any) -> Any:
    """`x`, marked as having rows of its own: arrays made of it, with the same rows, have the same mark."""
    if not isinstance(x, BCOO):
        return x
    marked = BCOO.tree_unflatten(x.info._asdict(), (x.data, x.indices))
    marked.rows = object()
    return marked


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """`f`, a function of dense arrays, as a function that takes and returns sparse ones too.

    Operations on BCOO and BCSR arrays keep them sparse where the result is; jitted functions, `cond`, `while_loop` and
    `scan` work with them. With or without `use_tracer`, the function sees sparse arrays as tracers.

    Raises: UnsupportedError for operations whose result would be dense, or that have no rule.

    >>> from pellucid.experimental.sparse import eye
    >>> sparsify(lambda x, y: 2 * x @ y)(eye(2), jnp.array([1.0, 3.0]))
    Array([2., 6.], dtype=float32)
    """
    check_callable(f, "sparsify")

    @wraps(f, "Sparse form")
    def sparse_function(*args: Any, **kwargs: Any) -> Any:
        trace = SparseTrace(context.trace)
        lifted = lambda x: trace.lift(with_distinct_rows(x))
        args, kwargs = tree_map(lifted, (args, kwargs), is_leaf=is_sparse)
        with use_trace(trace):
            results = f(*args, **kwargs)
        with use_trace(trace.parent):
            return tree_map(lambda x: _result(trace.lower(x)), results, is_leaf=is_sparse)

    return sparse_function


def _result(x: Any) -> Any:
    return x if isinstance(x, (JAXSparse, Tracer)) else jnp.asarray(x)


def evaluate(jaxpr: Any) -> Callable[..., list[Any]]:
    """The results of a program as a function of sparse and dense arrays."""
    return sparsify(lambda *operands: replay(jaxpr.jaxpr, jaxpr.consts, *operands))


# Control flow -----------------------------------------------------------------------------------------------


def _flags(x: Any) -> tuple[bool, bool] | None:
    return (x.indices_sorted, x.unique_indices) if isinstance(x, TRACED) else None


def _with_flags(x: Any, flags: tuple[bool, bool] | None) -> Any:
    """`x`, stating no more of its rows than `flags`."""
    if flags is None or not isinstance(x, TRACED):
        return x
    children, aux = x.tree_flatten()
    names = ("indices_sorted", "unique_indices")
    weaker = {name: aux[name] and flag for name, flag in zip(names, flags, strict=True)}
    return type(x).tree_unflatten({**aux, **weaker}, children)


def _weakest(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """For each value, the flags that all of the `lists` have."""
    return [
        None if None in flags else tuple([all(column) for column in zip(*flags, strict=True)])
        for flags in (list(map(_flags, values)) for values in zip(*lists, strict=True))
    ]


def _cond(values: Sequence[Any], params: Any) -> list[Any]:
    index, *operands = values
    branches = [evaluate(branch) for branch in params.branches]
    flags = _weakest([eval_shape(branch, *operands) for branch in branches])

    def weaken(branch: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *xs: [_with_flags(x, f) for x, f in zip(branch(*xs), flags, strict=True)]

    return lax.switch(index, [weaken(branch) for branch in branches], *operands)


def _settle_carry(step: Callable[..., list[Any]], carry: list[Any]) -> tuple[Any, list[Any]]:
    """(step, initial carry) with the strongest flags that a step keeps."""
    while True:
        flags = _weakest([carry, eval_shape(step, carry)])
        weaker = [_with_flags(x, f) for x, f in zip(carry, flags, strict=True)]
        if [*map(_flags, weaker)] == [*map(_flags, carry)]:
            break
        carry = weaker
    return lambda xs: [_with_flags(x, f) for x, f in zip(step(xs), flags, strict=True)], carry


def _while(values: Sequence[Any], params: Any) -> list[Any]:
    tested, consts, carry = params.split(values)
    condition, body = evaluate(params.cond_jaxpr), evaluate(params.body_jaxpr)
    step, carry = _settle_carry(lambda xs: body(*consts, *xs), [*carry])
    return lax.while_loop(lambda xs: condition(*tested, *xs)[0], step, carry)


def _scan(values: Sequence[Any], params: Any) -> list[Any]:
    consts, carry, inputs = params.split(values)
    body, n = evaluate(params.jaxpr), params.num_carry
    if any(isinstance(x, TRACED) for x in inputs):
        raise UnsupportedError("sparse rule for scan with sparse stacked inputs is not implemented.")  # fmt: skip
    first = [jnp.zeros(x.shape[1:], x.dtype) for x in inputs]
    _, carry = _settle_carry(lambda xs: body(*consts, *xs, *first)[:n], [*carry])
    flags = [_flags(x) for x in carry]

    def body_of(xs: Any, inputs: Any) -> Any:
        results = body(*consts, *xs, *inputs)
        if any(isinstance(x, TRACED) for x in results[n:]):
            raise UnsupportedError("sparse rule for scan with sparse stacked results is not implemented.")  # fmt: skip
        return [_with_flags(x, f) for x, f in zip(results[:n], flags, strict=True)], results[n:]

    carry, outputs = lax.scan(
        body_of, carry, [*inputs], params.length, reverse=params.reverse, unroll=params.unroll
    )
    return [*carry, *outputs]


rules.update({lax.cond_p: _cond, lax.while_p: _while, lax.scan_p: _scan})

__all__ = ["SparseTracer", "sparsify"]

public_functions(__all__, globals())

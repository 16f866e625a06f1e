"""Operations in kernels besides reading and writing references: conditions, loops, scoped references, masked access,
hints.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    JAXTypeError,
    ShapeError,
    UnsupportedError,
    dtypes,
    strict_zip,
    tree_flatten,
)
from pellucid._machine.base.config import pallas_enable_debug_checks
from pellucid._machine.callbacks.debug import debug_print as print_values
from pellucid._machine.checks.automatic import MASKED, NOWHERE
from pellucid._machine.checks.check import check
from pellucid._machine.higher_order.cond import cond
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives import (
    broadcast_in_dim,
    broadcast_to,
    convert_element_type,
    iota,
    select_n,
    zeros,
)
from pellucid._machine.refs.access import RefView, empty_ref, get, new_ref, set as set_part, view_of
from pellucid._machine.refs.index import RefIndex
from pellucid._machine.tracing import is_reference, type_of, types_of, use_lineage
from pellucid._machine.tracing.current import use_trace
from pellucid._machine.transforms import check_callable
from pellucid._machine.transforms.jvp import concrete_value
from pellucid.numpy import asarray, dot as dot_product

from .grid import current_position, trace_around
from .named import MULTIPLE_OF, named
from .programs import UNDEFINED, undefined
from .specs import SharedScratch, begins_at_zero, kind_of_scratch, space_of

# Control flow -----------------------------------------------------------------------------------------------


def when(condition: Any, /) -> Callable[[Function], None]:
    """A decorator that runs a function without arguments, which writes to references, if `condition` is true.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(1)
    >>> @when(ref[...] > 0)
    ... def _():
    ...     ref[...] = 5
    >>> ref[...]
    Array(5, dtype=int32)
    """

    def run(function: Function) -> None:
        if isinstance(condition, (bool, np.bool_)):
            if condition:
                function()
        else:
            cond(condition, lambda: _nothing(function()), lambda: None)

    return run


def _nothing(_: Any) -> None:
    """No result, whatever a function for effects gave."""


def loop(
    lower: Any,
    upper: Any,
    *,
    init_carry: Any = None,
    step: Any = 1,
    unroll: int | bool | None = None,
) -> Callable[[Function], Any]:
    """A decorator that runs a function of a number for those from `lower` to below `upper`, in steps of `step`.

    With `init_carry`, the function also takes and returns a carry; the last carry replaces the function's name.

    >>> @loop(0, 10, step=3, init_carry=0)
    ... def total(i, before):
    ...     return before + i
    >>> total
    Array(18, dtype=int32, weak_type=True)
    """

    def run(body: Function) -> Any:
        has_carry = init_carry is not None
        # The number of turns, rounded up.
        count = upper - lower if isinstance(step, int) and step == 1 else -((lower - upper) // step)
        if isinstance(count, int):
            count = max(count, 0)

        def turn(k: Any, carry: Any) -> Any:
            i = lower + k * step
            if has_carry:
                return body(i, carry)
            body(i)
            return carry

        options = {} if unroll is None else {"unroll": unroll}
        return fori_loop(0, count, turn, init_carry, **options)

    return run


# References -------------------------------------------------------------------------------------------------


def run_scoped(f: Function, *types: Any, collective_axes: Any = (), **kw_types: Any) -> Any:
    """The result of `f` for new references of these types, whose contents are undefined; they live as long as the call.

    >>> def double(ref):
    ...     ref[...] = np.float32(3)
    ...     return ref[...] * 2
    >>> run_scoped(double, np.zeros((), np.float32))
    Array(6., dtype=float32)
    """
    check_callable(f, "run_scoped")
    axes = tuple(collective_axes) if isinstance(collective_axes, (tuple, list)) else (collective_axes,)  # fmt: skip
    axes = () if collective_axes is None else axes
    where = current_position()
    if axes and (where is None or axes != (where.thread_name,)):
        raise UnsupportedError(
            "run_scoped: references that several programs share are not supported, but for the threads of a block on GPUs.",
            got=f"collective_axes: {collective_axes!r}",
        )
    leaves, tree = tree_flatten((types, kw_types), is_leaf=_is_array_type)
    args, keywords = tree.unflatten([_allocated("run_scoped", x, axes) for x in leaves])
    return f(*args, **keywords)


def _is_array_type(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _allocated(caller: str, x: Any, axes: tuple[Any, ...] = ()) -> Any:
    if not _is_array_type(x):
        raise ArgumentTypeError(
            f"{caller} takes types of references: something with shape and dtype.",
            got=f"got {x!r:.60}",
        )
    value = getattr(x, "initial_value", None)
    if value is None:
        initial = zeros if begins_at_zero(x) else undefined
        value = initial(shaped_array(tuple(x.shape), dtypes.canonicalize(x.dtype)))
    space = SharedScratch(space_of(x), axes) if axes else space_of(x)
    return new_ref(value, memory_space=space, kind=kind_of_scratch(x))


def get_global(what: Any) -> Any:
    """A new reference of this type that all programs of a kernel have in common: semaphores begin at 0, else its contents are undefined.

    Each call gives another one, which lives as long as one run of the kernel. As programs share it, they run one after another.

    Raises: JAXTypeError outside of a kernel; ArgumentTypeError for what is no type of a reference.

    >>> from pellucid.experimental.pallas import pallas_call, semaphore_read, semaphore_signal, tpu
    >>> def count(o_ref):
    ...     counter = get_global(tpu.SemaphoreType.REGULAR)
    ...     semaphore_signal(counter)
    ...     o_ref[...] = semaphore_read(counter)
    >>> pallas_call(count, np.int32(0), grid=3)()
    Array(3, dtype=int32)
    """
    trace = trace_around()
    if trace is None:
        raise JAXTypeError("get_global has a meaning only in a kernel.")
    with use_trace(trace):
        return _allocated("get_global", what)


def with_scoped(
    *types: Any, collective_axes: Any = (), **kw_types: Any
) -> Callable[[Function], Function]:
    """A decorator for a function that gets new references of these types before its arguments.

    >>> @with_scoped(np.zeros(2, np.float32))
    ... def filled(ref, x):
    ...     ref[...] = x
    ...     return ref[...]
    >>> filled(np.float32(2))
    Array([2., 2.], dtype=float32)
    """

    def decorate(f: Function) -> Function:
        @functools.wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            def scoped(*refs: Any, **named: Any) -> Any:
                return f(*refs, *args, **kwargs, **named)

            return run_scoped(scoped, *types, collective_axes=collective_axes, **kw_types)

        return run

    return decorate


def run_state(f: Function) -> Function:
    """A function of a tree of arrays: `f` gets references to them, and what these hold in the end is the result.

    >>> def increment(refs):
    ...     refs["x"][...] += 1
    >>> run_state(increment)({"x": np.int32(3)})
    {'x': Array(4, dtype=int32)}
    """
    check_callable(f, "run_state")

    def run(init: Any) -> Any:
        leaves, tree = tree_flatten(init)
        refs = [new_ref(x) for x in leaves]
        f(tree.unflatten(refs))
        return tree.unflatten([ref[...] for ref in refs])

    return run


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array without values: NaN, the least signed integer, 0 or False.

    >>> empty(2, "float32")
    Array([nan, nan], dtype=float32)
    """
    if out_sharding is not None:
        raise UnsupportedError(
            "pallas.empty takes no out_sharding.", got=f"got {out_sharding!r:.60}"
        )
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return asarray(undefined(shaped_array(sizes, dtypes.check_user_dtype(dtype, "empty"))))


def empty_like(x: Any) -> Any:
    """An array without values, of the shape and dtype of `x`.

    >>> empty_like(np.zeros(2, np.float32)).shape
    (2,)
    """
    return empty(x.shape, x.dtype)


def empty_ref_like(x: Any) -> Any:
    """A new reference without a value, of the shape and dtype of `x`.

    >>> empty_ref_like(np.zeros(2, np.float32)).shape
    (2,)
    """
    return empty_ref(x)


# Masked access ------------------------------------------------------------------------------------------------


def load(ref: Any, *, mask: Any = None, other: Any = None, outside: Any = None) -> Any:
    """The elements of `ref`, or of a part `ref.at[index]`, where `mask` is true, and `other` elsewhere.

    Without `other` the elements elsewhere are undefined; so are those at positions outside, unless a number for them is stated.
    Raises: ShapeError for a `mask` or an `other` that doesn't fit.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.arange(3))
    >>> index = np.arange(4)
    >>> load(ref.at[index], mask=index < 3, other=-1)
    Array([ 0,  1,  2, -1], dtype=int32)
    """
    if mask is None:
        return get(ref)
    view, positions, inside = points("load", ref)
    shape = view.shape
    mask = fitting("load", "mask", mask, shape)
    if positions is None:
        value = get(view)
    else:
        # Checks of indices know the positions of what is left out.
        kept = [select_n(mask, broadcast_to(NOWHERE, shape), x) for x in positions]
        with use_lineage(MASKED):
            value = get(view.ref, tuple(kept))
    nothing = undefined(shaped_array(shape, view.dtype))
    if inside is not None and outside is not None:
        value = select_n(inside, broadcast_to(np.asarray(outside, view.dtype), shape), value)
    elif inside is not None:
        with use_lineage(UNDEFINED):
            value = select_n(inside, nothing, value)
    if other is None:
        with use_lineage(UNDEFINED):
            return select_n(mask, nothing, value)
    rest = fitting("load", "other", convert_element_type(asarray(other), view.dtype), shape)
    return select_n(mask, rest, value)


def store(ref: Any, val: Any, *, mask: Any = None) -> None:
    """Write `val` to `ref`, or a part `ref.at[index]`, where `mask` holds; positions outside are dropped.

    Raises: ShapeError, DtypeError for a `mask` or a value that doesn't fit.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.zeros(3, np.float32))
    >>> index = np.arange(4)
    >>> store(ref.at[index], np.float32(2), mask=index > 0)
    >>> ref
    Ref([0., 2., 2.], dtype=float32)
    """
    if mask is None:
        set_part(ref, ..., val)
        return
    view, positions, _ = points("store", ref)
    shape = view.shape
    mask = fitting("store", "mask", mask, shape)
    if positions is None:
        old = get(view)
        set_part(view, ..., select_n(mask, old, fitting("store", "value", _as(val, view), shape)))
        return
    # Positions where the mask doesn't hold lie outside, so that nothing is written there; checks of indices know them.
    kept = [select_n(mask, broadcast_to(NOWHERE, shape), x) for x in positions]
    with use_lineage(MASKED):
        set_part(view.ref, tuple(kept), val)


def swap(ref: Any, val: Any, *, mask: Any = None) -> Any:
    """Writes `val` like `store`, and returns the previous value; undefined where `mask` is false.

    >>> from pellucid._machine.refs.access import new_ref
    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> swap(ref, np.float32(2), mask=np.array([True, True]))
    Array([0., 0.], dtype=float32)
    """
    old = load(ref, mask=mask)
    store(ref, val, mask=mask)
    return old


def _as(val: Any, view: RefView) -> Any:
    aval = type_of(val)
    return (
        convert_element_type(val, view.dtype)
        if aval.weak_type or not hasattr(val, "dtype")
        else val
    )


def fitting(caller: str, name: str, x: Any, shape: tuple[int, ...]) -> Any:
    """`x` broadcast to `shape`; raises ShapeError if it doesn't fit."""
    try:
        return broadcast_to(x, shape)
    except ShapeError:
        raise ShapeError(
            f"{caller}: the {name} doesn't fit the part of the reference.",
            got=f"{name}: {type_of(x).text()}, part of shape {list(shape)}",
        ) from None


def points(caller: str, ref: Any) -> tuple[RefView, tuple[Any, ...] | None, Any]:
    """(the view, the position of each of its elements along each axis of its reference, whether it lies inside).

    The last two are None where all are known to lie inside. A view of a view is read and written as a whole.
    """
    if type(ref) is not RefView and not is_reference(ref):
        raise ArgumentTypeError(f"{caller} takes a reference.", got=f"got {type(ref).__name__}")
    view = view_of(caller, ref, ...) if type(ref) is not RefView else ref
    (index, operands), *more = view.steps
    if more or not isinstance(index, RefIndex):
        return view, None, None
    # Per axis the position after the last element that is taken; None where only the run knows it.
    ends = [
        None if entry is None or entry.start is None else entry.start + entry.span
        for entry in index.entries
    ]
    if all(end is not None and end <= dim for end, dim in strict_zip(ends, index.shape)):
        return view, None, None
    shape = index.result_shape(types_of(operands))
    # Dimensions of the result: `n_vector` that index arrays have in common, at `index.position`, and one per slice.
    n_vector = len(shape) - len(index.windows)
    windows = iter([*range(index.position), *range(index.position + n_vector, len(shape))])
    rest = iter(operands)
    positions, inside = [], None
    for entry, dim in strict_zip(index.entries, index.shape):
        if entry is None:
            x = convert_element_type(next(rest), np.dtype(np.int32))
            # An index array is aligned at the last of the common dimensions.
            end = index.position + n_vector
            axes = tuple(range(end - type_of(x).ndim, end))
        else:
            start = np.int32(entry.start) if entry.start is not None else next(rest)
            start = convert_element_type(start, np.dtype(np.int32))
            # The positions of a slice's elements.
            x = start + iota(np.dtype(np.int32), entry.size) * np.int32(entry.stride)
            axes = (next(windows),)
        x = broadcast_in_dim(x, shape, axes) if shape else x
        fits = (x >= 0) & (x < dim)
        # Positions outside become the length of the axis: a negative one would count from the end.
        positions.append(select_n(fits, broadcast_to(np.int32(dim), shape), x))
        inside = fits if inside is None else inside & fits
    return view, tuple(positions), inside


# Checks, prints, hints ----------------------------------------------------------------------------------------------


def debug_checks_enabled() -> bool:
    """Whether `debug_check` checks something.

    >>> debug_checks_enabled()
    False
    """
    return bool(pallas_enable_debug_checks.value)


def debug_check(condition: Any, message: str) -> None:
    """State that `condition` holds, for `checkify` to report, if `enable_debug_checks` is set; else nothing.

    >>> debug_check(False, "never looked at")
    """
    if debug_checks_enabled():
        check(condition, message)


def debug_print(fmt: str, *args: Any) -> None:
    """Print values from a kernel: `fmt` with its fields filled, or, where it has none, followed by the values.

    Programs print in the order of the grid.

    >>> debug_print("x = {}", np.int32(3))
    x = 3
    """
    if args and "{" not in fmt:
        fmt = " ".join([fmt.rstrip(), *["{}"] * len(args)])
    print_values(fmt, *args, ordered=False)


@contextlib.contextmanager
def enable_poison_buffers(new_val: bool = True) -> Iterator[None]:
    """A context in which memory without a value is marked; it always is, by NaN, the least integer, 0 or False.

    >>> with enable_poison_buffers(True):
    ...     empty(1, "float32")
    Array([nan], dtype=float32)
    """
    yield


def delay(nanos: Any) -> None:
    """Let this program wait for some nanoseconds; as nothing runs beside it, it doesn't.

    >>> delay(100)
    """


def multiple_of(x: Any, values: Sequence[int] | int) -> Any:
    """`x`, which is stated to be a multiple of `values`; where TPUs read at a number that only the run knows, they rely on that.

    Raises: ArgumentValueError for an `x` that is known and is none.

    >>> multiple_of(8, 4)
    8
    """
    known = concrete_value(x)
    factors = (values,) if isinstance(values, int) else tuple(values)
    if known is not None and any((np.asarray(known) % n).any() for n in factors):
        raise ArgumentValueError(
            "multiple_of: the value is no multiple.", got=f"{known} of {values}"
        )
    if known is not None or len(factors) != 1 or type_of(x).shape:
        return x
    return named(MULTIPLE_OF, lambda x: x, x, factor=int(factors[0]))


# Numbers --------------------------------------------------------------------------------------------------------------


def cdiv(a: Any, b: Any) -> Any:
    """`a / b`, rounded up.

    >>> cdiv(7, 2)
    4
    """
    return (a + (b - 1)) // b


def align_to(a: Any, alignment: Any) -> Any:
    """The least multiple of `alignment` that is no less than `a`.

    >>> align_to(5, 4)
    8
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The least power of two that is no less than `x`.

    Raises: ArgumentValueError for a negative number.

    >>> next_power_of_2(5)
    8
    """
    if x < 0:
        raise ArgumentValueError("next_power_of_2 takes a number of at least 0.", got=f"got {x}")
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of elements between neighbours along each axis of an array in row-major order.

    >>> strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    return tuple([int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))])


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """`1 / x`, in full precision whatever is asked for.

    >>> reciprocal(np.float32(4))
    Array(0.25, dtype=float32)
    """
    return 1 / asarray(x)


def dot(
    a: Any,
    b: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: Any = None,
) -> Any:
    """The product of two matrices, each transposed first if asked for: in int32 for integers, float64 where one is, else float32.

    Raises: ArgumentValueError for `allow_tf32` together with `precision`, and for what are no matrices.

    >>> dot(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32), trans_b=True).shape
    (2, 2)
    """
    if type_of(a).ndim != 2 or type_of(b).ndim != 2:
        raise ArgumentValueError(
            "pallas.dot takes matrices.", got=f"{type_of(a).text()}, {type_of(b).text()}"
        )
    if allow_tf32 is not None:
        if precision is not None:
            raise ArgumentValueError("pallas.dot takes allow_tf32 or precision, not both.")
        precision = "high" if allow_tf32 else "highest"
    a, b = asarray(a), asarray(b)
    dtype = np.dtype(np.int32 if a.dtype.kind in "iub" and b.dtype.kind in "iub" else np.float32)
    if np.dtype(np.float64) in (a.dtype, b.dtype):
        dtype = np.dtype(np.float64)
    a, b = a.T if trans_a else a, b.T if trans_b else b
    return dot_product(a, b, precision=precision, preferred_element_type=dtype)

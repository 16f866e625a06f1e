"""Public loops: `scan`, `map`, `while_loop`, `fori_loop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    Binary,
    Function,
    Ints,
    Symbol,
    TracerBoolConversionError,
    Unary,
    canonical_size,
    config,
    expecting,
    ints,
    keystr,
    larger,
    strict_zip,
    tree_map,
    wrapping,
)
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    Literal,
    Operands,
    Values,
    Var,
    rearrange_program,
)
from pellucid._machine.primitives import (
    INTEGER,
    REAL,
    add,
    concatenate,
    constant_like,
    convert_element_type,
    index_in_dim,
    iota,
    kind_of,
    lt,
    reshape,
    slice_in_dim,
    stack,
)
from pellucid._machine.sharding.errors import PartitionSpecError
from pellucid._machine.tracing import (
    bind,
    bottom,
    check_carry_is_values,
    is_reference,
    name_of,
    type_of,
    types_of,
)
from pellucid._machine.transforms import (
    check_callable,
    checked_leaves,
    concrete_value,
    flat_arguments,
)
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla import flatten, flatten_with_path, treedef_tuple

from .bodies import (
    Adapted,
    TracedBody,
    as_result,
    check_carry,
    settle_carry,
    stand_in,
    trace_program,
    unchanged_carries,
)
from .loop_primitives import ScanParams, WhileParams, element_type, scan_p, stacked_type, while_p

T = TypeVar("T")

# Names of the arguments in messages.
_SCAN = stand_in("scan", "init", "xs")
_WHILE_LOOP = stand_in("while_loop", "init_val")
_FORI_LOOP = stand_in("fori_loop", "init_val")
_BOUNDS = stand_in("fori_loop", "lower", "upper")
_MAP = stand_in("map", "xs")


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """`(carry, ys)` after `carry, y = f(carry, x)` for each `x` along the leading axes of the arrays in `xs`.

    `carry` starts as `init` and keeps its structure, shapes and dtypes; `ys` are the outputs `y`, stacked along new
    leading axes. For a reference in `xs`, `x` is `ref.at[i]`, which `f` may write. `length` is only needed if `xs` has
    no arrays. `reverse` starts at the end. `unroll` is the number of steps per iteration of the compiled loop (True or
    0: no loop). `f` is traced once.

    Raises: ArgumentTypeError for a carry that changes its type (with its path and both types), ArgumentValueError
    for leading axes of different sizes.

    >>> scan(lambda total, x: (total + x, total), 0, np.arange(4))
    (Array(6, dtype=int32), Array([0, 0, 1, 3], dtype=int32, weak_type=True))
    """
    check_callable(f, "scan")
    init_leaves, init_tree = flatten(init)
    xs_leaves, xs_tree = flatten(xs)
    leaves = checked_leaves([*init_leaves, *xs_leaves], "scan", _SCAN, (init, xs))
    init_leaves, xs_leaves = leaves[: len(init_leaves)], leaves[len(init_leaves) :]
    check_carry_is_values("scan", init_leaves)
    xs_avals = types_of(xs_leaves)
    length = _scan_length(xs, xs_avals, length)
    unroll = _unroll(unroll, length)
    if any(is_reference(x) for x in xs_leaves):
        f, xs_leaves = _with_parts_of_references(f, xs_tree, xs_leaves, length)
        xs = xs_tree.unflatten(xs_leaves)
    if config.disable_jit.value:
        return _scan_by_python(f, init, xs, length, reverse)
    return _scan(
        f, None, (init_leaves, init_tree), (xs_leaves, xs_tree), length, bool(reverse), unroll
    )


def _with_parts_of_references(
    f: Function, tree, leaves: Operands, length: int
) -> tuple[Function, Values]:
    """(`f` adapted, inputs of its steps): each reference is replaced by the step number, from which `f` gets the
    reference's part.
    """
    references = [x if is_reference(x) else None for x in leaves]

    @wrapping(f)
    def run_on_parts(carry: Any, x: Any) -> Any:
        pairs = strict_zip(tree.flatten_up_to(x), references)
        parts = [v if ref is None else ref.at[v] for v, ref in pairs]
        return f(carry, tree.unflatten(parts))

    steps = iota(np.dtype(np.int32), length)
    return run_on_parts, [x if ref is None else steps for x, ref in strict_zip(leaves, references)]


def _scan(
    f: Function, call: Function | None, init: tuple[Any, Any], xs: tuple[Any, Any],
    length: int, reverse: bool, unroll: int,
) -> tuple[Any, Any]:  # fmt: skip
    """`scan` with checked, flattened arguments; with `call`, each step is `call(f, carry, x)`."""
    (leaves, init_tree), (xs_leaves, xs_tree) = init, xs
    in_tree = treedef_tuple([init_tree, xs_tree])
    x_avals = [element_type(a) for a in types_of(xs_leaves)]

    def trace(avals: Avals) -> Any:
        body = trace_program(
            f,
            in_tree,
            [*avals, *x_avals],
            "scan",
            call,
            is_remembered=call is not _mapped_step,
        )
        return body, _pair(body.out_tree, f)[0]

    leaves, body, carry_tree = settle_carry(leaves, trace, init_tree)
    ys_tree = _pair(body.out_tree, f)[1]
    n = carry_tree.num_leaves
    _check_carry(
        "scan",
        call is _counted_step,
        f,
        (init_tree, types_of(leaves)),
        (carry_tree, body.out_avals[:n]),
    )
    results = _run_scan(body, leaves, xs_leaves, length, reverse, unroll)
    return carry_tree.unflatten(results[:n]), ys_tree.unflatten(results[n:])


def _run_scan(
    body: TracedBody, carry: Operands, xs: Operands, length: int, reverse: bool, unroll: int
) -> Values:
    """Runs the loop. Carries that no step changes become constants, and outputs that are inputs aren't stacked again."""
    jaxpr, n_consts, n = body.program.jaxpr, len(body.consts), len(carry)
    fixed = unchanged_carries(body.program, n_consts, n)
    moving = [i for i in range(n) if i not in fixed]
    results = {i: as_result(carry[i]) for i in fixed}
    elements: dict[Any, Any] = dict(strict_zip(jaxpr.invars[n_consts + n :], xs))
    for i, atom in enumerate(jaxpr.outvars[n:], n):
        x = elements.get(atom) if type(atom) is Var else None
        if x is not None and type_of(x) is stacked_type(jaxpr.out_avals[i], length):
            results[i] = as_result(x)
    computed = [i for i in range(len(jaxpr.outvars)) if i not in results]
    if computed or jaxpr.effects:
        program = _reorder_body(body, n, (*fixed, *moving), computed)
        params = ScanParams(program, length, len(moving), n_consts + len(fixed), reverse, unroll)
        operands = (*body.consts, *(carry[i] for i in (*fixed, *moving)), *xs)
        results |= strict_zip(computed, bind(scan_p, *operands, params=params))
    return [results[i] for i in range(len(jaxpr.outvars))]


def _reorder_body(
    body: TracedBody, n_carry: int, carried: Ints, results: Ints | None = None
) -> ClosedJaxpr:
    """A loop body with its results and carries selected and reordered."""
    n = len(body.consts)
    rest = range(n + n_carry, len(body.program.jaxpr.invars))
    return rearrange_program(body.program, [*range(n), *(n + i for i in carried), *rest], results)


def _check_carry(
    caller: str,
    is_counted: bool,
    f: Function,
    expected: tuple[Any, Any],
    returned: tuple[Any, Any],
) -> None:
    """Raises unless a loop's body returns a carry of the (structure, types) that it takes."""
    if is_counted:
        caller, expected, returned = "fori_loop", _user_carry(*expected), _user_carry(*returned)
    check_carry(caller, f, *expected, *returned)


def _user_carry(tree, avals: Avals) -> tuple[Any, Avals]:
    """From the carry of `fori_loop`, the (structure, types) of the user's value, which follows the counters."""
    inner = tree.children()[-1]
    return inner, avals[len(avals) - inner.num_leaves :]


def _pair(tree, f: Function) -> tuple[Any, Any]:
    children = tree.children()
    if tree.node_data() is None or tree.node_data()[0] not in (tuple, list) or len(children) != 2:
        raise ArgumentTypeError(
            f"scan: `{name_of(f)}` must return a pair (carry, y).", got=f"it returned {_tree_text(tree)}",
            do="Return (carry, None) if there is nothing to stack.",
        )  # fmt: skip
    return children[0], children[1]


def _tree_text(tree) -> str:
    node = tree.node_data()
    return "one value" if node is None else f"{node[0].__name__} with {len(tree.children())} items"


def _scan_length(xs, avals: Avals, length) -> int:
    if length is not None:
        try:
            length = canonical_size(length)
        except TypeError:
            raise ArgumentTypeError("scan needs a length that is known now, an int.", got=f"got {length!r}",
                                    do="Use `fori_loop` or `while_loop` for a number of steps that is computed.") from None  # fmt: skip
    scalars = [i for i, a in enumerate(avals) if not a.shape]
    sizes = {a.shape[0] for a in avals if a.shape}
    if (
        scalars
        or len(sizes) > 1
        or (length is not None and sizes - {length})
        or (length is None and not sizes)
    ):
        paths = ["xs" + keystr(path) for path, _ in flatten_with_path(xs)[0]]
        if scalars:
            raise ArgumentValueError(
                "scan needs arrays with a leading axis.", got=[f"{paths[i]}: {avals[i].text()}" for i in scalars[:4]],
                do="Scalars that all steps share can be captured by the function.",
            )  # fmt: skip
        if not sizes:
            raise ArgumentValueError(
                "scan doesn't know its number of steps: xs holds no arrays.", do="Give length."
            )
        lines = [f"length: {length}"] if length is not None else []
        raise ArgumentValueError(
            "scan got arrays whose leading axes differ.",
            got=[*lines, *(f"{path}: {a.text()}" for path, a in strict_zip(paths, avals))][:8],
        )
    cut = [i for i, a in enumerate(avals) if (shown := getattr(a, "shown_sharding", None)) and shown.spec.partitions[0]]  # fmt: skip
    if cut:
        paths = ["xs" + keystr(path) for path, _ in flatten_with_path(xs)[0]]
        raise PartitionSpecError(
            "scan runs along the leading axes of its arrays, which no mesh axis may cut.",
            got=[f"{paths[i]}: {avals[i].text()}" for i in cut[:4]],
            do="Gather them first, `reshard(xs, PartitionSpec(None, …))`, or cut another dimension.",
        )
    return next(iter(sizes)) if length is None else length


def _unroll(unroll, length: int) -> int:
    if isinstance(unroll, bool):
        return 1 if not unroll else 0 if isinstance(length, Symbol) else max(length, 1)
    with expecting("unroll must be an int or a bool", unroll):
        [unroll] = ints([unroll])
    if unroll < 0:
        raise ArgumentValueError("unroll can't be negative.", got=f"got {unroll}")
    return unroll


def _immutable(carry: Any) -> Any:
    """`carry` with NumPy arrays converted to arrays, because `+=` in a body would change them in the caller."""
    return tree_map(lambda x: bottom().from_host(x) if isinstance(x, np.ndarray) else x, carry)


def _scan_by_python(f: Function, carry, xs, length: int, reverse: bool) -> tuple[Any, Any]:
    if length == 0:
        raise ArgumentValueError(
            "a scan of no steps can't run while disable_jit is on: the type of its result is unknown."
        )
    carry, ys = _immutable(carry), []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_map(lambda x, i=i: index_in_dim(x, i, 0, False), xs))
        ys.append(y)
    return carry, tree_map(lambda *parts: stack(parts, 0), *(reversed(ys) if reverse else ys))


def while_loop(cond_fun: Unary, body_fun: Unary, init_val: T) -> T:
    """The value after `while cond_fun(value): value = body_fun(value)`, starting with `init_val`.

    The value keeps its structure, shapes and dtypes. `cond_fun` must return a scalar boolean. Forward mode and `vmap`
    are supported; reverse mode is not, because the number of steps is unknown (use `scan` or `fori_loop`).

    Raises: ArgumentTypeError for a value that changes its type (with its path and both types) and for conditions
    that are no scalar booleans.

    >>> while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    check_callable(cond_fun, "while_loop")
    check_callable(body_fun, "while_loop")
    leaves, tree = flat_arguments(init_val, "while_loop", _WHILE_LOOP, (init_val,))
    check_carry_is_values("while_loop", leaves)
    if config.disable_jit.value:
        value = _immutable(init_val)
        while True:
            try:
                goes_on = bool(cond_fun(value))
            except TracerBoolConversionError:  # an outer trace doesn't know how often it runs
                break
            if not goes_on:
                return value
            value = body_fun(value)
        leaves, tree = flat_arguments(value, "while_loop", _WHILE_LOOP, (value,))
    return _while(cond_fun, None, body_fun, None, leaves, tree)


def _while(
    cond_fun: Function, test: Function | None, body_fun: Function,
    turn: Function | None, leaves: Values, tree,
):  # fmt: skip
    """`while_loop` with a checked, flattened value; with `turn`, the body is `turn(body_fun, value)`; likewise for
    `test`.
    """
    in_tree = treedef_tuple([tree])

    condition: Any = None

    def trace(avals: Avals) -> Any:
        nonlocal condition
        condition = trace_program(cond_fun, in_tree, avals, "while_loop", test, is_remembered=True)
        body = trace_program(body_fun, in_tree, avals, "while_loop", turn, is_remembered=True)
        return body, body.out_tree

    leaves, body, out_tree = settle_carry(leaves, trace, tree)
    is_counted = turn is _counted_turn
    _check_carry(
        "while_loop",
        is_counted,
        body_fun,
        (tree, types_of(leaves)),
        (out_tree, body.out_avals),
    )
    check_predicate("while_loop", cond_fun, condition.out_tree, condition.out_avals)
    return tree.unflatten(_run_while(condition, body, leaves))


def _run_while(condition: TracedBody, body: TracedBody, carry: Operands) -> Values:
    """The value after the loop, which only carries what a step changes or the condition reads."""
    n, tests = len(carry), condition.program.jaxpr
    is_read = {atom for e in tests.equations for atom in e.operands if type(atom) is not Literal}
    is_read.update(tests.outvars)
    variables = tests.invars[len(condition.consts) :]
    fixed = [
        i
        for i in unchanged_carries(body.program, len(body.consts), n)
        if variables[i] not in is_read
    ]
    moving = [i for i in range(n) if i not in fixed]

    params = WhileParams(
        _reorder_body(body, n, (*fixed, *moving), moving),
        len(body.consts) + len(fixed),
        _reorder_body(condition, n, moving),
        len(condition.consts),
    )
    constants = [carry[i] for i in fixed]
    operands = (*condition.consts, *body.consts, *constants, *(carry[i] for i in moving))
    results = bind(while_p, *operands, params=params)
    values = dict(strict_zip([*fixed, *moving], [*(as_result(x) for x in constants), *results]))
    return [values[i] for i in range(n)]


def check_predicate(caller: str, function: Function, tree: Any, avals: Any) -> None:
    """Raises ArgumentTypeError unless a condition returns a scalar boolean."""
    if (
        tree.num_nodes == 1
        and tree.num_leaves == 1
        and avals[0].shape == ()
        and avals[0].dtype == np.bool_
    ):
        return
    shown = avals[0].text() if tree.num_nodes == 1 and tree.num_leaves == 1 else str(tree)
    raise ArgumentTypeError(
        f"{caller}: `{name_of(function)}` must return a scalar boolean.", got=f"it returned {shown}"
    )


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Binary,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """The value after `value = body_fun(i, value)` for `i` from `lower` to `upper - 1`, starting with `init_val`.

    If both bounds are Python ints, this is a `scan`, which supports reverse mode and `unroll`; otherwise it is a
    `while_loop`. Bounds may be floating-point, if both have the same dtype. The value keeps its structure, shapes and
    dtypes.

    Raises: ArgumentTypeError for bounds that are not of one type, integer or floating, for a `body_fun` that cannot be
    called and for a value that changes its structure, shape or dtype.

    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    check_callable(body_fun, "fori_loop")
    bounds = types_of(checked_leaves([lower, upper], "fori_loop", _BOUNDS, (lower, upper)))
    for name, aval in strict_zip(("lower", "upper"), bounds):
        if aval.shape != () or kind_of(aval.dtype) not in REAL:
            raise ArgumentTypeError(
                "fori_loop needs scalar bounds that are real numbers.", got=f"{name}: {aval.text()}"
            )
    dtype = _counter(bounds)
    is_counted = kind_of(dtype) in INTEGER
    low, high = (concrete_value(x) if is_counted else None for x in (lower, upper))
    if config.disable_jit.value and low is not None and high is not None:
        value = _immutable(init_val)
        for i in range(int(low), int(high)):
            value = body_fun(i, value)
        return value
    start, end = _as_counter(lower, dtype), _as_counter(upper, dtype)
    leaves, tree = flat_arguments(init_val, "fori_loop", _FORI_LOOP, (init_val,))
    check_carry_is_values("fori_loop", leaves)
    counters = flatten(0)[1]
    if low is not None and high is not None:
        length = larger(canonical_size(high) - canonical_size(low), 0)
        init = [start, *leaves], treedef_tuple([counters, tree])
        (_, value), _ = _scan(
            body_fun,
            _counted_step,
            init,
            flatten(None),
            length,
            False,
            _unroll(1 if unroll is None else unroll, length),
        )
        return value
    if unroll is not None:
        raise ArgumentValueError(
            "fori_loop can unroll only loops whose bounds are known now.",
            got=f"lower: {lower!r:.60}, upper: {upper!r:.60}",
            do="Leave unroll=None, or make the bounds Python ints.",
        )
    value_tree = treedef_tuple([counters, counters, tree])
    return _while(_is_below, None, body_fun, _counted_turn, [start, end, *leaves], value_tree)[2]


def _step(body_fun: Function, carry: tuple[Any, Any], _: None) -> tuple[Any, None]:
    i, value = carry
    return (_next(i), body_fun(i, value)), None


def _turn(body_fun: Function, value: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    i, end, inner = value
    return _next(i), end, body_fun(i, inner)


_counted_step = Adapted(_step, ((0, 0), (0, 1)))
_counted_turn = Adapted(_turn, ((0, 0), (0, 2)))


def _is_below(value: tuple[Any, Any, Any]):
    return lt(value[0], value[1])


def _next(i):
    return add(i, constant_like(i, 1))


def _counter(bounds: Values):
    """The dtype of the counter: that of the bounds, which must agree unless one is a Python int beside an integer."""
    strong = {a.dtype for a in bounds if not a.weak_type}
    are_integers = {kind_of(a.dtype) in INTEGER for a in bounds}
    if len(strong) > 1 or len(are_integers) > 1:
        raise ArgumentTypeError(
            "fori_loop needs bounds of one dtype.",
            got=f"lower: {bounds[0].text()}, upper: {bounds[1].text()}",
        )
    return strong.pop() if strong else bounds[0].dtype


def _as_counter(bound, dtype):
    """A bound as the counter's initial value."""
    return bound if type_of(bound).dtype == dtype else convert_element_type(bound, dtype)


def map(f: Unary, xs: Any, *, batch_size: int | None = None) -> Any:
    """`f(x)` for each `x` along the leading axes of the arrays in `xs`, one after another, stacked.

    `batch_size` elements are computed at once, as by `vmap`; the remainder at the end. If memory allows, `vmap` is
    faster.

    Results are trees like those of `f`, whose shapes have the leading size `n` of `xs` before them; dtypes stay.
    Raises: ArgumentTypeError for an `f` that cannot be called and for leaves that aren't arrays, ArgumentValueError
    without arrays, for scalars, for different leading sizes and for a `batch_size` below 1.

    >>> map(lambda x: x * x, np.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    check_callable(f, "map")
    xs_leaves, xs_tree = flat_arguments(xs, "map", _MAP, (xs,))
    length = _scan_length(xs, types_of(xs_leaves), None)
    if batch_size is None:
        if config.disable_jit.value:
            return scan(lambda _, x: (None, f(x)), None, xs)[1]
        return _scan(f, _mapped_step, flatten(None), (xs_leaves, xs_tree), length, False, 1)[1]
    [batch_size] = ints([batch_size])
    if batch_size < 1:
        raise ArgumentValueError("map needs a batch_size of at least 1.", got=f"got {batch_size}")
    whole = length - length % batch_size
    batched = vmap(f)
    parts = []
    if whole:
        shaped = [
            reshape(slice_in_dim(x, 0, whole), (whole // batch_size, batch_size, *x.shape[1:]))
            for x in xs_leaves
        ]
        ys = scan(lambda _, x: (None, batched(x)), None, xs_tree.unflatten(shaped))[1]
        parts.append(tree_map(lambda y: reshape(y, (whole, *y.shape[2:])), ys))
    if length > whole or not whole:
        parts.append(
            batched(xs_tree.unflatten([slice_in_dim(x, whole, length) for x in xs_leaves]))
        )
    return parts[0] if len(parts) == 1 else tree_map(lambda *ys: concatenate(ys, 0), *parts)


def _mapped_step(f: Unary, _: None, x) -> tuple[None, Any]:
    return None, f(x)

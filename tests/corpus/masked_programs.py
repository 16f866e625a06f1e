"""Random programs whose branches and masks leave singular points out, and the law of masked gradients.

Reverse mode with masks gives what forward mode gives wherever that is finite, and what reverse mode without masks gives
wherever that is finite. That needs no expected values.

Second derivatives by an element count where forward mode's first derivative by it is finite. Where it overflows, the
cotangents that reverse mode multiplies are infinite, and what it differentiates is no number: in products of the order in
which forward mode takes them, a tangent of 0 may come before the factors that overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp

SHAPE = 3, 4
SINGULAR: dict[str, tuple[Any, Any]] = {
    "sqrt": (jnp.sqrt, lambda x: x > 0),
    "log": (jnp.log, lambda x: x > 0),
    "1/x": (lambda x: 1 / x, lambda x: x != 0),
    "arcsin": (jnp.arcsin, lambda x: jnp.abs(x) < 0.9),
    "arctanh": (jnp.arctanh, lambda x: jnp.abs(x) < 0.9),
    "x**.5": (lambda x: x**0.5, lambda x: x > 0),
    "x**-1.5": (lambda x: x**-1.5, lambda x: x > 0),
    "sinc": (lambda x: jnp.sin(x) / x, lambda x: x != 0),
    "exp(1/x)": (lambda x: jnp.exp(1 / x), lambda x: jnp.abs(x) > 0.2),
    "exp(99x)": (lambda x: jnp.exp(99 * x), lambda x: x < 0.1),
    "sqrt(x*x)": (lambda x: jnp.sqrt(x * x), lambda x: x != 0),
    "arctan2": (lambda x: jnp.arctan2(x, x * 0), lambda x: x != 0),
    "log log": (lambda x: jnp.log(jnp.log(x)), lambda x: x > 1.2),
    "x log x": (lambda x: x * jnp.log(x), lambda x: x > 0),
}
"""Functions with points at which the value or a derivative is not finite, and where they are."""
SMOOTH: dict[str, Any] = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "x*x": lambda x: x * x,
    "0": lambda x: jnp.zeros_like(x),
    "x": lambda x: x,
    "2-x": lambda x: 2 - x,
}


MAXIMA: dict[str, Any] = {
    "relu": lambda x, w: pl.nn.relu(x),
    "maximum": lambda x, w: jnp.maximum(x, 0.25),
    "minimum": lambda x, w: jnp.minimum(x, jnp.sin(x) + 0.5),
    "clip": lambda x, w: jnp.clip(x, -0.5, 1),
    "relu of x @ w": lambda x, w: pl.nn.relu(x @ w),
    "network": lambda x, w: pl.nn.relu(pl.nn.relu(x @ w) @ w.T),
    "below the maximum": lambda x, w: x - jnp.max(x, 1, keepdims=True),
    "maximum of columns": lambda x, w: jnp.maximum(x, jnp.max(x, 0)),
    "softmax": lambda x, w: pl.nn.softmax(x, 1),
}
"""Functions in which a maximum decides which elements live.

The one exception to the law is theirs: lines that a maximum of computed values leaves out wholly count as live, so a product behind
it whose other factor is infinite there is NaN (decisions/0053). So programs with these hold no infinity that anything selects.
"""


@pl.custom_jvp
def own_log(x: Any) -> Any:
    return jnp.log(x)


own_log.defjvps(lambda t, y, x: t / x)


def drawn_mask(draw: np.random.Generator, x: Any) -> tuple[Any, str]:
    """Which elements of `x` are chosen: by value, by row, by column, or some."""
    kind = draw.integers(5)
    bound = float(draw.choice([-0.5, 0, 0.5, 1]))
    if kind < 2:
        return x > bound, f"x > {bound}"
    if kind == 2:
        rows = draw.integers(0, 2, SHAPE[0]).astype(bool)
        return jnp.broadcast_to(rows[:, None], SHAPE), "rows"
    if kind == 3:
        return jnp.broadcast_to(draw.integers(0, 2, SHAPE[1]).astype(bool), SHAPE), "columns"
    return draw.integers(0, 2, SHAPE).astype(bool), "some"


def make(seed: int) -> tuple[Any, tuple[Any, Any], str]:
    """(a function of two arrays that gives a number, its arguments, text), drawn by `seed`."""
    draw = np.random.default_rng(seed)
    points = np.array([-1, -0.5, 0, 0, 0.25, 0.5, 1, 1, 2], np.float32)
    x, w = (draw.choice(points, shape) for shape in (SHAPE, (4, 4)))
    has_maximum = seed % 5 != 0 and seed % 2 == 1
    if seed % 5 == 0:
        x[draw.integers(3), draw.integers(4)] = draw.choice([np.nan, np.inf])
    steps = [
        _step(np.random.default_rng(s), has_maximum)
        for s in draw.integers(1 << 30, size=draw.integers(2, 6))
    ]
    last = draw.integers(0, 2, SHAPE).astype(bool)
    weights = draw.choice(np.array([-2, 0.5, 1, 3], np.float32), SHAPE)

    def function(x: Any, w: Any) -> Any:
        for step, _ in steps:
            x = step(x, w)
        return jnp.sum(jnp.where(last, x, 0) * weights)

    return function, (jnp.asarray(x), jnp.asarray(w)), "; ".join(text for _, text in steps)


def _step(draw: np.random.Generator, has_maximum: bool) -> tuple[Any, str]:
    singular, smooth = str(draw.choice([*SINGULAR])), str(draw.choice([*SMOOTH]))
    (f, inside), g = SINGULAR[singular], SMOOTH[smooth]
    # Mostly singular points are left out; what selects them is NaN in all modes.
    is_kept_out = bool(draw.integers(6)) or has_maximum
    seed, kind = int(draw.integers(1 << 30)), int(draw.integers(27))
    kept = lambda x: inside(x) | (not is_kept_out)
    mask_of = lambda x: drawn_mask(np.random.default_rng(seed), x)[0] & kept(x)
    rows_of = lambda x: jnp.broadcast_to(jnp.all(mask_of(x), 1, keepdims=True), SHAPE)
    choice = drawn_mask(np.random.default_rng(seed), np.zeros(SHAPE, np.float32))[1]
    chosen = lambda x: jnp.where(mask_of(x), f(x), g(x))

    def row_by_row(x: Any, w: Any) -> Any:
        def body(carry: Any, row: Any) -> tuple[Any, Any]:
            new = jnp.where(kept(row), f(row) + carry, jnp.sin(carry))
            return new, jnp.where(kept(carry), f(carry), row)

        return pl.lax.scan(body, x[0] * 0.5, x)[1]

    def counted(x: Any, w: Any) -> Any:
        return pl.lax.fori_loop(0, 3, lambda i, c: jnp.where(kept(c) & (i < 2), f(c), g(c)), x)

    branch = lambda e: pl.lax.cond(kept(e), f, g, e)

    def polynomial(x: Any, w: Any) -> Any:
        value, start = f(x), jnp.zeros(SHAPE)
        power = pl.lax.scan(lambda c, a: (c * value + a, None), start, w[0])[0]
        return jnp.where(mask_of(x), power, g(x))

    def convolution(x: Any, w: Any) -> Any:
        images = lambda x, k: pl.lax.conv(x[None, None], k[None, None], (1, 1), "SAME")[0, 0]
        left_out = images(jnp.asarray(~mask_of(x), np.float32), np.ones((2, 2), np.float32))
        return jnp.where(left_out == 0, images(f(x), w[:2, 1:3]), g(x))

    def pool(x: Any, w: Any) -> Any:
        windows = lambda x: pl.lax.reduce_window(
            x, -np.inf, pl.lax.max, (1, 2), (1, 1), [(0, 0), (0, 1)]
        )
        left_out = windows(jnp.asarray(~kept(x), np.float32))
        return jnp.where(left_out <= 0, windows(f(x)), g(x))

    def reference(x: Any, w: Any) -> Any:
        # The content and the carry vary over devices where `x` does.
        ref = pl.new_ref(jnp.where(kept(x), g(x), x))

        def write(i: Any, last: Any) -> Any:
            ref[i] = jnp.where(kept(x[i]), f(x[i]) + last, ref[i])
            return ref[i]

        pl.lax.fori_loop(0, 3, write, jnp.where(kept(x[0]), 0, 0.25))
        return ref[...]

    def named_rows(row: Any) -> Any:
        mean = pl.lax.pmean(jnp.where(kept(row), f(row), 0), "rows")
        return jnp.where(kept(row), mean * row, pl.lax.ppermute(g(row), "rows", [(0, 1), (1, 2)]))

    steps: list[tuple[str, Any]] = [
        (f"where({choice}, {singular}, {smooth})", lambda x, w: chosen(x)),
        (f"where({choice}, {singular}, {smooth}) again", lambda x, w: chosen(jnp.sin(chosen(x)))),
        (f"where({choice}, {singular} @ w, {smooth})", lambda x, w: jnp.where(rows_of(x), f(x) @ w, g(x))),
        (f"where({choice}, w @ {singular})", lambda x, w: jnp.where(rows_of(x), (w @ f(x).T).T, g(x))),
        (f"where({choice}, x @ {singular}(w))", lambda x, w: jnp.where(jnp.all(kept(w), 0), x @ f(w), g(x))),
        (f"scan of {singular}", row_by_row),
        (f"loop of {singular}, {smooth}", counted),
        (f"vmap of cond of {singular}, {smooth}", lambda x, w: pl.vmap(pl.vmap(branch))(x)),
        (f"jit of where({choice}, {singular}, {smooth})", lambda x, w: pl.jit(chosen)(x)),
        (f"checkpoint of where({choice}, {singular})", lambda x, w: pl.checkpoint(chosen)(x)),
        (f"slices of {singular}", lambda x, w: jnp.where(kept(x), jnp.concatenate([f(x)[:1], g(x)[1:]]), g(x))),
        (f"gather of {singular}", lambda x, w: jnp.pad(jnp.where(kept(x[::2]), f(x)[np.array([0, 2])], 1), ((0, 1), (0, 0)))),
        (f"{singular} set", lambda x, w: jnp.where(kept(x), f(x).at[:, np.array([1, 2])].set(g(x)[:, :2]), 1)),
        (f"sum of {singular} where {choice}", lambda x, w: x + jnp.sum(f(x), 1, where=mask_of(x), keepdims=True)),
        (f"cumsum of {singular}", lambda x, w: jnp.where(jnp.cumsum(~mask_of(x)[:, ::-1], 1) == 0, jnp.cumsum(f(x)[:, ::-1], 1), g(x))),
        (f"sort of {singular}", lambda x, w: jnp.where(jnp.isfinite(jnp.sort(f(x), 1)) & rows_of(x), jnp.sort(f(x), 1), g(x))),
        (f"own log where {choice}", lambda x, w: jnp.where(mask_of(x) & (x > 0), own_log(x), g(x))),
        (f"norm of rows where {choice}", lambda x, w: jnp.where(mask_of(x) & (x != 0), jnp.sqrt(jnp.sum(x * x, 1, keepdims=True)) / x, g(x))),
        (f"polynomial of {singular} where {choice}", polynomial),
        (f"convolution of {singular} where {choice}", convolution),
        (f"maxima of windows of {singular}", pool),
        (f"loop that writes {singular} to a reference", reference),
        (f"vmap of collectives of {singular}", lambda x, w: pl.vmap(named_rows, axis_name="rows")(x)),
        (f"product of {singular} along rows", lambda x, w: jnp.where(jnp.all(kept(x), 1, keepdims=True), pl.lax.associative_scan(jnp.multiply, f(x), axis=1), g(x))),
        (f"segments of {singular}", lambda x, w: x + pl.ops.segment_sum(f(x), jnp.where(jnp.all(mask_of(x), 1), 1, 5), 3)),
        (f"absolute value of complex {singular}", lambda x, w: jnp.where(mask_of(x) & (f(x) != 0), jnp.abs(jnp.exp(1j * x) * f(x)), g(x))),
        (f"jvp of where({choice}, {singular})", lambda x, w: pl.jvp(chosen, (x,), (jnp.ones(SHAPE),))[1]),
    ]  # fmt: skip
    text, step = steps[kind]
    maximum = str(draw.choice([*MAXIMA]))
    if not has_maximum:
        return step, text
    return lambda x, w: MAXIMA[maximum](step(x, w), w), f"{maximum} of {text}"


def derivatives(seed: int, function: Any, arguments: Any) -> dict[str, dict[str, Any]]:
    """By composition the derivative in forward, in plain, and in masked reverse mode; `seed` chooses compositions."""
    at = lambda f: (pl.jit(f) if seed % 8 == 1 else f)(*arguments)
    twice = lambda x, w: jnp.sum(pl.vmap(function)(jnp.stack([x, x]), jnp.stack([w, w]))) / 2
    gradient = pl.grad(function, (0, 1))
    pair = lambda x, w: [y[1] for y in pl.vmap(gradient)(jnp.stack([x, x]), jnp.stack([w, w]))]
    further = {1: {"vmap of grad": pair}, 2: {"grad of vmap": pl.grad(twice, (0, 1))}}
    ways = {"grad": gradient, **further.get(seed % 5, {})}
    if seed % 5 == 4:
        ways["grad of shard_map"] = pl.grad(_over_devices(function), (0, 1))
    found = _found(at, pl.jacfwd(function, (0, 1)), ways)
    if seed % 5 == 3:
        ways = {
            "reverse of reverse": pl.jacrev(pl.grad(function)),
            "forward of reverse": pl.jacfwd(pl.grad(function)),
            "reverse of forward": pl.jacrev(pl.jacfwd(function)),
        }
        name = [*ways][seed // 5 % 3]
        found |= _found(at, second_derivatives(function), {name: ways[name]})
    return found


def second_derivatives(function: Any) -> Any:
    """Forward over forward mode by the first argument; NaN by elements of which the first derivative isn't finite."""

    def derivatives(x: Any, w: Any) -> Any:
        first = jnp.isfinite(pl.jacfwd(function)(x, w))
        both = jnp.expand_dims(first, [*range(first.ndim, 2 * first.ndim)]) & first
        return jnp.where(both, pl.jacfwd(pl.jacfwd(function))(x, w), jnp.nan)

    return derivatives


def _over_devices(function: Any) -> Any:
    """`function`, computed by two devices, of which one has the arguments and the other one twice the first."""
    mesh = pl.make_mesh((2,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    P = pl.sharding.PartitionSpec

    def part(x: Any, w: Any) -> Any:
        chosen = pl.lax.axis_index("i") == 0
        value = jnp.where(chosen, function(x[0], w), 0.0)
        return pl.lax.psum(value, "i")

    over = pl.shard_map(part, mesh=mesh, in_specs=(P("i"), P()), out_specs=P())
    return lambda x, w: over(jnp.stack([x, 2 * x]), w)


def _found(at: Any, forward: Any, ways: dict[str, Any]) -> dict[str, dict[str, Any]]:
    forward = _flat(at(forward))
    found = {}
    for name, way in ways.items():
        found[name] = {"forward": forward, "plain": _flat(at(way))}
        with pl.masked_gradients():
            found[name]["masked"] = _flat(at(way))
    return found


def _flat(tree: Any) -> Any:
    return np.concatenate([np.ravel(x) for x in pl.tree.leaves(tree)]).astype(float)


def problems(seed: int) -> list[str]:
    """A line for each way in which the derivatives of the program of `seed` break the law."""
    function, arguments, text = make(seed)
    lines = []
    for name, values in derivatives(seed, function, arguments).items():
        masked = values["masked"]
        for expected in ("forward", "plain"):
            right = values[expected]
            finite = np.isfinite(right)
            scale = max([1.0, *np.abs(right[finite])])
            if not np.all(np.isclose(masked, right, rtol=2e-3, atol=1e-3 * scale)[finite]):
                lines.append(
                    f"seed {seed}: masked {name} is not {expected}: {text}\n{masked}\n{right}"
                )
    return lines

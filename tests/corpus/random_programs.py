"""Random programs of nested transformations, the same for one seed in every process; `jax` is either library.

`make(seed)` gives a `Program`: its inputs as types, an expression, how the whole is called. Expressions are tuples
`(operation, *operands)`; functions within them are `("function", number of parameters, body)`, whose bodies may use
the parameters and everything around them, as closures do. `run(jax, program, compiled)` gives the results.
"""

import functools
import importlib
import math
import random
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

FLOATS = ("float32", "bfloat16", "float16")
INTEGERS = ("int32", "int8", "uint8", "int16", "uint32")
DTYPES = (*FLOATS, *INTEGERS, "bool", "complex64")
_WEIGHTS = (12, 2, 2, 3, 1, 1, 1, 1, 3, 2)
SHAPES = ((), (4,), (8,), (4, 8), (8, 4), (2, 4, 8))
CALLS = ("plain", "plain", "grad", "jvp", "vmap", "linearize", "checkify")

UNARY = {
    "float": (
        "jnp.sin(a)", "jnp.tanh(a)", "jnp.exp(-a * a)", "-a", "jnp.abs(a)", "jnp.log1p(a * a)", "jnp.sqrt(a * a + 1)",
        "jnp.maximum(a, 0)", "lax.logistic(a)", "lax.stop_gradient(a)", "a ** 2", "jnp.cos(a) + 1", "lax.rsqrt(a * a + 1)",
        "jnp.log1p(jnp.exp(-jnp.abs(a)))", "lax.erf(a)", "jnp.square(a)", "jnp.expm1(-a * a)", "a * lax.logistic(a)", "lax.optimization_barrier(a)",
    ),
    "integer": ("a // 3", "a % 5", "~a", "-a", "a << 1", "a >> 1", "jnp.abs(a)", "lax.population_count(a)", "a * a"),
    "bool": ("~a",),
    "complex64": ("jnp.conj(a)", "a * 1j", "jnp.sin(a.real) + 1j * a.imag", "-a", "a / (1 + jnp.abs(a) ** 2)"),
}  # fmt: skip
BINARY = {
    "float": (
        "a + b", "a - b", "a * b", "jnp.maximum(a, b)", "jnp.minimum(a, b)", "a / (1 + b * b)", "jnp.arctan2(a, 1 + b * b)",
        "jnp.logaddexp(a, b)", "lax.clamp(jnp.zeros_like(a), a, b * b)", "jnp.hypot(a, 1 + b * b)",
    ),
    "integer": ("a + b", "a - b", "a * b", "a & b", "a | b", "a ^ b", "jnp.maximum(a, b)", "jnp.minimum(a, b)"),
    "bool": ("a & b", "a | b", "a ^ b", "a != b"),
    "complex64": ("a + b", "a * b", "a - b"),
}  # fmt: skip
SAME_SHAPE = (
    "jnp.flip(a, 0)", "jnp.cumsum(a, 0).astype(a.dtype)", "jnp.roll(a, 1, -1)", "a[::-1]", "a.at[1].multiply(a[0])", "a.at[2].set(a[1])",
    "a[jnp.arange(a.shape[0]) % 3]", "jnp.concatenate([a[2:], a[:2]])", "lax.dynamic_update_slice_in_dim(a, a[:2], 1, 0)",
    "lax.pad(a, jnp.zeros((), a.dtype), [(1, 1, 0)] + [(0, 0, 0)] * (a.ndim - 1))[:-2]", "jnp.where(jnp.arange(a.shape[-1]) % 2 == 0, a, a * 2)",
    "lax.dynamic_slice_in_dim(jnp.concatenate([a, a]), 2, a.shape[0], 0)", "jnp.where(a == a, a.at[jnp.arange(a.shape[0]) // 2].set(a[:1]), a)",
    "jnp.stack([a, a], -1)[..., 0]", "a.reshape(-1)[::-1].reshape(a.shape)", "jax.device_put(a)",
)  # fmt: skip
REDUCTIONS = {
    "float": ("a.sum(axis)", "a.max(axis)", "a.mean(axis)", "((a - a.mean(axis, keepdims=True)) ** 2).mean(axis)", "jnp.log(jnp.exp(jnp.sin(a)).sum(axis))", "(a * 0.5).prod(axis)"),
    "integer": ("a.sum(axis).astype(a.dtype)", "a.max(axis)", "a.min(axis)", "a.prod(axis).astype(a.dtype)"),
    "bool": ("a.any(axis)", "a.all(axis)"),
    "complex64": ("a.sum(axis)", "a.mean(axis)"),
}  # fmt: skip


class Program(NamedTuple):
    """Types of the inputs, the expression of the result, how it is called, and the layout of the inputs."""

    seed: int
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    body: Any
    call: str
    is_sharded: bool


def kind_of(dtype: str) -> str:
    """The family of operations that values of `dtype` have."""
    if dtype in FLOATS:
        return "float"
    return "integer" if dtype in INTEGERS else dtype


class Maker:
    """Makes expressions; `scope` holds (shape, dtype) of the variables around, the inputs first."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def program(self, seed: int, depth: int = 7) -> Program:
        choose = self.random
        call = choose.choice(CALLS)
        inputs = [(choose.choice(SHAPES[1:]), "float32")]
        inputs += [(choose.choice(SHAPES), self.dtype()) for _ in range(choose.randint(1, 3))]
        is_differentiated = call in ("grad", "jvp", "linearize")
        shape = () if call == "grad" else choose.choice(SHAPES)
        dtype = "float32" if is_differentiated else self.dtype()
        modes = frozenset(
            {"grad": ["reverse"], "linearize": ["reverse"], "jvp": ["forward"]}.get(call, [])
        )
        body = self.expression(shape, dtype, depth, tuple(inputs), modes)
        return Program(seed, tuple(inputs), body, call, choose.random() < 0.3)

    def dtype(self) -> str:
        return self.random.choices(DTYPES, _WEIGHTS)[0]

    def expression(
        self, shape: Any, dtype: str, depth: int, scope: Any, modes: frozenset[str]
    ) -> Any:
        """An expression of this type."""
        choose = self.random
        if depth <= 0 or choose.random() < 0.06:
            return self.leaf(shape, dtype, scope)
        made: Any = functools.partial(self.expression, scope=scope, modes=modes)
        kind = kind_of(dtype)
        ways = ["unary", "binary", "binary", "converted", "function", "function", "function"]
        ways += ["same shape", "axis"] if shape else []
        ways += ["reduced"] if len(shape) < 3 else []
        ways += ["dot"] if kind == "float" and shape in ((4,), (4, 8)) else []
        ways += ["where"]
        ways += ["compared"] if dtype == "bool" else []
        way = choose.choice(ways)
        if way == "unary":
            return ("op", choose.choice(UNARY[kind]), made(shape, dtype, depth - 1))
        if way == "binary":
            return (
                "op",
                choose.choice(BINARY[kind]),
                made(shape, dtype, depth - 1),
                made(shape, dtype, depth - 2),
            )
        if way == "same shape":
            return ("op", choose.choice(SAME_SHAPE), made(shape, dtype, depth - 1))
        if way == "axis":
            axis = choose.randrange(len(shape))
            rest = (*shape[:axis], *shape[axis + 1 :])
            if rest in SHAPES:
                return (
                    "op",
                    f"jnp.broadcast_to(jnp.expand_dims(a, {axis}), {shape})",
                    made(rest, dtype, depth - 1),
                )
            turned = tuple(reversed(shape))
            if turned in SHAPES:
                return ("op", "a.T", made(turned, dtype, depth - 1))
            return made(shape, dtype, depth - 1)
        if way == "reduced":
            axis = choose.randint(0, len(shape))
            whole = (*shape[:axis], choose.choice((2, 4, 8)), *shape[axis:])
            if whole not in SHAPES:
                return made(shape, dtype, depth - 1)
            text = choose.choice(REDUCTIONS[kind]).replace("axis", str(axis))
            return ("op", text, made(whole, dtype, depth - 1))
        if way == "dot":
            text = "jnp.einsum('ij,j->i', a, b) * 0.2" if shape == (4,) else "a @ b @ a * 0.05"
            other = (8,) if shape == (4,) else (8, 4)
            first = (4, 8)
            return ("op", text, made(first, dtype, depth - 1), made(other, dtype, depth - 2))
        if way == "where":
            condition = made(choose.choice((shape, ())), "bool", depth - 2)
            return (
                "op",
                "jnp.where(a, b, c)",
                condition,
                made(shape, dtype, depth - 1),
                made(shape, dtype, depth - 2),
            )
        if way == "compared":
            own = choose.choice(INTEGERS)
            return (
                "op",
                choose.choice(("a > b", "a <= b", "a == b")),
                made(shape, own, depth - 1),
                made(shape, own, depth - 2),
            )
        if way == "converted":
            return self.converted(shape, dtype, depth, scope, modes)
        return self.higher(shape, dtype, depth, scope, modes)

    def converted(self, shape: Any, dtype: str, depth: int, scope: Any, modes: Any) -> Any:
        """From another dtype; never from a float, whose last bits may differ, to what counts in steps."""
        sources = [d for d in DTYPES if d != dtype and d != "complex64"]
        if dtype not in (*FLOATS, "complex64"):
            sources = [d for d in sources if d not in FLOATS]
        source = self.random.choice(sources)
        inner = self.expression(shape, source, depth - 1, scope, modes)
        if source in INTEGERS and dtype in (*FLOATS, "complex64"):
            return ("op", f"(a % 7).astype({dtype!r})", inner)
        return ("op", f"a.astype({dtype!r})", inner)

    def leaf(self, shape: Any, dtype: str, scope: Any) -> Any:
        choose = self.random
        fitting = [i for i, aval in enumerate(scope) if aval == (shape, dtype)]
        if fitting and choose.random() < 0.9:
            return ("var", choose.choice(fitting))
        other = [i for i, aval in enumerate(scope) if aval[1] == dtype and aval[0]]
        if other and choose.random() < 0.8:
            size = math.prod(shape)
            text = f"jnp.tile(a.reshape(-1), 16)[:{size}].reshape({shape})"
            return ("op", text, ("var", choose.choice(other)))
        return ("const", shape, dtype, choose.randrange(1000))

    def function(self, parameters: Any, result: Any, depth: int, scope: Any, modes: Any) -> Any:
        inner = (*scope, *parameters)
        return ("function", len(scope), self.expression(*result, depth, inner, modes))

    def higher(self, shape: Any, dtype: str, depth: int, scope: Any, modes: Any) -> Any:
        """A call of a transformed function that gives a value of this type."""
        choose = self.random
        made: Any = functools.partial(self.expression, scope=scope, modes=modes)
        result = (shape, dtype)
        kinds = [
            "jit",
            "jit",
            "checkpoint",
            "cond",
            "switch",
            "scan",
            "fori",
            "checkify",
            "vmap" if shape else "jit",
        ]
        kinds += [] if "reverse" in modes else ["while"]
        kinds += ["scan ys", "map"] if shape else []
        if dtype == "float32":
            kinds += ["grad", "jvp", "linearize", "custom_jvp", "value_and_grad", "vjp"]
            kinds += [] if "forward" in modes else ["custom_vjp"]
        kind = choose.choice(kinds)
        own = (choose.choice(SHAPES), choose.choice(("float32", self.dtype())))
        f: Any = functools.partial(self.function, depth=depth - 2, scope=scope)
        if kind in ("jit", "checkpoint", "checkify"):
            return (kind, f([own], result, modes=modes), made(*own, depth - 2))
        if kind == "cond":
            branches = [f([own], result, modes=modes) for _ in range(2)]
            return (kind, made((), "bool", depth - 3), *branches, made(*own, depth - 2))
        if kind == "switch":
            branches = [f([own], result, modes=modes) for _ in range(3)]
            return (kind, made((), "int32", depth - 3), *branches, made(*own, depth - 2))
        if kind == "scan":
            body = f([result, own], result, modes=modes)
            return (
                kind,
                body,
                made(*result, depth - 2),
                self.stacked(own, depth, scope, modes),
                choose.random() < 0.3,
            )
        if kind in ("scan ys", "map"):
            body = f([((), "float32"), own], (shape[1:], dtype), modes=modes)
            xs = self.stacked(own, depth, scope, modes, shape[0])
            return (kind, body, xs)
        if kind in ("fori", "while"):
            body = f([result], result, modes=modes)
            return (kind, body, made(*result, depth - 2), choose.randint(0, 3))
        if kind == "vmap":
            axis = choose.randrange(len(shape))
            inner = (*shape[:axis], *shape[axis + 1 :])
            body = f([((), "float32"), own], (inner, dtype), modes=modes)
            return (
                kind,
                body,
                self.stacked(((), "float32"), depth, scope, modes, shape[axis]),
                made(*own, depth - 3),
                axis,
            )
        if kind in ("grad", "value_and_grad"):
            body = f([result], ((), "float32"), modes=modes | {"reverse"})
            return (kind, body, made(*result, depth - 2))
        if kind == "vjp":
            own = (choose.choice(SHAPES), "float32")
            body = f([result], own, modes=modes | {"reverse"})
            return (kind, body, made(*result, depth - 2), made(*own, depth - 3))
        own = (choose.choice(SHAPES), "float32")
        if kind in ("jvp", "linearize"):
            body = f([own], result, modes=modes | {"forward" if kind == "jvp" else "reverse"})
            return (kind, body, made(*own, depth - 2), made(*own, depth - 3))
        # Rules call the function's own derivative, so they are right, and twice as large.
        body = f([own], result, modes=modes | {"forward", "reverse"})
        return (kind, body, made(*own, depth - 2))

    def stacked(
        self, element: Any, depth: int, scope: Any, modes: Any, length: int | None = None
    ) -> Any:
        shape, dtype = element
        length = length or self.random.choice((1, 3))
        text = f"jnp.stack([a] * {length}) * jnp.arange(1, {length + 1}).reshape({(length, *[1] * len(shape))}).astype(a.dtype)"
        if dtype == "bool":
            text = f"jnp.stack([a] * {length})"
        return ("op", text, self.expression(shape, dtype, depth - 3, scope, modes))


def make(seed: int) -> Program:
    """The program of `seed`."""
    return Maker(seed).program(seed)


# Running ------------------------------------------------------------------------------------------------


class Runner:
    """Evaluates expressions with one of the libraries."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        self.names = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax}
        self.codes: dict[str, Any] = {}

    def op(self, text: str, operands: list[Any]) -> Any:
        if text not in self.codes:
            self.codes[text] = compile(text, text, "eval")
        return eval(self.codes[text], {**self.names, **dict(zip("abc", operands, strict=False))})

    def value(self, node: Any, scope: tuple[Any, ...]) -> Any:
        what, *rest = node
        if what == "var":
            return scope[rest[0]]
        if what == "const":
            return self.jax.numpy.asarray(values(*rest))
        if what == "op":
            return self.op(rest[0], [self.value(x, scope) for x in rest[1:]])
        return getattr(self, "_" + what.replace(" ", "_"))(scope, *rest)

    def function(self, node: Any, scope: tuple[Any, ...]) -> Any:
        """The function of a node, with the variables of its body as far as they are around it."""
        _, n, body = node
        return lambda *args: self.value(body, (*scope[:n], *args))

    def _jit(self, scope: Any, f: Any, x: Any) -> Any:
        return self.jax.jit(self.function(f, scope))(self.value(x, scope))

    def _checkpoint(self, scope: Any, f: Any, x: Any) -> Any:
        return self.jax.checkpoint(self.function(f, scope))(self.value(x, scope))

    def _checkify(self, scope: Any, f: Any, x: Any) -> Any:
        checkify = self.jax.experimental.checkify
        return checkify.checkify(self.function(f, scope))(self.value(x, scope))[1]

    def _cond(self, scope: Any, p: Any, f: Any, g: Any, x: Any) -> Any:
        branches = [self.function(b, scope) for b in (f, g)]
        return self.jax.lax.cond(self.value(p, scope), *branches, self.value(x, scope))

    def _switch(self, scope: Any, i: Any, f: Any, g: Any, h: Any, x: Any) -> Any:
        branches = [self.function(b, scope) for b in (f, g, h)]
        return self.jax.lax.switch(self.value(i, scope), branches, self.value(x, scope))

    def _scan(self, scope: Any, f: Any, init: Any, xs: Any, reverse: bool) -> Any:
        step = self.function(f, scope)
        init, xs = self.value(init, scope), self.value(xs, scope)
        return self.jax.lax.scan(lambda c, x: (step(c, x), None), init, xs, reverse=reverse)[0]

    def _scan_ys(self, scope: Any, f: Any, xs: Any) -> Any:
        step = self.function(f, scope)
        body = lambda c, x: (c + 0.5, step(c, x))
        return self.jax.lax.scan(body, self.jax.numpy.float32(0.1), self.value(xs, scope))[1]

    def _map(self, scope: Any, f: Any, xs: Any) -> Any:
        step = self.function(f, scope)
        half = self.jax.numpy.float32(0.5)
        return self.jax.lax.map(lambda x: step(half, x), self.value(xs, scope))

    def _fori(self, scope: Any, f: Any, x: Any, n: int) -> Any:
        step = self.function(f, scope)
        return self.jax.lax.fori_loop(0, n, lambda i, c: step(c), self.value(x, scope))

    def _while(self, scope: Any, f: Any, x: Any, n: int) -> Any:
        step = self.function(f, scope)
        body = lambda c: (c[0] + 1, step(c[1]))
        return self.jax.lax.while_loop(lambda c: c[0] < n, body, (0, self.value(x, scope)))[1]

    def _vmap(self, scope: Any, f: Any, xs: Any, y: Any, axis: int) -> Any:
        call = self.jax.vmap(self.function(f, scope), in_axes=(0, None), out_axes=axis)
        return call(self.value(xs, scope), self.value(y, scope))

    def _grad(self, scope: Any, f: Any, x: Any) -> Any:
        return self.jax.grad(self.function(f, scope))(self.value(x, scope))

    def _value_and_grad(self, scope: Any, f: Any, x: Any) -> Any:
        y, g = self.jax.value_and_grad(self.function(f, scope))(self.value(x, scope))
        return g + y

    def _vjp(self, scope: Any, f: Any, x: Any, ct: Any) -> Any:
        return self.jax.vjp(self.function(f, scope), self.value(x, scope))[1](
            self.value(ct, scope)
        )[0]

    def _jvp(self, scope: Any, f: Any, x: Any, t: Any) -> Any:
        y, dy = self.jax.jvp(
            self.function(f, scope), (self.value(x, scope),), (self.value(t, scope),)
        )
        return y + dy

    def _linearize(self, scope: Any, f: Any, x: Any, t: Any) -> Any:
        y, derivative = self.jax.linearize(self.function(f, scope), self.value(x, scope))
        return y + derivative(self.value(t, scope))

    def _custom_jvp(self, scope: Any, f: Any, x: Any) -> Any:
        # The rule gets everything around as arguments: what it captures has no derivative.
        _, n, body = f
        names = [i for i, v in enumerate(scope[:n]) if _is_float(v)]
        whole = lambda x, around: self.value(body, (*_with(scope[:n], names, around), x))
        custom = self.jax.custom_jvp(whole)
        custom.defjvp(lambda p, t: _halved(self.jax.jvp(whole, p, t)))
        return custom(self.value(x, scope), [scope[i] for i in names])

    def _custom_vjp(self, scope: Any, f: Any, x: Any) -> Any:
        _, n, body = f
        names = [i for i, v in enumerate(scope[:n]) if _is_float(v)]
        whole = lambda x, around: self.value(body, (*_with(scope[:n], names, around), x))
        custom = self.jax.custom_vjp(whole)
        custom.defvjp(
            lambda *p: (custom(*p), p), lambda p, ct: self.jax.vjp(whole, *p)[1](ct * 0.5)
        )
        return custom(self.value(x, scope), [scope[i] for i in names])


def _is_float(x: Any) -> bool:
    return str(x.dtype) in (*FLOATS, "complex64")


def _with(items: Any, positions: Any, new: Any) -> tuple[Any, ...]:
    found = list(items)
    for i, x in zip(positions, new, strict=True):
        found[i] = x
    return tuple(found)


def _halved(pair: Any) -> Any:
    return pair[0], pair[1] * 0.5


def values(shape: Any, dtype: str, seed: int) -> np.ndarray:
    """An array of this type, in which no number is near an integer."""
    made = np.random.default_rng(seed)
    if dtype == "bool":
        return made.random(shape) > 0.5
    if dtype in INTEGERS:
        return np.asarray(made.integers(0, 100, shape)).astype(dtype)
    x = np.asarray(made.uniform(-1.5, 1.5, shape))
    if dtype == "complex64":
        return np.asarray(x + 1j * made.uniform(-1, 1, shape)).astype(dtype)
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def run(jax: Any, program: Program, compiled: bool = True) -> list[Any]:
    """The results of a program as NumPy arrays; complex and narrow floats among them as they are."""
    importlib.import_module(f"{jax.__name__}.experimental.checkify")
    runner = Runner(jax)
    inputs = [values(*aval, i + program.seed) for i, aval in enumerate(program.inputs)]
    f = lambda *xs: runner.value(program.body, xs)
    rest = inputs[1:]
    if program.call == "grad":
        g = jax.grad(lambda x, *rest: f(x, *rest))
    elif program.call == "jvp":
        g = lambda x, *rest: jax.jvp(lambda x: f(x, *rest), (x,), (x * 0.5,))
    elif program.call == "linearize":
        g = lambda x, *rest: jax.linearize(lambda x: f(x, *rest), x)[1](x)
    elif program.call == "vmap":
        g = jax.vmap(f, in_axes=(0, *[None] * len(rest)))
        inputs = [np.stack([inputs[0], inputs[0] * 2]), *rest]
    elif program.call == "checkify":
        g = lambda *xs: jax.experimental.checkify.checkify(f)(*xs)[1]
    else:
        g = f
    if program.is_sharded:
        mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        specs = [[("x" if d % 4 == 0 else None) for d in x.shape[:1]] for x in inputs]
        inputs = [
            jax.device_put(x, jax.NamedSharding(mesh, jax.P(*spec)))
            for x, spec in zip(inputs, specs, strict=True)
        ]
    call = jax.jit(g) if compiled else g
    found = call(*inputs)
    return [np.asarray(x) for x in jax.tree_util.tree_leaves(found)]


def results(jax: Any, seed: int) -> list[Any]:
    """The results of the compiled program of `seed`."""
    return run(jax, make(seed))


def difference(a: np.ndarray, b: np.ndarray) -> str:
    """In what two results differ beyond rounding; empty if they don't."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if a.dtype.kind in "biu":
        n = int((a != b).sum())
        return f"{n} of {a.size} elements" if n else ""
    narrow = a.dtype.itemsize == 2
    x, y = (v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (a, b))
    finite = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(np.isnan(x) | ~np.isfinite(x), np.isnan(y) | ~np.isfinite(y)):
        return "finite in one of them only"
    x, y = x[finite], y[finite]
    if not x.size:
        return ""
    scale = np.abs(y).max() + np.abs(y) + (1e-1 if narrow else 1e-3)
    worst = (np.abs(x - y) / scale).max()
    return f"by {worst:.2g} of their size" if worst > (0.15 if narrow else 3e-3) else ""

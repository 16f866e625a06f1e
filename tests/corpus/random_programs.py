"""Random programs of nested transformations, the same for one seed in every process; `jax` is either library.

`make(seed)` gives a `Program`: its inputs as types, an expression, how the whole is called. Expressions are tuples
`(operation, *operands)`; functions within them are `("function", number of parameters, body)`, whose bodies may use
the parameters and everything around them, as closures do. `run(jax, program, compiled)` gives the results.
"""

import contextlib
import functools
import importlib
import math
import random
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

FLOATS = ("float32", "bfloat16", "float16", "float64")
INTEGERS = ("int32", "int8", "uint8", "int16", "uint32", "uint16", "int64", "uint64")
NARROW = (
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4", "float8_e4m3", "int4", "uint4",
)  # fmt: skip
"""Dtypes of less than eight bits of precision: they get operations that never round, on small whole numbers."""
COMPLEX = ("complex64", "complex128")
WIDE = ("float64", "int64", "uint64", "complex128")
WEIGHTS = {
    **dict.fromkeys((*FLOATS, *INTEGERS, *NARROW, *COMPLEX), 1),
    "float32": 12, "bfloat16": 2, "float16": 2, "int32": 3, "bool": 3, "complex64": 2, "float64": 6,
}  # fmt: skip
SHAPES = ((), (4,), (8,), (4, 8), (8, 4), (2, 4, 8))
CALLS = (
    "plain",
    "plain",
    "grad",
    "jvp",
    "vmap",
    "linearize",
    "checkify",
    "vmap grad",
    "grad checkpoint",
)
LAYOUTS = ("none", "none", "auto", "explicit")
SIZES = {"x": 4, "y": 2}

UNARY = {
    "float": (
        "jnp.sin(a)", "jnp.tanh(a)", "jnp.exp(-a * a)", "-a", "jnp.abs(a)", "jnp.log1p(a * a)", "jnp.sqrt(a * a + 1)",
        "jnp.maximum(a, 0)", "lax.logistic(a)", "lax.stop_gradient(a)", "a ** 2", "jnp.cos(a) + 1", "lax.rsqrt(a * a + 1)",
        "jnp.log1p(jnp.exp(-jnp.abs(a)))", "lax.erf(a)", "jnp.square(a)", "jnp.expm1(-a * a)", "a * lax.logistic(a)", "lax.optimization_barrier(a)",
        "lax.associative_scan(jnp.add, a) * 0.5 if a.ndim else a", "jnp.cumprod(jnp.sin(a), -1) if a.ndim else a", "lax.cummax(a) if a.ndim else a",
        "lax.reduce_precision(a, 8, 10)", "jnp.sort(a, -1) if a.ndim else a", "jnp.round(a * 0) + a", "jax.nn.softmax(a, -1) if a.ndim else a",
    ),
    "integer": ("a // 3", "a % 5", "~a", "-a", "a << 1", "a >> 1", "jnp.abs(a)", "lax.population_count(a)", "a * a", "jnp.sort(a, -1) if a.ndim else a", "lax.clz(a)", "jnp.cumsum(a, -1).astype(a.dtype) if a.ndim else a", "jnp.argsort(a, -1).astype(a.dtype) if a.ndim else a"),
    "narrow": ("-a", "a[...]"),
    "bool": ("~a",),
    "complex": ("jnp.conj(a)", "a * 1j", "jnp.sin(a.real) + 1j * a.imag", "-a", "a / (1 + jnp.abs(a) ** 2)", "jnp.fft.fft(a) * 0.2 if a.ndim else a"),
}  # fmt: skip
BINARY = {
    "float": (
        "a + b", "a - b", "a * b", "jnp.maximum(a, b)", "jnp.minimum(a, b)", "a / (1 + b * b)", "jnp.arctan2(a, 1 + b * b)",
        "jnp.logaddexp(a, b)", "lax.clamp(jnp.zeros_like(a), a, b * b)", "jnp.hypot(a, 1 + b * b)",
    ),
    "integer": ("a + b", "a - b", "a * b", "a & b", "a | b", "a ^ b", "jnp.maximum(a, b)", "jnp.minimum(a, b)"),
    "narrow": ("jnp.maximum(a, b)", "jnp.minimum(a, b)"),
    "bool": ("a & b", "a | b", "a ^ b", "a != b"),
    "complex": ("a + b", "a * b", "a - b"),
}  # fmt: skip
SAME_SHAPE = (
    "jnp.flip(a, 0)", "jnp.cumsum(a, 0).astype(a.dtype)", "jnp.roll(a, 1, -1)", "a[::-1]", "a.at[1].multiply(a[0])", "a.at[2].set(a[1])",
    "a[jnp.arange(a.shape[0]) % 3]", "jnp.concatenate([a[2:], a[:2]])", "lax.dynamic_update_slice_in_dim(a, a[:2], 1, 0)",
    "lax.pad(a, jnp.zeros((), a.dtype), [(1, 1, 0)] + [(0, 0, 0)] * (a.ndim - 1))[:-2]", "jnp.where(jnp.arange(a.shape[-1]) % 2 == 0, a, a * 2)",
    "lax.dynamic_slice_in_dim(jnp.concatenate([a, a]), 2, a.shape[0], 0)", "jnp.where(a == a, a.at[jnp.arange(a.shape[0]) // 2].set(a[:1]), a)",
    "jnp.stack([a, a], -1)[..., 0]", "lax.associative_scan(lambda x, y: jnp.where(x == x, y, x), a)",
    "jnp.take_along_axis(a, jnp.arange(a.size).reshape(a.shape) * 3 % a.shape[-1], -1)", "lax.rev(a, range(a.ndim))", "lax.switch(a.ndim, [lambda a: a, lambda a: a[::-1]], a)", "a.reshape(-1)[::-1].reshape(a.shape)", "jax.device_put(a)",
)  # fmt: skip
MOVEMENTS = tuple(
    text for text in SAME_SHAPE if not any(word in text for word in ("cumsum", "multiply", "a * 2"))
)
REDUCTIONS = {
    "float": ("a.sum(axis)", "a.max(axis)", "a.mean(axis)", "((a - a.mean(axis, keepdims=True)) ** 2).mean(axis)", "jnp.log(jnp.exp(jnp.sin(a)).sum(axis))", "(a * 0.5).prod(axis)"),
    "integer": ("a.sum(axis).astype(a.dtype)", "a.max(axis)", "a.min(axis)", "a.prod(axis).astype(a.dtype)"),
    "narrow": ("a.max(axis)", "a.min(axis)"),
    "bool": ("a.any(axis)", "a.all(axis)"),
    "complex": ("a.sum(axis)", "a.mean(axis)"),
}  # fmt: skip


_TAKE_LAYOUTS = {
    text
    for texts in (*UNARY.values(), *BINARY.values())
    for text in texts
    if not any(word in text for word in ("sort", "fft", "scan", "cum", "softmax"))
}
_REDUCE = ("a.sum(", "a.max(", "a.min(", "a.mean(", "a.prod(", "a.any(", "a.all(")


def takes_layouts(text: str) -> bool:
    """Whether an operation accepts operands that lie alike along Explicit axes, whatever their layout."""
    return text in _TAKE_LAYOUTS or text.startswith(_REDUCE)


class Program(NamedTuple):
    """Types of the inputs, the expression of the result, how it is called, and how values lie on eight devices.

    `layout` is "none", or the kind of the axes of a mesh of eight devices that inputs are cut along.
    """

    seed: int
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    body: Any
    call: str
    layout: str
    is_wide: bool


def kind_of(dtype: str) -> str:
    """The family of operations that values of `dtype` have."""
    families = {"float": FLOATS, "integer": INTEGERS, "narrow": NARROW, "complex": COMPLEX}
    return next((kind for kind, dtypes in families.items() if dtype in dtypes), dtype)


class Maker:
    """Makes expressions; `scope` holds (shape, dtype) of the variables around, the inputs first."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.is_wide = self.random.random() < 0.25
        self.layout = self.random.choice(LAYOUTS)
        self.weights = {d: w for d, w in WEIGHTS.items() if self.is_wide or d not in WIDE}

    def program(self, seed: int) -> Program:
        choose = self.random
        depth = choose.choice((5, 7, 7, 7, 9))
        call = choose.choice(CALLS)
        inputs = [(choose.choice(SHAPES[1:]), "float32")]
        inputs += [(choose.choice(SHAPES), self.dtype()) for _ in range(choose.randint(1, 3))]
        is_differentiated = "grad" in call or call in ("jvp", "linearize")
        shape = () if "grad" in call else choose.choice(SHAPES)
        dtype = "float32" if is_differentiated else self.dtype()
        mode = "forward" if call == "jvp" else "reverse"
        modes = frozenset([mode] if is_differentiated else [])
        body = self.expression(shape, dtype, depth, tuple(inputs), modes)
        return Program(seed, tuple(inputs), body, call, self.layout, self.is_wide)

    def dtype(self) -> str:
        return self.random.choices(list(self.weights), list(self.weights.values()))[0]

    def expression(
        self, shape: Any, dtype: str, depth: int, scope: Any, modes: frozenset[str]
    ) -> Any:
        """An expression of this type."""
        choose = self.random
        if depth <= 0 or choose.random() < 0.06:
            return self.leaf(shape, dtype, scope)
        make_operand: Any = functools.partial(self.expression, scope=scope, modes=modes)
        kind = kind_of(dtype)
        ways = ["unary", "binary", "binary", "converted", "function", "function", "function"]
        ways += ["same shape", "axis"] if shape else []
        ways += ["reduced"] if len(shape) < 3 else []
        ways += ["dot"] if kind == "float" and shape in ((4,), (4, 8)) else []
        ways += ["where"] + ["laid out"] * (self.layout != "none")
        ways += ["compared"] if dtype == "bool" else []
        way = choose.choice(ways)
        if way == "unary":
            return ("op", choose.choice(UNARY[kind]), make_operand(shape, dtype, depth - 1))
        if way == "binary":
            return (
                "op",
                choose.choice(BINARY[kind]),
                make_operand(shape, dtype, depth - 1),
                make_operand(shape, dtype, depth - 2),
            )
        if way == "same shape":
            texts = MOVEMENTS if kind == "narrow" else SAME_SHAPE
            return ("op", choose.choice(texts), make_operand(shape, dtype, depth - 1))
        if way == "laid out":
            return ("laid out", make_operand(shape, dtype, depth - 1), self.spec(shape))
        if way == "axis":
            axis = choose.randrange(len(shape))
            rest = (*shape[:axis], *shape[axis + 1 :])
            if rest in SHAPES:
                return (
                    "op",
                    f"jnp.broadcast_to(jnp.expand_dims(a, {axis}), {shape})",
                    make_operand(rest, dtype, depth - 1),
                )
            turned = tuple(reversed(shape))
            if turned in SHAPES:
                return ("op", "a.T", make_operand(turned, dtype, depth - 1))
            return make_operand(shape, dtype, depth - 1)
        if way == "reduced":
            axis = choose.randint(0, len(shape))
            whole = (*shape[:axis], choose.choice((2, 4, 8)), *shape[axis:])
            if whole not in SHAPES:
                return make_operand(shape, dtype, depth - 1)
            text = choose.choice(REDUCTIONS[kind]).replace("axis", str(axis))
            return ("op", text, make_operand(whole, dtype, depth - 1))
        if way == "dot":
            text = "jnp.einsum('ij,j->i', a, b) * 0.2" if shape == (4,) else "a @ b @ a * 0.05"
            other = (8,) if shape == (4,) else (8, 4)
            first = (4, 8)
            return (
                "op",
                text,
                make_operand(first, dtype, depth - 1),
                make_operand(other, dtype, depth - 2),
            )
        if way == "where":
            condition = make_operand(choose.choice((shape, ())), "bool", depth - 2)
            return (
                "op",
                "jnp.where(a, b, c)",
                condition,
                make_operand(shape, dtype, depth - 1),
                make_operand(shape, dtype, depth - 2),
            )
        if way == "compared":
            operand_type = choose.choice(INTEGERS)
            return (
                "op",
                choose.choice(("a > b", "a <= b", "a == b")),
                make_operand(shape, operand_type, depth - 1),
                make_operand(shape, operand_type, depth - 2),
            )
        if way == "converted":
            return self.converted(shape, dtype, depth, scope, modes)
        return self.higher(shape, dtype, depth, scope, modes)

    def converted(self, shape: Any, dtype: str, depth: int, scope: Any, modes: Any) -> Any:
        """From another dtype; never from a float, whose last bits may differ, to what counts in steps."""
        sources = [d for d in self.weights if d != dtype and d not in COMPLEX]
        if dtype not in (*FLOATS, *COMPLEX):
            sources = [d for d in sources if d not in FLOATS]
        if dtype in NARROW:
            sources = [d for d in sources if d not in NARROW]
        source = self.random.choice(sources)
        inner = self.expression(shape, source, depth - 1, scope, modes)
        if source in INTEGERS and dtype not in (*INTEGERS, "bool"):
            return ("op", f"(a % 7).astype({dtype!r})", inner)
        return ("op", f"a.astype({dtype!r})", inner)

    def spec(self, shape: Any) -> tuple[str | None, ...]:
        """A random partition of an array of this shape over the mesh."""
        axes: list[Any] = [None, None, "x", "y"]
        self.random.shuffle(axes)
        return tuple(
            a if n % SIZES.get(a, 1) == 0 else None for a, n in zip(axes, shape, strict=False)
        )

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
        make_operand: Any = functools.partial(self.expression, scope=scope, modes=modes)
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
        kinds += (
            [] if "reverse" in modes else ["while", "while it holds", "reference", "custom_vmap"]
        )
        kinds += [] if modes or self.layout != "none" else ["callback"]
        kinds += ["scan ys", "map", "named vmap"] if shape else []
        kinds += ["shard_map"] if self.layout != "none" and shape in ((4,), (4, 8)) else []
        kinds += ["jacfwd", "jacrev"] if dtype == "float32" and shape in ((4,), (4, 8)) else []
        kinds += ["hessian"] if dtype == "float32" and shape and not modes else []
        if dtype == "float32":
            kinds += ["grad", "jvp", "linearize", "custom_jvp", "value_and_grad", "vjp"]
            kinds += [] if "forward" in modes else ["custom_vjp"]
        kind = choose.choice(kinds)
        operand_type = (choose.choice(SHAPES), choose.choice(("float32", self.dtype())))
        f: Any = functools.partial(self.function, depth=depth - 2, scope=scope)
        if kind == "checkpoint":
            policy = choose.choice(
                (None, "dots_saveable", "everything_saveable", "nothing_saveable")
            )
            return (
                kind,
                f([operand_type], result, modes=modes),
                make_operand(*operand_type, depth - 2),
                policy,
            )
        if kind == "checkify":
            errors = choose.choice(("user_checks", "index_checks", "float_checks"))
            body = f([operand_type], result, modes=modes)
            return (kind, body, make_operand(*operand_type, depth - 2), errors)
        if kind in ("jit", "custom_vmap", "callback"):
            return (
                kind,
                f([operand_type], result, modes=modes),
                make_operand(*operand_type, depth - 2),
            )
        if kind == "cond":
            branches = [f([operand_type], result, modes=modes) for _ in range(2)]
            return (
                kind,
                make_operand((), "bool", depth - 3),
                *branches,
                make_operand(*operand_type, depth - 2),
            )
        if kind == "switch":
            branches = [f([operand_type], result, modes=modes) for _ in range(3)]
            return (
                kind,
                make_operand((), "int32", depth - 3),
                *branches,
                make_operand(*operand_type, depth - 2),
            )
        if kind == "scan":
            body = f([result, operand_type], result, modes=modes)
            return (
                kind,
                body,
                make_operand(*result, depth - 2),
                self.stacked(operand_type, depth, scope, modes),
                choose.random() < 0.3,
                choose.choice((1, 1, 2)),
            )
        if kind in ("scan ys", "map", "named vmap"):
            body = f([((), "float32"), operand_type], (shape[1:], dtype), modes=modes)
            xs = self.stacked(operand_type, depth, scope, modes, shape[0])
            return (kind, body, xs)
        if kind == "shard_map":
            body = f([((), "float32"), operand_type], (shape[1:], dtype), modes=modes)
            xs = self.stacked(((), "float32"), depth, scope, modes, 4)
            return (kind, body, xs, make_operand(*operand_type, depth - 3), choose.random() < 0.5)
        if kind in ("jacfwd", "jacrev"):
            mode = "forward" if kind == "jacfwd" else "reverse"
            body = f([(shape[1:], "float32")], ((4,), "float32"), modes=modes | {mode})
            return (kind, body, make_operand(shape[1:], "float32", depth - 2))
        if kind == "hessian":
            body = f([result], ((), "float32"), modes=modes | {"forward", "reverse"})
            return (kind, body, make_operand(*result, depth - 2))
        if kind == "while it holds":
            body = f([result], result, modes=modes)
            holds = f([result], ((), "bool"), modes=modes)
            return (kind, holds, body, make_operand(*result, depth - 2), choose.randint(1, 3))
        if kind in ("fori", "while", "reference"):
            body = f([result], result, modes=modes)
            return (kind, body, make_operand(*result, depth - 2), choose.randint(0, 3))
        if kind == "vmap":
            axis = choose.randrange(len(shape))
            inner = (*shape[:axis], *shape[axis + 1 :])
            body = f([((), "float32"), operand_type], (inner, dtype), modes=modes)
            return (
                kind,
                body,
                self.stacked(((), "float32"), depth, scope, modes, shape[axis]),
                make_operand(*operand_type, depth - 3),
                axis,
            )
        if kind in ("grad", "value_and_grad"):
            body = f([result], ((), "float32"), modes=modes | {"reverse"})
            return (kind, body, make_operand(*result, depth - 2))
        if kind == "vjp":
            operand_type = (choose.choice(SHAPES), "float32")
            body = f([result], operand_type, modes=modes | {"reverse"})
            return (
                kind,
                body,
                make_operand(*result, depth - 2),
                make_operand(*operand_type, depth - 3),
            )
        operand_type = (choose.choice(SHAPES), "float32")
        if kind in ("jvp", "linearize"):
            body = f(
                [operand_type], result, modes=modes | {"forward" if kind == "jvp" else "reverse"}
            )
            return (
                kind,
                body,
                make_operand(*operand_type, depth - 2),
                make_operand(*operand_type, depth - 3),
            )
        # Rules call the function's own derivative, so they are right, and twice as large.
        body = f([operand_type], result, modes=modes | {"forward", "reverse"})
        return (kind, body, make_operand(*operand_type, depth - 2))

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
    """Evaluates expressions with one of the libraries; `mesh` is None where values aren't laid out."""

    def __init__(self, jax: Any, layout: str) -> None:
        self.jax = jax
        self.is_explicit = layout == "explicit"
        kind = jax.sharding.AxisType.Explicit if self.is_explicit else jax.sharding.AxisType.Auto
        self.mesh = (
            None if layout == "none" else jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
        )
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
            operands = [self.value(x, scope) for x in rest[1:]]
            if self.is_explicit:
                spec = self.jax.typeof(operands[0]).sharding.spec if takes_layouts(rest[0]) else ()
                operands = [self.laid(x, *spec) for x in operands]
            return self.op(rest[0], operands)
        return getattr(self, "_" + what.replace(" ", "_"))(scope, *rest)

    def function(self, node: Any, scope: tuple[Any, ...]) -> Any:
        """The function of a node, with the variables of its body as far as they are around it."""
        _, n, body = node
        return lambda *args: self.laid(self.value(body, (*scope[:n], *args)))

    def laid(self, x: Any, *spec: str | None) -> Any:
        """`x` laid out as `spec` says: what carries and branches have in common if axes are Explicit."""
        return self.jax.sharding.reshard(x, self.jax.P(*spec)) if self.is_explicit else x

    def laid_as(self, x: Any, y: Any) -> Any:
        """`y` laid out as `x`: a tangent or cotangent has the type of its value."""
        return self.laid(y, *self.jax.typeof(x).sharding.spec) if self.is_explicit else y

    def _laid_out(self, scope: Any, x: Any, spec: Any) -> Any:
        sharding = self.jax.NamedSharding(self.mesh, self.jax.P(*spec))
        if self.is_explicit:
            return self.jax.sharding.reshard(self.value(x, scope), sharding)
        return self.jax.lax.with_sharding_constraint(self.value(x, scope), sharding)

    def _shard_map(self, scope: Any, f: Any, xs: Any, y: Any, checked: bool) -> Any:
        _, n, body = f
        P, lax = self.jax.P, self.jax.lax
        inner = Runner(self.jax, "none")  # positions of a manual axis have no layout

        def position(x: Any, y: Any, *around: Any) -> Any:
            found = inner.value(body, (*around, x[0], y))
            if _is_float(found):
                found = found + lax.pmean(found, "x") + lax.axis_index("x").astype(found.dtype)
            return found[None]

        call = self.jax.shard_map(
            position, mesh=self.mesh, in_specs=(P("x"), P(), *[P()] * n), out_specs=P("x"), check_vma=checked,
            axis_names={"x", "y"},
        )  # fmt: skip
        around = [self.laid(v) for v in (self.value(y, scope), *scope[:n])]
        return self.laid(call(self.laid(self.value(xs, scope), "x"), *around))

    def _reference(self, scope: Any, f: Any, x: Any, n: int) -> Any:
        step = self.function(f, scope)
        ref = self.jax.new_ref(step(self.value(x, scope)))

        def write() -> None:
            ref[...] = step(ref[...])

        if n == 0:
            self.jax.jit(write)()
        elif n == 1:
            self.jax.lax.cond(self.jax.numpy.any(ref[...] == ref[...]), write, lambda: None)
        else:
            self.jax.lax.fori_loop(0, n, lambda i, _: write(), None)
        return self.jax.freeze(ref)

    def _custom_vmap(self, scope: Any, f: Any, x: Any) -> Any:
        _, n, body = f
        plain = lambda x, *around: self.laid(self.value(body, (*around, x)))
        whole = self.jax.custom_batching.custom_vmap(plain)

        def rule(size: int, in_batched: Any, x: Any, *around: Any) -> Any:
            axes = tuple(0 if b else None for b in in_batched)
            return self.jax.vmap(plain, in_axes=axes, axis_size=size)(x, *around), True

        whole.def_vmap(rule)
        return whole(self.value(x, scope), *scope[:n])

    def _jacfwd(self, scope: Any, f: Any, x: Any) -> Any:
        return self.jax.jacfwd(self.function(f, scope))(self.laid(self.value(x, scope)))

    def _jacrev(self, scope: Any, f: Any, x: Any) -> Any:
        return self.jax.jacrev(self.function(f, scope))(self.laid(self.value(x, scope)))

    def _jit(self, scope: Any, f: Any, x: Any) -> Any:
        return self.jax.jit(self.function(f, scope))(self.value(x, scope))

    def _checkpoint(self, scope: Any, f: Any, x: Any, policy: str | None) -> Any:
        chosen_policy = policy and getattr(self.jax.checkpoint_policies, policy)
        return self.jax.checkpoint(self.function(f, scope), policy=chosen_policy)(
            self.value(x, scope)
        )

    def _checkify(self, scope: Any, f: Any, x: Any, errors: str) -> Any:
        checkify = self.jax.experimental.checkify
        checked = checkify.checkify(self.function(f, scope), errors=getattr(checkify, errors))
        return checked(self.value(x, scope))[1]

    def _callback(self, scope: Any, f: Any, x: Any) -> Any:
        y = self.value(x, scope)
        y = self.jax.pure_callback(np.asarray, y, y, vmap_method="expand_dims")
        return self.function(f, scope)(y)

    def _cond(self, scope: Any, p: Any, f: Any, g: Any, x: Any) -> Any:
        branches = [self.function(b, scope) for b in (f, g)]
        return self.jax.lax.cond(self.value(p, scope), *branches, self.value(x, scope))

    def _switch(self, scope: Any, i: Any, f: Any, g: Any, h: Any, x: Any) -> Any:
        branches = [self.function(b, scope) for b in (f, g, h)]
        return self.jax.lax.switch(self.value(i, scope), branches, self.value(x, scope))

    def _hessian(self, scope: Any, f: Any, x: Any) -> Any:
        y = self.laid(self.value(x, scope))
        second = self.laid(self.jax.hessian(self.function(f, scope))(y))
        return second.sum(range(y.ndim))

    def _named_vmap(self, scope: Any, f: Any, xs: Any) -> Any:
        step, lax = self.function(f, scope), self.jax.lax
        half, xs = self.jax.numpy.float32(0.5), self.laid(self.value(xs, scope))
        n = xs.shape[0]

        def position(x: Any) -> Any:
            y = step(half * lax.axis_index("i"), x)
            if not _is_float(y):
                return lax.all_gather(y, "i")[-1]
            turned = [(i, (i + 1) % n) for i in range(n)]
            return y + lax.pmean(y, "i") - lax.ppermute(y, "i", turned)

        return self.jax.vmap(position, axis_name="i")(xs)

    def _scan(self, scope: Any, f: Any, init: Any, xs: Any, reverse: bool, unroll: int) -> Any:
        step = self.function(f, scope)
        init, xs = self.laid(self.value(init, scope)), self.value(xs, scope)
        body = lambda c, x: (step(c, x), None)
        return self.jax.lax.scan(body, init, xs, reverse=reverse, unroll=unroll)[0]

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
        return self.jax.lax.fori_loop(0, n, lambda i, c: step(c), self.laid(self.value(x, scope)))

    def _while(self, scope: Any, f: Any, x: Any, n: int) -> Any:
        step = self.function(f, scope)
        body = lambda c: (c[0] + 1, step(c[1]))
        return self.jax.lax.while_loop(
            lambda c: c[0] < n, body, (0, self.laid(self.value(x, scope)))
        )[1]

    def _while_it_holds(self, scope: Any, holds: Any, f: Any, x: Any, n: int) -> Any:
        step, condition = self.function(f, scope), self.function(holds, scope)
        body = lambda c: (c[0] + 1, step(c[1]))
        goes_on = lambda c: (c[0] < n) & condition(c[1])
        return self.jax.lax.while_loop(goes_on, body, (0, self.laid(self.value(x, scope))))[1]

    def _vmap(self, scope: Any, f: Any, xs: Any, y: Any, axis: int) -> Any:
        call = self.jax.vmap(self.function(f, scope), in_axes=(0, None), out_axes=axis)
        return call(self.value(xs, scope), self.value(y, scope))

    def _grad(self, scope: Any, f: Any, x: Any) -> Any:
        return self.jax.grad(self.function(f, scope))(self.value(x, scope))

    def _value_and_grad(self, scope: Any, f: Any, x: Any) -> Any:
        y, g = self.jax.value_and_grad(self.function(f, scope))(self.value(x, scope))
        return g + y

    def _vjp(self, scope: Any, f: Any, x: Any, ct: Any) -> Any:
        y, pull = self.jax.vjp(self.function(f, scope), self.value(x, scope))
        return pull(self.laid_as(y, self.value(ct, scope)))[0]

    def _jvp(self, scope: Any, f: Any, x: Any, t: Any) -> Any:
        primal = self.value(x, scope)
        tangent = self.laid_as(primal, self.value(t, scope))
        y, dy = self.jax.jvp(self.function(f, scope), (primal,), (tangent,))
        return y + dy

    def _linearize(self, scope: Any, f: Any, x: Any, t: Any) -> Any:
        primal = self.value(x, scope)
        y, derivative = self.jax.linearize(self.function(f, scope), primal)
        return y + derivative(self.laid_as(primal, self.value(t, scope)))

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
    return str(x.dtype) in (*FLOATS, *COMPLEX)


def _with(items: Any, positions: Any, new: Any) -> tuple[Any, ...]:
    found = list(items)
    for i, x in zip(positions, new, strict=True):
        found[i] = x
    return tuple(found)


def _halved(pair: Any) -> Any:
    return pair[0], pair[1] * 0.5


def values(shape: Any, dtype: str, seed: int) -> np.ndarray:
    """An array of this type, in which no number is near an integer."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.random(shape) > 0.5
    if dtype in INTEGERS:
        return np.asarray(generator.integers(0, 100, shape)).astype(dtype)
    if dtype in NARROW:
        return np.asarray(generator.integers(0, 7, shape)).astype(getattr(ml_dtypes, dtype))
    x = np.asarray(generator.uniform(-1.5, 1.5, shape))
    if dtype in COMPLEX:
        return np.asarray(x + 1j * generator.uniform(-1, 1, shape)).astype(dtype)
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def run(jax: Any, program: Program, compiled: bool = True) -> list[Any]:
    """The results of a program as NumPy arrays; complex and narrow floats among them as they are."""
    for name in ("experimental.checkify", "custom_batching"):
        importlib.import_module(f"{jax.__name__}.{name}")
    runner = Runner(jax, program.layout)
    with contextlib.ExitStack() as stack:
        if program.is_wide:
            stack.enter_context(jax.enable_x64(True))
        if runner.is_explicit:
            stack.enter_context(jax.set_mesh(runner.mesh))
        return _run(jax, program, runner, compiled)


def _run(jax: Any, program: Program, runner: Runner, compiled: bool) -> list[Any]:
    inputs = [values(*aval, i + program.seed) for i, aval in enumerate(program.inputs)]
    f = lambda *xs: runner.laid(runner.value(program.body, xs))
    n_rest = len(inputs) - 1
    g: Any = f
    if "grad" in program.call:
        g = jax.grad(jax.checkpoint(f) if "checkpoint" in program.call else f)
    elif program.call == "jvp":
        g = lambda x, *rest: jax.jvp(lambda x: f(x, *rest), (x,), (x * 0.5,))
    elif program.call == "linearize":
        g = lambda x, *rest: jax.linearize(lambda x: f(x, *rest), x)[1](x)
    elif program.call == "checkify":
        g = lambda *xs: jax.experimental.checkify.checkify(f)(*xs)[1]
    if "vmap" in program.call:
        g = jax.vmap(g, in_axes=(0, *[None] * n_rest))
        inputs = [np.stack([inputs[0], inputs[0] * 2]), *inputs[1:]]
    inputs = [jax.numpy.asarray(x) for x in inputs]
    if runner.mesh is not None:
        specs = [[("x" if d % 4 == 0 else None) for d in x.shape[:1]] for x in inputs]
        inputs = [
            jax.device_put(x, jax.NamedSharding(runner.mesh, jax.P(*spec)))
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
    if a.dtype.kind in "biu" or str(a.dtype) in NARROW:
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

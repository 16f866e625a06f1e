"""Random programs of each area, and what they give in each of their ways, with either library as `jax`."""

import builtins
import functools
import importlib
import random
import re
from typing import Any, NamedTuple

import numpy as np

from . import tables, template, values

WRAPPERS = {
    "jit": "jax.jit(f)",
    "checkpoint": "jax.checkpoint(f)",
    "cond": "lambda *a: lax.cond(jnp.ravel(a[-1])[0] == jnp.ravel(a[-1])[0], f, f, *a)",
    "switch": "lambda *a: lax.switch(jnp.asarray(a[0].ndim) + 1, [f, f, f], *a)",
    "scan": "lambda *a: jax.tree.map(lambda v: v[1], lax.scan(lambda c, t: (c + 1, f(*a)), 0, jnp.arange(2))[1])",
    "fori": "lambda *a: lax.fori_loop(0, 2, lambda i, c: f(*a), f(*a))",
    "map": "lambda *a: jax.tree.map(lambda v: v[0], lax.map(lambda t: f(*t), jax.tree.map(lambda v: jnp.stack([v, v]), a)))",
    "custom_jvp": "with_jvp(f)",
    "custom_vjp": "with_vjp(f)",
    "vmap": "lambda *a: jax.tree.map(lambda v: v[1], jax.vmap(f)(*[jnp.stack([v, v]) for v in a]))",
    "vmap at the end": "lambda *a: jax.tree.map(lambda v: v[..., 1], jax.vmap(f, in_axes=-1, out_axes=-1)(*[jnp.stack([v, v], -1) for v in a]))",
    "shard_map": "jax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)",
    "export": "exported(f, 1)",
    "checkify": "lambda *a: jax.experimental.checkify.checkify(f)(*a)[1]",
    "linearize": "lambda *a: jax.linearize(f, *a)[0]",
    "remat jit": "jax.checkpoint(jax.jit(f), policy=jax.checkpoint_policies.dots_saveable)",
    "reference": "in_reference(f)",
}
"""Functions around a program that change nothing about its results or derivatives."""
LAWS = ("loop", "slope", "difference", "adjoint")
"""Ways that are there to hold others against; the reference has no need of them."""
IN_64_BITS = ("slope", "difference", "adjoint", "wide")
OF_FLOATS = ("jvp", "vjp", "hvp", "jvp of vmap", "vmap of vjp", "slope", "difference", "adjoint")
PLAIN_AREAS = ("callbacks", "collectives", "explicit", "export")
"""Areas whose programs have transformations of their own: nothing is put around them."""


class Program(NamedTuple):
    """A program as texts: what `f` of its inputs `x`, `y`, `z` does, what is around it, how it is called besides."""

    seed: int
    area: str
    body: str
    inputs: tuple[str, ...]
    around: tuple[str, ...]
    ways: tuple[str, ...]


def make(seed: int, area: str = "") -> Program:
    """The program of a seed; the areas take turns unless one is named."""
    names = [*tables.AREAS]
    choose = random.Random(seed)
    area = area or names[seed % len(names)]
    text, inputs, kinds = choose.choice(tables.AREAS[area])
    body, *types = template.fill(choose, text + "\0" + inputs).split("\0")
    ways = ["eager"] if "s" in kinds else ["eager", "jit"]
    more = ["vmap", "scan"] if "v" in kinds else []
    if "d" in kinds:
        more += ["jvp", "vjp", "vjp", "jvp of vmap", "vmap of vjp"]
    if "2" in kinds and "d" in kinds:
        more += ["hvp", "hvp"]
    if "w" in kinds:
        more += ["wide"]
    picked = choose.sample(more, min(len(more), 3))
    if "d" in kinds and choose.random() < 0.5:
        picked += ["slope", "difference", "adjoint"]
    around = ()
    if area not in PLAIN_AREAS and choose.random() < 0.5:
        around = tuple(choose.sample([*WRAPPERS], choose.choice((1, 1, 2))))
    named = tuple(t.strip() for t in types[0].split(", "))
    return Program(seed, area, body, named, around, (*ways, *dict.fromkeys(picked)))


class Scope:
    """Names that programs use, of one library."""

    def __init__(self, jax: Any) -> None:
        name = jax.__name__
        for module in (
            "scipy", "scipy.special", "scipy.stats", "scipy.linalg", "scipy.signal", "scipy.fft", "scipy.ndimage", "scipy.sparse.linalg",
            "experimental.sparse", "experimental.sparse.linalg", "experimental.checkify", "custom_batching", "export", "ref", "nn", "nn.initializers", "image", "ops",
        ):  # fmt: skip
            importlib.import_module(f"{name}.{module}")
        self.jax = jax
        jnp, lax = jax.numpy, jax.lax
        kinds = jax.sharding.AxisType
        mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(kinds.Auto,) * 2)
        seen: list[Any] = []

        def note(*given: Any) -> None:
            seen.append([np.asarray(v) for v in given])

        def tell(given: Any) -> Any:
            note(given)
            return np.asarray(given * 2, np.float32)

        number = jax.ShapeDtypeStruct((), jnp.float32)
        self.names = {
            "jax": jax, "jnp": jnp, "lax": lax, "np": np, "nn": jax.nn, "random": jax.random, "special": jax.scipy.special,
            "stats": jax.scipy.stats, "jsp": jax.scipy, "sparse": jax.experimental.sparse, "P": jax.P, "NamedSharding": jax.NamedSharding,
            "BCOO": jax.experimental.sparse.BCOO, "BCSR": jax.experimental.sparse.BCSR, "ref": jax.ref, "mesh": mesh,
            "emesh": jax.make_mesh((4, 2), ("x", "y"), axis_types=(kinds.Explicit,) * 2), "seen": seen, "note": note, "tell": tell,
            "io": lambda v: jax.experimental.io_callback(tell, number, v, ordered=True), "log": lambda: sorted(np.ravel(v).tolist() for v in seen),
            "exported": self.exported, "symbolic": self.symbolic, "with_jvp": self.with_jvp, "with_vjp": self.with_vjp, "in_reference": self.in_reference,
            "grad_spy": self.grad_spy, "specs": lambda tree: [str(jax.typeof(v)) for v in jax.tree.leaves(tree)],
        }  # fmt: skip

    def exported(self, f: Any, vjp_order: int) -> Any:
        jax = self.jax

        def call(*given: Any) -> Any:
            avals = [jax.ShapeDtypeStruct(jax.numpy.shape(v), v.dtype) for v in given]
            data = jax.export.export(jax.jit(f))(*avals).serialize(vjp_order=vjp_order)
            return jax.export.deserialize(data).call(*given)

        return call

    def symbolic(self, f: Any, shape: str) -> Any:
        jax = self.jax

        def call(given: Any) -> Any:
            aval = jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), given.dtype)
            exported = jax.export.deserialize(jax.export.export(jax.jit(f))(aval).serialize())
            return exported.call(given)

        return call

    def with_jvp(self, f: Any) -> Any:
        custom = self.jax.custom_jvp(f)
        custom.defjvp(lambda primals, tangents: self.jax.jvp(f, primals, tangents))
        return custom

    def with_vjp(self, f: Any) -> Any:
        custom = self.jax.custom_vjp(f)
        custom.defvjp(lambda *given: self.jax.vjp(f, *given), lambda pull, ct: pull(ct))
        return custom

    def in_reference(self, f: Any) -> Any:
        def call(*given: Any) -> Any:
            cells = self.jax.tree.map(self.jax.new_ref, f(*given))
            return self.jax.tree.map(lambda r: r[...], cells)

        return call

    def grad_spy(self, v: Any, r: Any) -> Any:
        @self.jax.custom_vjp
        def spy(v: Any, r: Any) -> Any:
            return v

        def back(r: Any, ct: Any) -> Any:
            r[...] = ct
            return ct, None

        spy.defvjp(lambda v, r: (v, r), back)
        return spy(v, r)

    def function(self, program: Program) -> Any:
        """`f` of a program with what is around it."""
        parameters = ", ".join(t.split()[0] for t in program.inputs)
        lines = program.body if re.search(r"\breturn ", program.body) else f"return {program.body}"
        body = "\n".join("    " + line for line in lines.splitlines())
        names = dict(self.names)
        exec(f"def f({parameters}):\n{body}", names)
        f = names["f"]
        for wrapper in program.around:
            f = eval(f"lambda f: {WRAPPERS[wrapper]}", names)(f)
        return f


def is_float(v: Any) -> bool:
    return np.dtype(v.dtype).kind in "fcV"


class Ways:
    """The ways in which a program runs; `xs` are its inputs as NumPy arrays, `batch` three of each."""

    def __init__(self, jax: Any, f: Any, program: Program) -> None:
        self.jax, self.f, self.program = jax, f, program
        texts = [t.split(" ", 1)[1] for t in program.inputs]
        self.batch = [
            np.stack([values.value(t, 7 * program.seed + i + 1000 * k) for k in range(3)])
            for i, t in enumerate(texts)
        ]
        self.xs = [b[0] for b in self.batch]
        self.floats = [i for i, x in enumerate(self.xs) if is_float(x)]
        generator = np.random.default_rng(program.seed)
        self.ts = [
            np.asarray(generator.standard_normal(self.xs[i].shape)).astype(self.xs[i].dtype)
            for i in self.floats
        ]

    def is_smooth(self) -> bool:
        """Whether the same in 64 bits says more: there is nothing narrow, and no rule for one mode only."""
        dtypes = {str(self.xs[i].dtype) for i in self.floats}
        kinds = {t.split()[-1] for t in self.program.inputs}
        one_mode = {"custom_vjp", "export"} & {*self.program.around}
        return (
            dtypes <= {"float32", "complex64"}
            and not one_mode
            and not kinds & {"nans", "edges", "ties", "around"}
        )

    def left_out(self) -> set[str]:
        """Laws that don't hold of this program: `stop_gradient` changes a slope, and results over devices that differ have none.

        With `check_vma=False` a specification may say that devices hold equal parts where they don't; `check_vma=True` sees it.
        """
        found = {"slope", "difference"} if "stop_gradient" in self.program.body else set()
        if "check_vma=False" in self.program.body:
            checked = self.program._replace(
                body=self.program.body.replace("check_vma=False", "check_vma=True")
            )
            try:
                self.jax.eval_shape(_scope(self.jax).function(checked), *self.arrays(self.xs))
            except Exception:
                found |= {"adjoint"}
        return found

    def arrays(self, given: Any) -> Any:
        return [self.jax.numpy.asarray(v) for v in given]

    def of_floats(self, xs: Any) -> Any:
        """`f` as a function of its inputs of floats, with the others fixed, and its results that have derivatives."""

        def g(*given: Any) -> Any:
            filled = list(xs)
            for i, v in zip(self.floats, given, strict=True):
                filled[i] = v
            leaves = [v for v in self.jax.tree.leaves(self.f(*filled)) if hasattr(v, "dtype")]
            return [v for v in leaves if self.jax.numpy.issubdtype(v.dtype, self.jax.numpy.inexact)]

        return g

    def scalar(self, xs: Any) -> Any:
        """The real sum of `of_floats`, with weights that differ."""
        jnp = self.jax.numpy

        def total(*given: Any) -> Any:
            parts = self.of_floats(xs)(*given)
            weighted = [
                jnp.sum(
                    v
                    * jnp.cos(jnp.arange(v.size, dtype="float32")).reshape(v.shape).astype(v.dtype)
                )
                for v in parts
            ]
            return sum(jnp.real(v).astype("float32") for v in weighted)

        return total

    def eager(self) -> Any:
        return self.f(*self.arrays(self.xs))

    def jit(self) -> Any:
        return self.jax.jit(self.f)(*self.arrays(self.xs))

    def vmap(self) -> Any:
        call = self.jax.vmap(self.f)
        return (self.jax.jit(call) if self.program.seed % 3 else call)(*self.arrays(self.batch))

    def loop(self) -> Any:
        lanes = [self.f(*self.arrays([b[k] for b in self.batch])) for k in range(3)]
        return self.jax.tree.map(lambda *v: self.jax.numpy.stack(v), *lanes)

    def scan(self) -> Any:
        step = lambda c, t: (c, self.f(*t))
        return self.jax.lax.scan(step, 0, tuple(self.arrays(self.batch)))[1]

    def jvp(self) -> Any:
        xs = self.arrays(self.xs)
        given = [xs[i] for i in self.floats]
        run = lambda p, t: self.jax.jvp(self.of_floats(xs), p, t)
        return self.jax.jit(run)(tuple(given), tuple(self.arrays(self.ts)))

    def vjp(self) -> Any:
        xs = self.arrays(self.xs)
        given = [xs[i] for i in self.floats]
        run = self.jax.grad(self.scalar(xs), tuple(range(len(given))))
        return (self.jax.jit(run) if self.program.seed % 2 else run)(*given)

    def hvp(self) -> Any:
        xs = self.arrays(self.xs)
        given = [xs[i] for i in self.floats]
        gradient = self.jax.grad(self.scalar(xs), tuple(range(len(given))))
        run = lambda p, t: self.jax.jvp(gradient, p, t)[1]
        return self.jax.jit(run)(tuple(given), tuple(self.arrays(self.ts)))

    def _batched(self) -> tuple[Any, Any]:
        xs, batch = self.arrays(self.xs), self.arrays(self.batch)
        return xs, tuple(batch[i] for i in self.floats)

    def jvp_of_vmap(self) -> Any:
        xs, given = self._batched()
        ts = tuple(
            self.jax.numpy.broadcast_to(t, g.shape) for t, g in zip(self.ts, given, strict=True)
        )
        run = lambda p, t: self.jax.jvp(self.jax.vmap(self.of_floats(xs)), p, t)
        return self.jax.jit(run)(given, ts)

    def vmap_of_vjp(self) -> Any:
        xs, given = self._batched()
        run = self.jax.vmap(self.jax.grad(self.scalar(xs), tuple(range(len(given)))))
        return self.jax.jit(run)(*given)

    def widened(self, given: Any) -> Any:
        """NumPy arrays in 64 bits, as arrays."""
        wider = {"float32": "float64", "complex64": "complex128"}
        return [self.jax.numpy.asarray(v.astype(wider.get(str(v.dtype), v.dtype))) for v in given]

    def wide(self) -> Any:
        """Results in 64 bits."""
        with self.jax.enable_x64(True):
            return self.jax.jit(self.f)(*self.widened(self.xs))

    def _at(self) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        xs, ts = self.widened(self.xs), self.ts
        if self.program.area == "sparse":  # What is stored stays stored.
            ts = [t * (self.xs[i] != 0) for i, t in zip(self.floats, ts, strict=True)]
        return self.of_floats(xs), tuple(xs[i] for i in self.floats), tuple(self.widened(ts))

    def slope(self) -> Any:
        """The derivative along `ts` in 64 bits."""
        with self.jax.enable_x64(True):
            g, given, ts = self._at()
            return self.jax.jit(lambda p, t: self.jax.jvp(g, p, t)[1])(given, ts)

    def difference(self) -> Any:
        """The same by a difference."""
        with self.jax.enable_x64(True):
            g, given, ts = self._at()
            step = 1e-5
            sides = [
                self.jax.jit(g)(*[x + s * step * t for x, t in zip(given, ts, strict=True)])
                for s in (1, -1)
            ]
            where = self.jax.numpy.where  # Equal infinities differ by nothing.
            return [where(a == b, 0, a - b) / (2 * step) for a, b in zip(*sides, strict=True)]

    def adjoint(self) -> Any:
        """The derivative along `ts` of a weighted sum, in both modes: a pair of the same number twice."""
        with self.jax.enable_x64(True):
            g, given, ts = self._at()
            jnp = self.jax.numpy
            _, slopes = self.jax.jvp(g, given, ts)
            weights = [
                jnp.cos(jnp.arange(v.size, dtype="float64")).reshape(v.shape) for v in slopes
            ]
            forward = sum(jnp.sum(jnp.real(v) * w) for v, w in zip(slopes, weights, strict=True))
            y, pull = self.jax.vjp(g, *given)
            back = pull([w.astype(v.dtype) for v, w in zip(y, weights, strict=True)])
            backward = sum(jnp.sum(jnp.real(b * t)) for b, t in zip(back, ts, strict=True))
            return [forward, backward]


def run(jax: Any, program: Program, scope: Any = None) -> dict[str, Any]:
    """What a program gives in each of its ways: its leaves as `leaf` has them, or the text of an error."""
    scope = scope or _scope(jax)
    found: dict[str, Any] = {}
    try:
        ways = Ways(jax, scope.function(program), program)
    except Exception as error:
        return {"made": failure(error)}
    chosen = [*program.ways, *(["loop"] if "vmap" in program.ways else [])]
    if jax.__name__ == "jax":
        chosen = [way for way in chosen if way not in LAWS]
    if not ways.floats:
        chosen = [way for way in chosen if way not in OF_FLOATS]
    if not ways.is_smooth():
        chosen = [way for way in chosen if way not in IN_64_BITS]
    if {*chosen} & {*LAWS}:
        left_out = ways.left_out()
        chosen = [way for way in chosen if way not in left_out]
    for way in chosen:
        try:
            tree = getattr(ways, way.replace(" ", "_"))()
            found[way] = [leaf(jax, v) for v in jax.tree.leaves(tree)]
        except Exception as error:
            found[way] = failure(error)
    return found


def answers(jax: Any, questions: Any) -> list[Any]:
    """What each of some programs, given as tuples, gives."""
    return [run(jax, Program(*question)) for question in questions]


@functools.cache
def _scope(jax: Any) -> Scope:
    return Scope(jax)


def leaf(jax: Any, v: Any) -> Any:
    """(dtype, weak type, elements) of a result; dtypes that NumPy can't hold as float32."""
    if isinstance(v, (str, bool, int, float, complex)) or not hasattr(v, "dtype"):
        return type(v).__name__, False, np.asarray(v)
    if jax.numpy.issubdtype(v.dtype, jax.dtypes.extended):
        return str(v.dtype), False, np.asarray(jax.random.key_data(v))
    dtype, found = str(v.dtype), np.asarray(v)
    if dtype not in np.sctypeDict:
        found = found.astype(np.float32)
    return dtype, bool(getattr(v, "weak_type", False)), found


def failure(error: BaseException) -> str:
    """An error as `Class | built-in class | first line`."""
    kinds = [c.__name__ for c in type(error).__mro__ if c.__module__ == builtins.__name__]
    return f"{type(error).__name__} | {kinds[0]} | {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}"

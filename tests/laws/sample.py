"""Sample rows: one row is one use of one primitive, and feeds every law.

A row's `call` is a Python expression over `lax`, `random`, `sparse`, `np` and its operands x, y, z, w, v, u. It is text so that
the same row can be evaluated with this library and, in a process of its own, with the reference.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from rotation import kind_of_types, runs_whole

import pellucid._machine.higher_order
import pellucid._machine.linalg
import pellucid._machine.primitives
import pellucid.lax
import pellucid.random
from pellucid._machine.ir.jaxpr import subjaxprs
from pellucid._machine.primitives.families import kind_of
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import stage
from pellucid._machine.tracing.trace import bind
from pellucid.experimental import sparse
from pellucid.random import philox, threefry

NAMES = ("x", "y", "z", "w", "v", "u", "t", "s", "r", "q")


# Operands -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand of a row: random elements in a range, given values, or a Python scalar."""

    shape: tuple[int, ...]
    dtype: Any
    low: float = -2.0
    high: float = 2.0
    values: Any = None
    python: bool = False

    def make(self, rng: np.random.Generator) -> Any:
        """The operand's value."""
        if self.python:
            return self.values
        if self.values is not None:
            return np.asarray(self.values, self.dtype).reshape(self.shape)
        kind = kind_of(self.dtype)
        if kind == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if kind in ("signed", "unsigned"):
            low = max(self.low, 0) if kind == "unsigned" else self.low
            return rng.integers(int(low), int(self.high), self.shape, endpoint=True).astype(
                self.dtype
            )
        value = rng.uniform(self.low, self.high, self.shape)
        if kind == "complex":
            value = value + 1j * rng.uniform(self.low, self.high, self.shape)
        return np.asarray(value).astype(self.dtype)

    def __str__(self) -> str:
        if self.python:
            return repr(self.values)
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


def array(
    shape: Sequence[int] = (3, 4), dtype: Any = "float32", low: float = -2.0, high: float = 2.0
) -> Operand:
    """Random elements between `low` and `high`, for complex dtypes in both parts."""
    return Operand(tuple(shape), named_dtype(dtype), low, high)


def values(elements: Any, dtype: Any = "float32") -> Operand:
    """The elements given, for edges that random numbers never meet."""
    elements = np.asarray(elements)
    return Operand(elements.shape, named_dtype(dtype), values=elements)


def python(value: Any) -> Operand:
    """A Python scalar, whose type is weak."""
    dtype = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}[type(value)]
    return Operand((), np.dtype(dtype), values=value, python=True)


def named_dtype(dtype: Any) -> np.dtype:
    """A dtype by its name, those of ml_dtypes included."""
    if isinstance(dtype, str) and hasattr(ml_dtypes, dtype):
        return np.dtype(getattr(ml_dtypes, dtype))
    return np.dtype(dtype)


# Rows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sample:
    """One row.

    `reference`: NumPy's or SciPy's function of the operands (in double precision); gives an array or a list.
    `wrt`: operands to differentiate by; by default those with floating or complex elements. () for none.
    `smooth`: whether central differences approximate the derivative at these operands (no kink, no edge).
    `has_reverse`: whether reverse mode goes through it.
    `batched`: whether the batching law applies.
    `agrees`: how the row's values compare with the reference library's: "exact", "close" (within the
        tolerance), or "no" (it has no such function). `same_text`: whether the programs' texts are equal.
    `jax_call`: the reference library's expression where it differs from `call`.
    `x64`: whether 64-bit types must be on though no operand has one.
    `platforms`: those beside the CPU that have an implementation.
    `tolerance`: relative and absolute tolerance; by default by dtype.
    `derivative_tolerance`: for central differences in double precision; `adjoint_tolerance` for the adjoint law.
    """

    call: str
    operands: tuple[Operand, ...]
    reference: Callable[..., Any] | None = None
    wrt: tuple[int, ...] | None = None
    smooth: bool = True
    has_reverse: bool = True
    batched: bool = True
    agrees: str = "exact"
    same_text: bool = True
    jax_call: str | None = None
    x64: bool = False
    platforms: tuple[str, ...] = ("cuda", "tpu")
    tolerance: float | None = None
    derivative_tolerance: float = 1e-6
    adjoint_tolerance: float = 1e-9

    def __str__(self) -> str:
        return f"{self.call} {' '.join(map(str, self.operands))}"

    @functools.cached_property
    def function(self) -> Callable[..., list[Any]]:
        """The call as a function of flat operands that gives a list."""
        return flat_function(self.call, len(self.operands), lax())

    @functools.cached_property
    def arguments(self) -> list[Any]:
        """Values of the operands, the same in every run."""
        return self.made(self.operands)

    @functools.cached_property
    def precise_arguments(self) -> list[Any]:
        """Values of the operands in double precision."""
        return self.made([precise(o) for o in self.operands])

    def made(self, operands: Iterable[Operand]) -> list[Any]:
        """Values of `operands`."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [o.make(rng) for o in operands]

    @property
    def needs_x64(self) -> bool:
        """Whether the row is about 64-bit types."""
        wide = ("float64", "int64", "uint64", "complex128")
        return self.x64 or any(o.dtype.name in wide for o in self.operands)

    @property
    def function_name(self) -> str:
        """Name of the function that the row calls."""
        return self.call.partition("(")[0]

    @property
    def kind(self) -> str:
        """What the row's types stand for; see `kind_of_types`."""
        return "wide" if self.x64 else kind_of_types(o.dtype for o in self.operands)

    @property
    def differentiated(self) -> tuple[int, ...]:
        """Indices of the operands to differentiate by."""
        if self.wrt is not None:
            return self.wrt
        return tuple(
            i for i, o in enumerate(self.operands) if kind_of(o.dtype) in ("floating", "complex")
        )

    def masks(self) -> list[tuple[bool, ...]]:
        """Which operands have a tangent: all together, and in a run that takes all of the row each alone."""
        together = tuple(j in self.differentiated for j in range(len(self.operands)))
        if not runs_whole(str(self)):
            return [together]
        alone = [tuple(i == j for j in range(len(self.operands))) for i in self.differentiated]
        return alone if together in alone else [*alone, together]

    def primitives(self) -> set[str]:
        """Names of the primitives in the row's program."""
        jaxpr, _ = stage(self.function, [type_of(x) for x in self.arguments])
        return names_in(jaxpr)


def flat_function(call: str, n_operands: int, namespace: Any) -> Callable[..., list[Any]]:
    """`call` as a function that takes operands and gives a list of results."""
    names = NAMES[:n_operands]
    scope = {"lax": namespace, "np": np, "random": pellucid.random, "sparse": sparse}
    evaluate = eval(f"lambda {', '.join(names)}: {call}", scope)

    def function(*operands: Any) -> list[Any]:
        results = evaluate(*operands)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    return function


def names_in(jaxpr: Any) -> set[str]:
    """Names of the primitives in a program and the programs within it."""
    found = set()
    for equation in jaxpr.equations:
        found.add(equation.primitive.name)
        for inner in subjaxprs(equation.params):
            found |= names_in(inner)
    return found


def precise(operand: Operand) -> Operand:
    """`operand` with elements in double precision."""
    kind = kind_of(operand.dtype)
    wide = {"floating": "float64", "complex": "complex128"}.get(kind)
    return operand if wide is None or operand.python else replace(operand, dtype=np.dtype(wide))


@functools.cache
def lax() -> SimpleNamespace:
    """All public functions of the layers of primitives, as the reference's `lax` has them."""
    return SimpleNamespace(**{
        **functions_of(pellucid._machine.primitives, pellucid._machine.higher_order),
        **vars(pellucid.lax),
        "threefry2x32": threefry.threefry2x32,
        "iota_2x32_shape": threefry.iota_2x32_shape,
        **{p.name: functools.partial(bind, p) for p in (threefry.threefry4x32_p, philox.philox2x32_p, philox.philox4x32_p)},
        "linalg": SimpleNamespace(**functions_of(pellucid._machine.linalg)),
    })  # fmt: skip


def functions_of(*packages: Any) -> dict[str, Any]:
    """Everything by name in the modules of `packages`; what a module lists comes before what it happens to have."""
    exported: dict[str, Any] = {}
    own: dict[str, Any] = {}
    imported: dict[str, Any] = {}
    for package in packages:
        for module_info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{module_info.name}")
            listed = getattr(module, "__all__", None)
            for name in listed or [n for n in vars(module) if not n.startswith("_")]:
                value = getattr(module, name)
                is_own = getattr(value, "__module__", module.__name__) == module.__name__
                kind = exported if listed else own if is_own else imported
                kind[name] = value
    return imported | own | exported


# Tables of rows -----------------------------------------------------------------------------------

FLOATS = ("float32", "bfloat16", "float64")
COMPLEXES = ("complex64", "complex128")
INTEGERS = ("int32", "uint8", "int8")


def rows(
    call: str,
    dtypes: Sequence[str] = ("float32",),
    reference: Callable[..., Any] | None = None,
    *,
    ranges: Sequence[tuple[float, float]] = ((-2.0, 2.0),),
    shapes: Sequence[Sequence[int]] = ((2, 3), ()),
    **more: Any,
) -> list[Sample]:
    """Rows for an elementwise `call` whose operands have one shape, with one range for each operand.

    The first dtype has a row for each of `shapes`, the others have one row each.
    """

    def row(dtype: str, shape: Sequence[int]) -> Sample:
        return Sample(
            call, tuple(array(shape, dtype, low, high) for low, high in ranges), reference, **more
        )

    first, *others = dtypes
    return [*(row(first, shape) for shape in shapes), *(row(dtype, (3,)) for dtype in others)]


def edges(call: str, *operands: Operand, **more: Any) -> Sample:
    """A row of special values: differences mean nothing there, and batches nothing new."""
    return Sample(call, operands, **({"smooth": False, "batched": False} | more))


@functools.cache
def families() -> dict[str, list[Sample]]:
    """All rows, by family."""
    folder = Path(__file__).parent / "samples"
    return {
        path.stem: importlib.import_module(f"tests.laws.samples.{path.stem}").samples
        for path in sorted(folder.glob("*.py"))
    }


def all_samples() -> list[Sample]:
    """All rows of all families."""
    return [sample for samples in families().values() for sample in samples]


def differentiable_samples() -> list[Sample]:
    """Rows to differentiate, one of those that are equal in double precision."""
    found: dict[Any, Sample] = {}
    for sample in all_samples():
        if sample.differentiated:
            key = (sample.call, sample.smooth, *(str(precise(o)) for o in sample.operands))
            found.setdefault(key, sample)
    return list(found.values())


def batched_samples() -> list[Sample]:
    """Rows to batch, one of those that differ only in the width of their elements."""
    found: dict[Any, Sample] = {}
    for sample in all_samples():
        if sample.batched:
            key = (sample.call, *((o.shape, kind_of(o.dtype), o.python) for o in sample.operands))
            found.setdefault(key, sample)
    return list(found.values())


def eager_samples() -> list[Sample]:
    """Rows to run one primitive at a time: of those that differ only in their operands' types, the first."""
    found: dict[str, Sample] = {}
    for sample in all_samples():
        found.setdefault(sample.call, sample)
    return list(found.values())

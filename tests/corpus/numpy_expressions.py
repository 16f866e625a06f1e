"""Expressions over the NumPy API, as (text, operands); the text's names are jnp, jax, np, x, y, z, w."""

from __future__ import annotations

import itertools
import pathlib
import zlib
from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = ("x", "y", "z", "w")


def evaluate(jax: Any, text: str, *operands: Any) -> Any:
    """The value of an expression."""
    names = {"jax": jax, "jnp": jax.numpy, "np": np, **dict(zip(NAMES, operands, strict=False))}
    return eval(text, names)


def named(text: str, operands: tuple[Any, ...]) -> str:
    """What a row is called: its expression and the types of its operands."""
    return " | ".join([text, *(f"{x.dtype}{list(x.shape)}" for x in operands)])


FAILING = frozenset(pathlib.Path(__file__).with_name("numpy_failures.txt").read_text().splitlines())
"""The names of the rows that are mistakes."""


def program_text(jax: Any, text: str, *operands: Any) -> str:
    """The program of an expression."""
    return str(jax.make_jaxpr(lambda *xs: evaluate(jax, text, *xs))(*operands))


def array(*shape: int, dtype: Any = "float32", seed: int = 0) -> np.ndarray:
    """Random elements between -2 and 2."""
    rng = np.random.default_rng(zlib.crc32(repr((shape, str(dtype), seed)).encode()))
    x = rng.uniform(-2, 2, shape)
    if np.dtype(dtype) == bool:
        return x > 0
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-2, 2, shape)
    elif np.dtype(dtype).kind == "u":
        x = abs(x)
    return np.asarray(x).astype(dtype)


def holed(*shape: int, dtype: Any = "float32") -> np.ndarray:
    """Random elements, every third of which is NaN."""
    x = array(*shape, dtype=dtype)
    x.ravel()[::3] = np.nan
    return x


# Products -----------------------------------------------------------------------------------------

_PAIRS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((4, 2, 3), (4, 3, 5)), ((2, 3), (5, 3, 4)),
    ((), (3,)), ((), ()), ((2, 3), ()), ((1, 2, 3), (4, 3, 5)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 2), (2, 2)),
    ((6, 1, 2, 3), (4, 3, 2)), ((3,), (4, 3, 2)), ((4, 2, 3), (3,)), ((4, 3), (2, 3)), ((5, 2, 3), (5, 3)),
    ((5, 3), (5, 3, 2)), ((4, 1, 3), (2, 3)),
]  # fmt: skip
_DTYPES = [
    ("int32", "int32"), ("float32", "int32"), ("bool", "bool"), ("bool", "float32"), ("complex64", "float32"),
    ("complex64", "complex64"), (BF16, "float32"), (BF16, BF16), ("float16", "float16"), ("int8", "uint8"),
    ("float16", BF16),
]  # fmt: skip
PRODUCTS: list[tuple[str, tuple[Any, ...]]] = [
    *(
        (f"jnp.{name}(x, y)", (array(*s), array(*t, seed=1)))
        for name in ("dot", "matmul", "inner", "vdot", "outer", "kron", "tensordot", "vecdot", "matvec", "vecmat")
        for s, t in _PAIRS
        if (name, s) not in (("vecdot", ()), ("kron", ())) and not (name == "vecdot" and t == ())
    ),
    *(
        (f"jnp.{name}(x, y)", (array(2, 2, dtype=s), array(2, 2, dtype=t, seed=1)))
        for name in ("dot", "matmul", "inner", "vdot", "outer", "kron", "vecdot", "matvec")
        for s, t in _DTYPES
        if (name, s) != ("kron", "bool") or t != "bool"
    ),
    *(
        (f"jnp.tensordot(x, y, {axes})", (array(2, 3, 3), array(3, 3, 2)))
        for axes in ("0", "1", "2", "3", "((0,), (2,))", "([1, 2], [0, 1])", "(-1, 0)", "((1, 0), (1, 2))", "(0, -1)",
                     "((0,), (0, 1))", "9")
    ),
    ("jnp.dot(x, y, precision='highest')", (array(2, 3), array(3, 2))),
    ("jnp.matmul(x, y, preferred_element_type=np.float32)", (array(2, 3, dtype=BF16), array(3, 2, dtype=BF16))),
    ("jnp.matmul(x, y, preferred_element_type=np.int32)", (array(2, 3, dtype="int8"), array(3, 2, dtype="int8"))),
    ("jnp.vecdot(x, y, axis=0)", (array(3, 2), array(3, 2))),
    ("jnp.vecdot(x, y, axis=1)", (array(3, 2, dtype="complex64"), array(3, 2, dtype="complex64"))),
    ("jnp.dot(2.0, 3)", ()), ("jnp.dot(2, 3)", ()), ("jnp.vdot(2.0, 3)", ()),
    ("jnp.dot(x, [1, 2])", (array(2),)), ("jnp.matmul(x, 2.0)", (array(2),)), ("jnp.dot(2.0, x)", (array(2, dtype="int32"),)),
    ("jax.grad(lambda x: jnp.matmul(x, y).sum())(x)", (array(2, 3), array(5, 3, 2))),
    ("jax.vmap(jnp.matmul, (0, None))(x, y)", (array(4, 2, 3), array(3, 2))),
    ("jax.grad(lambda y: jnp.kron(x, y).sum())(y)", (array(2, 2), array(2, 1))),
]  # fmt: skip
"""Products of all pairs of ranks and dtypes."""

# einsum -------------------------------------------------------------------------------------------

_SIZES = dict(zip("abcdefijklmnAB", itertools.cycle((2, 3, 4, 5)), strict=False)) | {
    "e": 2,
    "i": 2,
    "j": 3,
    "k": 4,
}
_NOTATIONS = [
    "ij->ij",
    "ij->ji",
    "ij->i",
    "ij->",
    "ij",
    "ji",
    "ba",
    "ii->i",
    "ii",
    "ii->",
    "iij->ij",
    "iij->ji",
    "iji->j",
    "iii->i",
    "iiij->ji",
    "ij,jk->ik",
    "ij,jk",
    "ij,jk->ki",
    "ij,kj->ik",
    "ij,ij->",
    "ij,ij->i",
    "ij,ij->ij",
    "ij,ij->ji",
    "i,i->",
    "i,j->ij",
    "i,j->ji",
    "i,j",
    "i,i",
    "bij,bjk->bik",
    "bij,bkj->bik",
    "ibj,kbj->bik",
    "bij,jk->bik",
    "bij,bjk->ik",
    "bij,cjk->bcik",
    "ab,bc,cd->ad",
    "ab,bc,cd->",
    "ab,bc,cd,de->ae",
    "abc,bd,ce->ade",
    "ab,ab,ab->ab",
    "ab,ab,ab->",
    "a,b,c->abc",
    "a,b,c->cba",
    "ii,ij->j",
    "ii,jj->ij",
    "ii,jj->",
    "iij,jk->ik",
    "ij,k->i",
    "ij,k->",
    "ij,kl->ik",
    "ij,->ij",
    ",,->",
    "->",
    "...->...",
    "...",
    "i...->...i",
    "i...->i",
    "...i->...",
    "...ij,...jk->...ik",
    "...ij,jk->...ik",
    "...i,...i",
    "...i,...j->...",
    "ab...,b->a...",
    "...ab->...ba",
    "bcid,bcjd->bcij",
    "abcd,dcba->",
    "abcd,abce->abde",
    "iij,iij->i",
    "ab,cb,db->acd",
    "abc,abc->c",
    "cba,bcd",
]


def _operands(notation: str, dtype: Any = "float32") -> tuple[np.ndarray, ...]:
    shapes = []
    for term in notation.split("->", maxsplit=1)[0].split(","):
        letters = term.replace("...", "AB")
        shapes.append(tuple(_SIZES[c] for c in letters))
    return tuple(array(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))


def _einsum(
    notation: str, *shapes: tuple[int, ...], dtype: Any = "float32", more: str = ""
) -> tuple[str, tuple[Any, ...]]:
    operands = tuple(array(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)) or _operands(
        notation, dtype
    )
    return f"jnp.einsum({', '.join([repr(notation), *NAMES[: len(operands)]])}{more})", operands


EINSUMS: list[tuple[str, tuple[Any, ...]]] = [
    *(_einsum(notation) for notation in _NOTATIONS),
    _einsum("ij,jk->ik", (2, 1), (3, 4)), _einsum("ij,ij->ij", (2, 1), (2, 3)), _einsum("ij,ij->i", (2, 1), (2, 3)),
    _einsum("i,i->", (1,), (3,)), _einsum("...ij,...jk->...ik", (1, 2, 3), (4, 3, 5)),
    _einsum("...ij,...jk->...ik", (4, 1, 2, 3), (5, 3, 5)), _einsum("...,...->...", (2, 3), (3,)),
    _einsum("...,...", (2, 1), (3,)), _einsum("ij,jk->ik", (0, 3), (3, 2)), _einsum("ij,jk->ik", (2, 0), (0, 3)),
    _einsum("ij->i", (2, 0)), _einsum("ij,jk,kl->il", (2, 3), (3, 1), (1, 4)),
    *(_einsum("ab,bc,cd->ad", more=f", optimize={o}") for o in ("True", "False", "'optimal'", "'greedy'", "[(1, 2), (0, 1)]")),
    _einsum("ab,bc->ac", more=", precision='highest'"), _einsum("ab,bc,cd->ad", more=", precision='high'"),
    _einsum("ab,bc->ac", dtype=BF16, more=", preferred_element_type=np.float32"),
    _einsum("ab->a", dtype=BF16, more=", preferred_element_type=np.float32"),
    *(_einsum(n, dtype=d) for n in ("ab,bc->ac", "ab->a", "ii->i", "ab,ab->ab") for d in (BF16, "int32", "complex64", "int8", "bool")),
    ("jnp.einsum('ij,jk', x, y)", (array(2, 3), array(3, 4, dtype="int32"))),
    ("jnp.einsum('i,->i', x, 2.0)", (array(3, dtype="int32"),)),
    ("jnp.einsum(',', 2.0, 3.0)", ()), ("jnp.einsum('', 2.0)", ()),
    ("jnp.einsum(x, [0, 1], y, [1, 2], [0, 2])", (array(2, 3), array(3, 4))),
    ("jnp.einsum(x, [0, 1], y, [1, 2])", (array(2, 3), array(3, 4))),
    ("jnp.einsum(x, [0, Ellipsis], [Ellipsis, 0])", (array(2, 3),)),
    ("jnp.einsum('i j , j k -> i k', x, y)", (array(2, 3), array(3, 4))),
]  # fmt: skip
"""Notations with every feature, each in the reference's order of operations."""

BAD_EINSUMS: list[tuple[str, tuple[Any, ...]]] = [
    _einsum("ij,jk->ik", (2, 3), (4, 5)), _einsum("ii->i", (2, 3)), _einsum("ij", (2,)), _einsum("ij,jk", (2, 3)),
    _einsum("ij->ijk", (2, 3)), _einsum("ij->ii", (2, 3)), _einsum("i.j->i", (2, 3)), _einsum("i->i", (2,), (2,)),
    _einsum("ab,bc,cd->ad", more=", optimize=[(0, 1, 2)]"), _einsum("ab,bc,cd->ad", more=", optimize='unheard of'"),
    ("jnp.einsum('i,i', x, [1, 2, 3])", (array(3),)),
]  # fmt: skip
"""Notations and operands that don't fit."""

_DOT = "jax.lax.dot_general(x, y, (((1,), (0,)), ((), ())))"
_CONV = "jax.lax.conv_general_dilated(x, y, {})"
_CHANNELS_LAST = "(1, 1), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC')"
_WINDOW = "jax.lax.reduce_window(x, {}, jax.lax.{}, (1, 3), (1, 2), 'SAME')"
PYTHON_NUMBERS: list[tuple[str, tuple[Any, ...]]] = [
    (f"jax.jit(lambda x, y: {text})({numbers})", ())
    for text in (
        "x // y",
        "x % y",
        "divmod(x, y)",
        "jnp.floor_divide(x, y)",
        "jnp.heaviside(x, y)",
        "jnp.hypot(x, y)",
    )
    for numbers in ("7, -2", "7.5, -2.0", "7, 2.0")
]
"""Weakly typed operands, whose results are weakly typed."""

TRANSFORMED: list[tuple[str, tuple[Any, ...]]] = [
    (f"jax.grad(lambda x, y: {_DOT}.sum(), (0, 1))(x, y)", (array(2, 3), array(3, 4))),
    (
        "jax.grad(lambda x, y: jax.lax.dot_general(x, y, (((3, 1), (0, 2)), ((0,), (3,)))).sum(), (0, 1))(x, y)",
        (array(2, 3, 4, 5), array(5, 6, 3, 2)),
    ),
    (f"jax.jvp(lambda x, y: {_DOT}, (x, y), (x, y))", (array(2, 3), array(3, 4))),
    (f"jax.vmap(lambda x, y: {_DOT}, (1, None))(x, y)", (array(2, 5, 3), array(3, 4))),
    (f"jax.vmap(lambda x, y: {_DOT}, (None, 1))(x, y)", (array(2, 3), array(3, 5, 4))),
    (f"jax.vmap(lambda x, y: {_DOT}, (1, 2))(x, y)", (array(2, 5, 3), array(3, 4, 5))),
    (
        f"jax.grad(lambda x, y: {_CONV.format('(2, 1), [(1, 2), (0, 1)], (1, 2), (2, 1)')}.sum(), (0, 1))(x, y)",
        (array(2, 4, 9, 9), array(6, 4, 3, 3)),
    ),
    (
        f"jax.grad(lambda x, y: {_CONV.format(_CHANNELS_LAST)}.sum(), (0, 1))(x, y)",
        (array(2, 9, 9, 4), array(3, 3, 4, 6)),
    ),
    ("jax.grad(lambda x: jax.lax.reduce_max(x, (1,)).sum())(x)", (array(2, 3),)),
    ("jax.jvp(lambda x: jax.lax.reduce_min(x, (0, 2)), (x,), (x,))", (array(2, 3, 4),)),
    ("jax.grad(lambda x: jax.lax.cumsum(x, 1, True).sum())(x)", (array(2, 5),)),
    (f"jax.grad(lambda x: {_WINDOW.format('-np.inf', 'max')}.sum())(x)", (array(2, 5),)),
    (f"jax.grad(lambda x: {_WINDOW.format('0.0', 'add')}.sum())(x)", (array(2, 5),)),
    ("jax.grad(lambda x: jnp.matmul(x, y).sum())(x)", (array(2, 3), array(5, 3, 2))),
    (
        "jax.grad(lambda x: jnp.einsum('ij,jk,kl->il', x, y, z).sum())(x)",
        (array(2, 3), array(3, 2), array(2, 2)),
    ),
]
"""Derivatives and batches of contractions and reductions, whose programs are the reference's, too."""

# Reductions ---------------------------------------------------------------------------------------

_REDUCTIONS = (
    "sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "nansum", "nanprod", "nanmax", "nanmin", "nanmean",
    "nanvar", "nanstd", "count_nonzero", "ptp",
)  # fmt: skip
_WITH_WHERE = [n for n in _REDUCTIONS if n not in ("count_nonzero", "ptp")]
_WITH_INITIAL = ("sum", "prod", "max", "min", "nansum", "nanprod", "nanmax", "nanmin")
_WITH_DTYPE = ("sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar")
REDUCTIONS: list[tuple[str, tuple[Any, ...]]] = [
    *(
        (f"jnp.{name}(x, {options})", (array(2, 3, 4),))
        for name in _REDUCTIONS
        for options in ("", "axis=0", "axis=(0, -1)", "axis=()", "axis=1, keepdims=True", "keepdims=True", "axis=(0, 0)")
    ),
    *(
        (f"jnp.{name}(x, axis=1)", (array(2, 3, dtype=dtype),))
        for name in _REDUCTIONS
        for dtype in ("bool", "int8", "uint8", "int32", "float16", BF16, "complex64")
    ),
    *((f"jnp.{name}({x})", ()) for name in _REDUCTIONS for x in ("2.0", "2", "True", "[1, 2]", "jnp.asarray(2.0)")),
    *((f"jnp.{name}(x, axis=0)", (x,)) for name in _REDUCTIONS for x in (array(0, 3), array(3, 0), holed(4, 3))),
    *((f"jnp.{name}(x)", (np.array([np.nan, np.nan], "float32"),)) for name in _REDUCTIONS),
    *((f"jnp.{name}(x, out=x)", (array(2),)) for name in _REDUCTIONS),
    *(
        (f"jnp.{name}(x, {'initial=1.0, ' if name in ('max', 'min', 'nanmax', 'nanmin') else ''}where=y, {options})", operands)
        for name in _WITH_WHERE
        for options, operands in (
            ("", (array(2, 3), array(2, 3, dtype="bool"))),
            ("axis=1", (array(2, 3), array(3, dtype="bool"))),
            ("axis=0, keepdims=True", (array(2, 3), array(2, 1, dtype="bool"))),
            ("", (array(2, 3), array(2, 3))),
        )
    ),
    *((f"jnp.{name}(x, where=True)", (array(2, 3),)) for name in _WITH_WHERE),
    *(
        (f"jnp.{name}(x, axis=0, initial={initial})", (x,))
        for name in _WITH_INITIAL
        for initial in ("1.5", "1", "np.ones(3)")
        for x in (array(2, 3), array(2, 3, dtype="int32"), array(0, 3))
    ),
    *(
        (f"jnp.{name}(x, axis=0, dtype={dtype})", (x,))
        for name in _WITH_DTYPE
        for dtype in ("np.float16", "'bfloat16'", "np.complex64", "float")
        for x in (array(2, 3), array(2, 3, dtype="int32"), array(2, 3, dtype=BF16))
    ),
    *((f"jnp.{name}(x, dtype={dtype})", (array(2, 3),)) for name in ("sum", "prod", "mean") for dtype in ("np.int32", "np.int8")),
    ("jnp.sum(x, dtype=bool)", (array(2, 3),)), ("jnp.prod(x, dtype=bool)", (array(2, 3),)),
    *(
        (f"jnp.{name}(x, axis=0, {options})", (array(4, 3),))
        for name in ("var", "std", "nanvar", "nanstd")
        for options in ("ddof=1", "ddof=4", "ddof=5", "ddof=1, keepdims=True", "dtype=np.float16, ddof=1")
    ),
    ("jnp.var(x, correction=1)", (array(4, 3),)), ("jnp.std(x, correction=1, ddof=1)", (array(4, 3),)),
    ("jnp.var(x, mean=y, axis=0)", (array(4, 3), array(1, 3))), ("jnp.nanvar(x, mean=y, axis=0)", (holed(4, 3), array(1, 3))),
    ("jnp.var(x, axis=0, where=y, ddof=1)", (array(4, 3), array(4, 3, dtype="bool"))),
    ("jnp.var(x, dtype=np.float32)", (array(3, dtype="complex64"),)),
    ("jax.jit(lambda x, n: jnp.var(x, ddof=n))(x, 1)", (array(4, 3),)),
    ("jnp.sum(x, promote_integers=False)", (array(4, dtype="int8"),)), ("jnp.sum(x, promote_integers=False)", (array(4, dtype="bool"),)),
    *((f"jnp.{name}(x)", (np.array([np.inf, 1.0, -np.inf], "float32"),)) for name in _REDUCTIONS),
    *((f"jax.grad(lambda x: jnp.{name}(x))(x)", (array(2, 3),)) for name in ("sum", "prod", "max", "mean", "var", "std", "nansum", "ptp")),
    *((f"jax.vmap(lambda x: jnp.{name}(x, axis=0))(x)", (array(2, 3, 4),)) for name in ("sum", "max", "var", "all", "nanmean")),
]  # fmt: skip
"""Reductions of every kind, along all sorts of axes, with every option."""

_POSITIONS = ("argmax", "argmin", "nanargmax", "nanargmin")
_CUMULATIVE = ("cumsum", "cumprod", "nancumsum", "nancumprod")
POSITIONS: list[tuple[str, tuple[Any, ...]]] = [
    *(
        (f"jnp.{name}(x, {options})", (array(2, 3, 4),))
        for name in _POSITIONS
        for options in ("", "axis=0", "axis=-1", "keepdims=True", "axis=1, keepdims=True", "axis=5", "axis=(0, 1)")
    ),
    *((f"jnp.{name}(x)", (array(2, 3, dtype=d),)) for name in _POSITIONS for d in ("bool", "int8", "uint32", "float16", BF16)),
    *((f"jnp.{name}(x, axis=0)", (holed(4, 3),)) for name in _POSITIONS),
    *((f"jnp.{name}(x)", (x,)) for name in _POSITIONS for x in (np.full(2, np.nan, "float32"), array(0), array())),
    *(
        (f"jnp.{name}(x, {options})", (array(2, 3),))
        for name in _CUMULATIVE
        for options in ("", "axis=0", "axis=-1", "dtype=np.float16", "dtype=np.int32", "axis=5", "axis=(0, 1)")
    ),
    *((f"jnp.{name}(x, axis=1)", (array(2, 3, dtype=d),)) for name in _CUMULATIVE for d in ("bool", "int8", "float16", BF16, "complex64")),
    *((f"jnp.{name}(x, axis=0)", (holed(4, 3),)) for name in _CUMULATIVE),
    *((f"jnp.{name}({x})", ()) for name in _CUMULATIVE for x in ("2.0", "[1, 2]", "jnp.asarray(2)")),
    *(
        (f"jnp.{name}(x{options})", (x,))
        for name in ("cumulative_sum", "cumulative_prod")
        for options, x in (
            ("", array(3)), ("", array(2, 3)), (", axis=1", array(2, 3)), (", include_initial=True", array(3)),
            (", axis=0, include_initial=True, dtype=np.int32", array(2, 3)), ("", array(3, dtype="int8")),
            ("", array(3, dtype="bool")), ("", array()),
        )
    ),
    *(
        (f"jnp.average(x{options})", operands)
        for options, operands in (
            ("", (array(2, 3),)), (", axis=0", (array(2, 3, dtype="int32"),)), (", axis=0, weights=y", (array(2, 3), array(2))),
            (", weights=y", (array(2, 3), array(2, 3))), (", axis=1, weights=y, returned=True", (array(2, 3), array(3))),
            (", axis=1, returned=True, keepdims=True", (array(2, 3),)), (", axis=(0, 1), weights=y", (array(2, 3, 4), array(2, 3))),
            (", axis=(1, 0), weights=y", (array(2, 3, 4), array(3, 2))), (", weights=y", (array(2, 3), array(3))),
            (", axis=0, weights=y", (array(2, 3), array(3))), (", axis=0", (array(2, 3, dtype=BF16),)),
            (", axis=0, weights=y", (array(2, 3, dtype="complex64"), array(2))),
        )
    ),
    ("jnp.trace(x)", (array(3, 3),)), ("jnp.trace(x, 1)", (array(3, 4, dtype="int8"),)), ("jnp.trace(x, -1, 1, 2)", (array(3, 4, 2),)),
    ("jnp.allclose(x, x)", (array(3),)), ("jnp.array_equal(x, x)", (array(3),)), ("jnp.array_equal(x, x, equal_nan=True)", (holed(3),)),
    ("jnp.array_equal(x, y)", (array(3), array(2))), ("jnp.array_equiv(x, y)", (np.ones((2, 3), "float32"), np.ones(3, "float32"))),
]  # fmt: skip
"""Positions of extrema, cumulative reductions, averages, comparisons of whole arrays."""

"""Sums of products in Einstein's notation."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    Ints,
    ShapeError,
    Symbol,
    UnsupportedError,
    cached,
    dtypes,
    public_functions,
)
from pellucid._machine.ir import Operands
from pellucid._machine.primitives.contraction import dot_general
from pellucid._machine.primitives.creation import broadcasted_iota, zeros
from pellucid._machine.primitives.logical import bitwise_and, eq, select
from pellucid._machine.primitives.movement import broadcast_in_dim, reduce_sum, squeeze, transpose
from pellucid._machine.primitives.precision import PrecisionLike, preferred_dtype
from pellucid._machine.primitives.reduction import reduce_or
from pellucid._machine.primitives.reshard import with_out_sharding
from pellucid._machine.tracing import operand_lines, type_of
from pellucid._machine.xla.arrays import Array

from .annotations import OutSharding
from .compiled import numpy_function
from .promotion import aval_of, convert, number_type

Shape = tuple[int, ...]


# Notation -----------------------------------------------------------------------------------------


class Notation(NamedTuple):
    """Subscripts with a letter for each axis: `inputs` of the operands, `output` of the result."""

    inputs: tuple[str, ...]
    output: str

    def text(self) -> str:
        """The notation as a string."""
        return f"{','.join(self.inputs)}->{self.output}"


def parse(subscripts: str, shapes: Sequence[Shape]) -> Notation:
    """The notation of `subscripts` for operands of `shapes`; letters replace each ellipsis.

    Without an arrow, the result has the ellipsis, then the letters that occur once, in alphabetical order.
    Raises ArgumentValueError for malformed subscripts, ShapeError where they don't fit the operands.
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    for term in (*terms, right):
        letters = term.replace("...", "", 1)
        if set(letters) & set(".->"):
            raise ArgumentValueError(
                "einsum: subscripts must be letters and commas, with an ellipsis ('...') at most once for each operand.",
                got=f"subscripts: {subscripts!r}",
            )
    if len(terms) != len(shapes):
        raise ArgumentValueError(
            f"einsum got subscripts for {len(terms)} operands, and {len(shapes)} operands.",
            got=f"subscripts: {subscripts!r}",
        )
    counts = []
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        has_ellipsis = "..." in term
        count = len(shape) - len(term) + 3 * has_ellipsis
        if count < 0 or (count and not has_ellipsis):
            raise ShapeError(
                f"einsum: subscripts {term!r} name {len(term.replace('...', ''))} axes of an operand of rank {len(shape)}.",
                got=[f"subscripts: {subscripts!r}", f"operand {i}: shape {shape}"],
            )
        counts.append(count)
    used = set(text)
    unused = (
        letter for letter in map(_opt_einsum().get_symbol, range(10**6)) if letter not in used
    )
    ellipsis = "".join(next(unused) for _ in range(max(counts, default=0)))
    inputs = tuple(
        [
            term.replace("...", ellipsis[len(ellipsis) - count :])
            for term, count in zip(terms, counts, strict=True)
        ]
    )
    if arrow:
        output = right.replace("...", ellipsis)
    else:
        joined = "".join(inputs)
        once = sorted(c for c in set(joined) if joined.count(c) == 1 and c not in ellipsis)
        output = ellipsis + "".join(once)
    notation = Notation(inputs, output)
    _check(notation, shapes, subscripts)
    return notation


def _check(notation: Notation, shapes: Sequence[Shape], subscripts: str) -> None:
    """Raise unless the result's letters are known and each letter has one size (or size 1)."""
    got = f"subscripts: {subscripts!r}"
    sizes: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(notation.inputs, shapes, strict=True)):
        operand_sizes: dict[str, int] = {}
        for letter, size in zip(term, shape, strict=True):
            # Within one operand, axes of one letter must agree; between operands, those of size 1 are stretched.
            letter_size = sizes.get(letter, 1)
            if operand_sizes.setdefault(letter, size) != size or 1 != letter_size != size != 1:
                raise ShapeError(
                    f"einsum: letter {letter!r} stands for axes of unlike sizes, {letter_size} and {size}.",
                    got=[got, f"operand {i}: shape {shape}"],
                )
            sizes[letter] = size if letter_size == 1 else letter_size
    for letter in notation.output:
        if letter not in sizes:
            raise ArgumentValueError(
                f"einsum: no operand has the result's letter {letter!r}.", got=got
            )
    if len(set(notation.output)) != len(notation.output):
        raise ArgumentValueError("einsum: the result has a letter twice.", got=got)


def _to_text_form(first: ArrayLike, rest: Sequence[Any]) -> tuple[str, list[Any]]:
    """(subscripts, operands) from operand, its labels, operand, its labels, ..., labels of the result."""
    items = [first, *rest]
    n_operands = len(items) // 2
    letters: dict[Any, str] = {}
    symbol = _opt_einsum().get_symbol

    def text(labels: Ints) -> str:
        if not isinstance(labels, (list, tuple)):
            raise ArgumentTypeError(
                "einsum without a string needs each operand followed by a list of its axes' labels.",
                got=f"got {type(labels).__name__}",
            )
        return "".join(
            "..." if label is Ellipsis else letters.setdefault(label, symbol(len(letters)))
            for label in labels
        )

    inputs = ",".join(text(items[2 * i + 1]) for i in range(n_operands))
    notation = f"{inputs}->{text(items[-1])}" if len(items) % 2 else inputs
    return notation, [items[2 * i] for i in range(n_operands)]


def _canonical_arguments(subscripts: Any, operands: Operands) -> tuple[str, list[Any]]:
    """(subscripts, operands) from either form of einsum's arguments."""
    return (
        (subscripts, list(operands))
        if isinstance(subscripts, str)
        else _to_text_form(subscripts, operands)
    )


# Order of contractions ----------------------------------------------------------------------------


class ContractionStep(NamedTuple):
    """One contraction: positions of operands, which leave the list (the result is appended), letters summed, letters
    of the result.
    """

    operands: tuple[int, ...]
    summed: str
    result: str


def _opt_einsum() -> Any:
    """The package opt_einsum, imported at the first call."""
    return importlib.import_module("opt_einsum")


def _contract_path(
    notation: Notation, shapes: Sequence[Shape], optimize: Any
) -> tuple[list[tuple[int, ...]], Any]:
    """(path: the positions of each contraction's operands; opt_einsum's report)."""
    if optimize is True:
        optimize = "optimal"
    elif optimize is False:  # the first two operands each time, without a search
        optimize = [(0, 1)] * (len(shapes) - 1) or [(0,)]
    elif optimize is None:
        optimize = "auto"
    stand_ins = defaultdict(lambda: SIZE_OF_SYMBOLS)
    shapes_of_numbers = [
        tuple([size.evaluate(stand_ins) if isinstance(size, Symbol) else size for size in shape])
        for shape in shapes
    ]
    return _opt_einsum().contract_path(
        notation.text(), *shapes_of_numbers, shapes=True, optimize=optimize
    )


def _path(notation: Notation, shapes: Sequence[Shape], optimize: Any) -> Sequence[tuple[int, ...]]:
    if len(shapes) <= 2:
        return [tuple(range(len(shapes)))]
    return _contract_path(notation, shapes, optimize)[0]


def steps(notation: Notation, path: Sequence[tuple[int, ...]]) -> tuple[ContractionStep, ...]:
    """The contractions along `path`. Letters of a product keep the order in which its operands have them."""
    terms = list(notation.inputs)
    contractions = []
    for number, indices in enumerate(path):
        positions = tuple(sorted(indices, reverse=True))
        chosen = [terms.pop(i) for i in positions]
        present = "".join(chosen)
        needed = set(notation.output).union(*terms)
        summed = "".join(sorted(set(present) - needed))
        free = dict.fromkeys(c for c in present if c in needed)
        result = notation.output if number == len(path) - 1 else "".join(free)
        terms.append(result)
        contractions.append(ContractionStep(positions, summed, result))
    return tuple(contractions)


SIZE_OF_SYMBOLS = 64
"""The size assumed for symbolic dimensions while a contraction path is searched: its costs need numbers."""


@cached(4096)
def _plan(
    subscripts: str, shapes: tuple[Shape, ...], optimize: Any
) -> tuple[Notation, tuple[ContractionStep, ...]]:
    notation = parse(subscripts, shapes)
    return notation, steps(notation, _path(notation, shapes, optimize))


def _hashable(optimize: Any) -> Any:
    """`optimize`, which may be a list of pairs, as a cache key."""
    if isinstance(optimize, (list, tuple)):
        return tuple([tuple(pair) for pair in optimize])
    return optimize


# Contraction --------------------------------------------------------------------------------------


@numpy_function(static=("notation", "plan", "precision", "preferred", "product"))
def _einsum(
    operands: Operands, notation: Notation, plan: tuple[ContractionStep, ...], precision: PrecisionLike, preferred: np.dtype | None,
    product: Callable[..., Any],
) -> Any:  # fmt: skip
    avals = [type_of(x) for x in operands]
    dtype, weak_type = dtypes.promote(tuple([(a.dtype, a.weak_type) for a in avals]))
    if preferred is not None:
        dtype, weak_type = preferred, False
    terms = list(zip(operands, notation.inputs, strict=True))
    for step in plan:
        chosen = [terms.pop(i) for i in step.operands]
        if len(chosen) == 1:
            [(x, letters)] = chosen
            x, letters = _sum_letters(x, letters, step.summed, dtype)
            x, letters = _diagonals(x, letters, step.result, dtype)
        else:
            multiply = functools.partial(product, precision=precision, preferred_element_type=dtype)
            x, letters = _contract_pair(chosen, step, multiply, dtype)
        terms.append((transpose(x, [letters.index(c) for c in step.result]), step.result))
    [(result, _)] = terms
    return convert(result, type_of(result), dtype, weak_type)


def _contract_pair(
    chosen: Any, step: ContractionStep, multiply: Callable[..., Any], dtype: Any
) -> tuple[Any, str]:
    """(the contraction of two operands with letters, its letters); sums have dtype `dtype`."""
    (lhs, left), (rhs, right) = chosen
    lhs, left = _drop_stretched_axes(lhs, left, rhs, right)
    rhs, right = _drop_stretched_axes(rhs, right, lhs, left)
    lhs, left = _sum_letters(lhs, left, [c for c in step.summed if c not in right], dtype)
    rhs, right = _sum_letters(rhs, right, [c for c in step.summed if c not in left], dtype)
    lhs, left = _diagonals(lhs, left, step.result + right, dtype)
    rhs, right = _diagonals(rhs, right, step.result + left, dtype)
    batch = [c for c in step.result if c in left and c in right]
    summed = [c for c in step.summed if c in left and c in right]
    (left_summed, right_summed), (left_batch, right_batch) = (
        [tuple([letters.index(c) for c in names]) for letters in (left, right)]
        for names in (summed, batch)
    )
    left_rest = [c for c in left if c not in summed and c not in batch]
    right_rest = [c for c in right if c not in summed and c not in batch]
    # Operands are exchanged if that spares a transposition.
    if "".join([*batch, *right_rest, *left_rest]) == step.result:
        product = multiply(rhs, lhs, ((right_summed, left_summed), (right_batch, left_batch)))
        return product, step.result
    product = multiply(lhs, rhs, ((left_summed, right_summed), (left_batch, right_batch)))
    return product, "".join([*batch, *left_rest, *right_rest])


def _drop_stretched_axes(
    x: ArrayLike, letters: str, other: ArrayLike, other_letters: str
) -> tuple[Any, str]:
    """`x` without axes of size 1 whose letter is a longer axis of the other operand, and its remaining letters."""
    shape = type_of(x).shape
    others = dict(zip(other_letters, type_of(other).shape, strict=True))
    axes = [i for i, c in enumerate(letters) if shape[i] == 1 != others.get(c, 1)]
    return squeeze(x, axes), "".join(c for i, c in enumerate(letters) if i not in axes)


def _sum_letters(x: ArrayLike, letters: str, names: Sequence[str], dtype: Any) -> tuple[Any, str]:
    """`x` summed over those letters of `names` that occur once in `letters`, and its remaining letters."""
    axes = [letters.index(c) for c in names if letters.count(c) == 1]
    if not axes:
        return x, letters
    return _sum_along(x, axes, dtype), "".join(c for i, c in enumerate(letters) if i not in axes)


def _sum_along(x: ArrayLike, axes: Sequence[int], dtype: np.dtype | None) -> Any:
    x = convert(x, type_of(x), dtype)  # bools and short integers would overflow in their own dtype
    return reduce_or(x, axes) if dtype == np.bool_ else reduce_sum(x, axes)


def _diagonals(x: ArrayLike, letters: str, result_letters: str, dtype: Any) -> tuple[Any, str]:
    """`x` with the axes of each repeated letter replaced by their diagonal, or by its sum if the letter isn't in
    `result_letters`; and its letters.
    """
    for letter in dict.fromkeys(letters):
        axes = [i for i, c in enumerate(letters) if c == letter]
        if len(axes) == 1:
            continue
        aval = type_of(x)
        x = select(_diagonal_mask(aval.shape, axes), x, zeros(aval))
        gone = axes[:-1] if letter in result_letters else axes
        x = _sum_along(x, gone, dtype)
        letters = "".join(c for i, c in enumerate(letters) if i not in gone)
    return x, letters


def _diagonal_mask(shape: Shape, axes: Sequence[int]) -> Any:
    """A mask of `shape`: whether the indices along `axes`, which have one size, are equal."""
    square = tuple([shape[a] for a in axes])
    indices = [broadcasted_iota(np.uint32, square, i) for i in range(len(axes))]
    pairs = [eq(a, b) for a, b in itertools.pairwise(indices)]
    return broadcast_in_dim(functools.reduce(bitwise_and, pairs), shape, axes)


# Public functions ---------------------------------------------------------------------------------


def einsum(
    subscripts: str | ArrayLike,
    /,
    *operands: ArrayLike | Ints,
    out: None = None,
    optimize: str | bool | Sequence[Ints] = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Callable[..., Any] = dot_general,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums of products as Einstein's notation writes them: `"ij,jk->ik"` is a product of matrices.

    A letter that the result lacks is summed; one that an operand has twice takes its diagonal; an ellipsis stands
    for axes that are broadcast. `optimize` orders the contractions: True, False (left to right), a strategy of opt_einsum
    or a list of pairs. Labels may also be lists after each operand. Raises ShapeError where sizes don't fit.

    >>> einsum("ij,j->i", np.ones((2, 3), np.float32), np.ones(3, np.float32))
    Array([3., 3.], dtype=float32)
    """
    if out is not None:
        raise UnsupportedError(
            "jnp.einsum can't write into `out`: arrays don't change.", do="Use the result."
        )
    text, arrays = _canonical_arguments(subscripts, operands)
    shapes = tuple([number_type("einsum", x, i).shape for i, x in enumerate(arrays)])
    try:
        notation, plan = _plan(text, shapes, _hashable(optimize))
    except ShapeError as error:
        error.state_got([*error.got[:1], *operand_lines(arrays)[:4]])
        raise
    if any(len(step.operands) > 2 for step in plan):
        raise UnsupportedError(
            "einsum contracts two operands at a time.",
            got=f"optimize: {optimize!r}",
            do="Name pairs only.",
        )
    precision = tuple(precision) if isinstance(precision, list) else precision
    preferred = preferred_dtype(preferred_element_type, "einsum")

    def contract(*xs: Any) -> Any:
        return _einsum(xs, notation, plan, precision, preferred, _dot_general)

    return with_out_sharding(out_sharding, contract, *arrays)


def einsum_path(
    subscripts: str | ArrayLike, /, *operands: Any, optimize: str | bool | Sequence[Ints] = "auto"
) -> tuple[list[Any], Any]:
    """The pairs in which `einsum` contracts its operands, and opt_einsum's report on their cost.

    Operands matter by their shapes only. `optimize`: a name of opt_einsum's search, a path, True for the optimal one,
    or False for the order of the operands.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for subscripts that don't fit
    the shapes, ArgumentValueError for a letter of the result that no operand has, KeyError of opt_einsum for a search
    that it doesn't have.

    >>> einsum_path("ij,jk,kl->il", np.ones((2, 9)), np.ones((9, 9)), np.ones((9, 1)))[0]
    [(1, 2), (0, 1)]
    """
    text, arrays = _canonical_arguments(subscripts, operands)
    shapes = tuple([aval_of("einsum_path", x, i).shape for i, x in enumerate(arrays)])
    notation = parse(text, shapes)
    return _contract_path(notation, shapes, optimize)


__all__ = ["einsum", "einsum_path"]

public_functions(__all__, globals())

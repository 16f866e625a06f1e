"""The notation for primitives' factors, which say which dimensions of operands and results are sharded together.

`sharding/explicit_types.py` defines the words and marks, and derives shardings from them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pellucid._machine.base import Ints, strict_zip

Words = Sequence[str]
"""For each dimension of an array, the factors of which it is the product."""
Factors = (
    tuple[Sequence[Words], Sequence[Words]]
    | tuple[Sequence[Words], Sequence[Words], Mapping[str, int]]
)
"""(words of the operands, words of the results, sizes of factors that aren't a whole dimension of an operand)."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def words(n: int, start: int = 0, mark: str = "") -> list[str]:
    """Names of `n` factors, starting with the one numbered `start`, each followed by `mark`.

    >>> words(2), words(1, 2, "!")
    (['a', 'b'], ['c!'])
    """
    return [
        f"{_LETTERS[i % 26]}{i // 26 if i >= 26 else ''}{mark}" for i in range(start, start + n)
    ]


def with_mark(dims: Words, at: Collection[int], mark: str) -> list[str]:
    """`dims` with `mark` after the factors of the dimensions `at`.

    >>> with_mark(["a", "b"], [1], "!")
    ['a', 'b!']
    """
    return [word + mark if i in at else word for i, word in enumerate(dims)]


def pointwise(avals: Sequence[Any], results: Sequence[Any]) -> Factors:
    """Factors of an elementwise operation; scalars broadcast to any shape, and dimensions of size 1 to any size."""
    shape = results[0].shape
    dims = words(len(shape))

    def factor_words(aval: Any) -> list[str]:
        sizes = zip(dims, aval.shape, shape, strict=False)
        return [word if size == full else "1" for word, size, full in sizes]

    return [factor_words(aval) for aval in avals], [dims] * len(results)


def alike(
    avals: Sequence[Any], results: Sequence[Any], mark: str = "", at: Collection[int] | None = None
) -> tuple[list[Words], list[Words]]:
    """Factors of an operation whose operands have the dimensions of its results, or are scalars.

    Factors of the dimensions `at`, by default of all, have a mark.
    """
    dims = words(avals[0].ndim)
    dims = with_mark(dims, range(len(dims)) if at is None else at, mark)
    return [dims if aval.ndim else () for aval in avals], [dims] * len(results)


def without_dims(dims: Words, gone: Collection[int]) -> list[str]:
    """`dims` without those at `gone`."""
    return [word for i, word in enumerate(dims) if i not in gone]


def regrouping(old: Ints, new: Ints) -> Factors:
    """Factors of a reshape in row-major order, from shape `old` to `new`.

    From the major end, the greatest common divisor of what remains of both dimensions is a factor. If it is 1, no
    factor up to the next common boundary can be sharded. Dimensions of size 1 without a counterpart have no factors.

    >>> regrouping((8, 4), (2, 16))
    ([['(a b)', 'c']], [['a', '(b c)']], {'a': 2, 'b': 4})
    >>> regrouping((6, 4), (8, 3))
    ([['(a b!)', 'd!']], [['(a c!)', 'e!']], {'a': 2, 'b': 3, 'c': 4})
    """
    dims: tuple[list[list[str]], list[list[str]]] = [[] for _ in old], [[] for _ in new]
    sizes: dict[str, int] = {}

    for i, j, size in _align_factors(old, new):
        [name] = words(1, len(sizes), "!" if i is None or j is None else "")
        sizes[name.rstrip("!")] = size
        if i is not None:
            dims[0][i].append(name)
        if j is not None:
            dims[1][j].append(name)
    shared = {
        f.rstrip("!") for side in dims for factors in side if len(factors) > 1 for f in factors
    }
    shared -= {factors[0].rstrip("!") for factors in dims[0] if len(factors) == 1}
    return (
        [[*map(_word, dims[0])]],
        [[*map(_word, dims[1])]],
        {name: sizes[name] for name in sizes if name in shared},
    )


def _word(factors: Sequence[str]) -> str:
    return f"({' '.join(factors)})" if len(factors) > 1 else factors[0] if factors else "1"


def _align_factors(old: Ints, new: Ints) -> Iterator[tuple[int | None, int | None, int]]:
    """(dimension of `old`, dimension of `new`, size) of each factor, from the major end; None if it is in only one of
    them.
    """
    i = j = 0
    if 0 in old:  # without elements, dimensions correspond only if their sizes are equal
        dims = [[dim for dim, size in enumerate(shape) if size != 1] for shape in (old, new)]
        if [old[i] for i in dims[0]] == [new[j] for j in dims[1]]:
            yield from ((i, j, old[i]) for i, j in strict_zip(*dims))
        else:
            yield from ((i, None, size) for i, size in enumerate(old))
            yield from ((None, j, size) for j, size in enumerate(new))
        return
    while i < len(old) and j < len(new):
        a, b = old[i], new[j]  # the remaining parts of both
        if (a == 1) != (b == 1):
            i, j = i + (a == 1), j + (b == 1)
            continue
        if a == b == 1:
            yield i, j, 1
        while a > 1 or b > 1:
            if a == 1:
                i, a = i + 1, old[i + 1]
            elif b == 1:
                j, b = j + 1, new[j + 1]
            elif (size := a if a == b else math.gcd(a, b)) > 1:
                yield i, j, size
                a, b = a // size, b // size
            else:
                yield i, None, a
                yield None, j, b
                while a != b:  # up to the next common boundary
                    if a < b:
                        i += 1
                        a *= old[i]
                        yield i, None, old[i]
                    else:
                        j += 1
                        b *= new[j]
                        yield None, j, new[j]
                a = b = 1
        i, j = i + 1, j + 1


def batched_factors(ranks: Ints, n_operands: int, batch_ndim: int) -> Factors:
    """Factors for operands and results of these ranks: the leading axes are shared, the others can't be sharded."""
    batch = words(batch_ndim)
    dims: list[list[str]] = []
    start = batch_ndim
    for rank in ranks:
        whole = words(rank - batch_ndim, start, "!")
        start += len(whole)
        dims.append([*batch, *whole])
    return dims[:n_operands], dims[n_operands:]

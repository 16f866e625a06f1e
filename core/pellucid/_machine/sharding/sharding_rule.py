"""Sharding rules of user-defined operations: which dimensions of operands and results are sharded together.

A factor is an index shared by several dimensions, as in einsum. Shardy shards all dimensions of a factor equally.
Source: Shardy, attribute `sdy.op_sharding_rule`.
"""

# Arguments of users are checked, also where annotations exclude other types.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Self

from pellucid._machine.base import Names, Shape, strict_zip

from .errors import ShardingArgumentError

BATCHING = "…"
"""Placeholder for any number of leading dimensions; `…1` is a separate group from `…`."""

_FACTOR = re.compile(r"[^\W\d_]\w*")
_GROUP = re.compile(rf"{BATCHING}\d*")
_WORD = re.compile(rf"\(([^()]*)\)|({_GROUP.pattern}|\w+|\S)")
"""Factors in brackets, or a single word."""
_KINDS = ("reduction_factors", "need_replication_factors", "permutation_factors")


class CompoundFactor(Names):
    """Two or more factors that share one dimension, major first.

    Raises: ShardingArgumentError for anything that isn't a factor: a letter, followed by letters, digits and underscores.

    >>> CompoundFactor("b", "c")
    ('b', 'c')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> Self:
        if len(factors) < 2:
            raise ShardingArgumentError(
                "CompoundFactor needs at least two factors.", got=f"{factors!r}"
            )
        for factor in factors:
            _check_factor(factor)
        return super().__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """A factor, or a CompoundFactor, for each dimension of an array; `BATCHING` may stand in front.

    Raises: ShardingArgumentError for anything else.

    >>> ArrayMapping(BATCHING, "i", CompoundFactor("b", "c"))
    ('…', 'i', ('b', 'c'))
    """

    __slots__ = ()

    def __new__(cls, *dim_mappings: str | CompoundFactor) -> Self:
        for position, mapping in enumerate(dim_mappings):
            if isinstance(mapping, CompoundFactor):
                continue
            if not (isinstance(mapping, str) and _GROUP.fullmatch(mapping)):
                _check_factor(mapping)
            elif position > 0:
                raise ShardingArgumentError(
                    "ArrayMapping: `...` stands for leading dimensions only.",
                    got=f"{dim_mappings!r}",
                )
        return super().__new__(cls, dim_mappings)


class SdyShardingRule:
    """The factors of all operand and result dimensions, and how sharded factors are handled.

    By default each device computes its part. `reduction_factors` are summed over devices; `need_replication_factors`
    stay unsharded; for `permutation_factors` devices exchange parts. `factor_sizes` has the size of each factor that
    only occurs in CompoundFactors.

    Raises: ShardingArgumentError where these contradict the mappings.

    >>> product = (ArrayMapping("i", "k"), ArrayMapping("k", "j"))
    >>> SdyShardingRule(product, (ArrayMapping("i", "j"),), reduction_factors=("k",)).reduction_factors
    ('k',)
    """

    def __init__(
        self,
        operand_mappings: tuple[ArrayMapping, ...],
        result_mappings: tuple[ArrayMapping, ...],
        *,
        reduction_factors: Names = (),
        need_replication_factors: Names = (),
        permutation_factors: Names = (),
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings = tuple(operand_mappings)
        self.result_mappings = tuple(result_mappings)
        self.reduction_factors = tuple(reduction_factors)
        self.need_replication_factors = tuple(need_replication_factors)
        self.permutation_factors = tuple(permutation_factors)
        self.factor_sizes = factor_sizes
        dims = [dim for mapping in self._mappings for dim in mapping]
        whole = {dim for dim in dims if isinstance(dim, str)}
        parts = {f for dim in dims if isinstance(dim, CompoundFactor) for f in dim}
        listed = [factor for kind in _KINDS for factor in getattr(self, kind)]
        for factors, fault in (
            ([f for f in (*listed, *factor_sizes) if f not in whole | parts], "is not used in the rule."),
            ([f for f in listed if listed.count(f) > 1], "is said to be two things."),
            (sorted(parts - whole - factor_sizes.keys()), "needs a size: no dimension is it alone."),
            ([f for f in factor_sizes if f in whole], "has the size of its dimension already."),
        ):  # fmt: skip
            if factors:
                raise self._error(f"factor {factors[0]!r} {fault}")

    @property
    def _mappings(self) -> tuple[ArrayMapping, ...]:
        return self.operand_mappings + self.result_mappings

    def _error(self, what: str) -> ShardingArgumentError:
        return ShardingArgumentError(f"SdyShardingRule: {what}", got=f"{self}")

    def __repr__(self) -> str:
        sides = (self.operand_mappings, self.result_mappings)
        rule = " -> ".join(", ".join(map(_mapping_text, side)) for side in sides)
        kinds = [f"{kind}={factors}" for kind in _KINDS if (factors := getattr(self, kind))]
        sizes = [f"{factor}={size}" for factor, size in self.factor_sizes.items()]
        return f"SdyShardingRule({', '.join([repr(rule), *kinds, *sizes])})"

    def attribute_text(self, operands: Sequence[Shape], results: Sequence[Shape]) -> str:
        """`#sdy.op_sharding_rule<…>` for operands and results of these shapes.

        Raises: ShardingArgumentError where the rule does not fit them.

        >>> parse_rule("i k, k j -> i j", reduction_factors=("k",)).attribute_text([(8, 4), (4, 2)], [(8, 2)])
        '#sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=4, k=2} reduction={j}, custom>'
        """
        for what, mappings, values in (
            ("operands", self.operand_mappings, operands),
            ("results", self.result_mappings, results),
        ):
            if len(mappings) != len(values):
                raise self._error(
                    f"it is about {len(mappings)} {what}, and the function has {len(values)}."
                )
        shapes = [*operands, *results]
        expanded = [self._factors_of_dims(m, s) for m, s in strict_zip(self._mappings, shapes)]
        sizes = self._sizes(expanded, shapes)
        symbols = {factor: _symbol(i) for i, factor in enumerate(sizes)}
        arrays = [
            f"[{', '.join(''.join(symbols[f] for f in dim) for dim in dims)}]" for dims in expanded
        ]
        n = len(operands)
        shown_sizes = ", ".join(f"{symbols[factor]}={size}" for factor, size in sizes.items())
        # Shardy takes factors of a kind in the order in which they appear, not in that of their symbols as texts.
        kinds = "".join(
            f" {kind.removesuffix('_factors')}={{{', '.join(symbols[f] for f in sizes if f in factors)}}}"
            for kind in _KINDS
            if (factors := getattr(self, kind))
        )
        return (
            f"#sdy.op_sharding_rule<({', '.join(arrays[:n])})->({', '.join(arrays[n:])})"
            f" {{{shown_sizes}}}{kinds}, custom>"
        )

    def _factors_of_dims(self, mapping: ArrayMapping, shape: Shape) -> list[Names]:
        """For each dimension, its factors; dimensions of a leading group get factors of their own."""
        dims = [(d,) if isinstance(d, str) else tuple(d) for d in mapping]
        if mapping and isinstance(mapping[0], str) and _GROUP.fullmatch(mapping[0]):
            dims[:1] = [(f"{mapping[0]}.{i}",) for i in range(len(shape) - len(mapping) + 1)]
        if len(dims) != len(shape):
            raise self._error(f"`{_mapping_text(mapping)}` is not for an array of shape {shape}.")
        return dims

    def _sizes(
        self, expanded: Sequence[Sequence[Names]], shapes: Sequence[Shape]
    ) -> dict[str, int]:
        """The size of each factor, in order of appearance; the minimum if it has several."""
        dims = [
            pair for mapping, shape in strict_zip(expanded, shapes) for pair in strict_zip(mapping, shape)
        ]  # fmt: skip
        sizes: dict[str, Any] = {}
        for factors, size in dims:
            for factor in factors:
                alone = size if len(factors) == 1 else math.inf
                stated = self.factor_sizes.get(factor, alone)
                sizes[factor] = min(sizes.get(factor, math.inf), stated)
        for factors, size in dims:
            if len(factors) > 1 and math.prod(sizes[f] for f in factors) != size:
                raise self._error(
                    f"a dimension of size {size} can't be made of {' '.join(factors)}, of sizes "
                    f"{', '.join(str(sizes[f]) for f in factors)}."
                )
        return sizes


def parse_rule(rule: str, **options: Any) -> SdyShardingRule:
    """Parses a rule such as `"... i k, k j -> ... i j"`; options are those of SdyShardingRule.

    Factors are separated by spaces, arrays by commas; `(b c)` is a dimension shared by two factors.

    Raises: ShardingArgumentError for a text that is no rule.

    >>> parse_rule("...(b c), d -> ...d", b=2, c=4)
    SdyShardingRule('… (b c), d -> … d', b=2, c=4)
    """
    sides = rule.replace("...", BATCHING).split("->")
    if len(sides) != 2 or "." in "".join(sides):
        raise ShardingArgumentError(
            "sharding rule: write factors of operands, `->`, and factors of results.",
            got=f"{rule!r}",
            do='For example "i k, k j -> i j"; `...` stands for any leading dimensions.',
        )
    operands, results = (
        tuple(_parse_dims(text, rule) for text in side.split(",")) for side in sides
    )
    return SdyShardingRule(operands, results, **options)


def _parse_dims(text: str, rule: str) -> ArrayMapping:
    dims: list[str | CompoundFactor] = []
    for shared, word in _WORD.findall(text):
        if word and word in "()":
            raise ShardingArgumentError(
                "sharding rule: brackets must be balanced, and hold no others.", got=f"{rule!r}"
            )
        dims.append(word or CompoundFactor(*shared.split()))
    return ArrayMapping(*dims)


def _check_factor(factor: object) -> None:
    if not isinstance(factor, str) or not _FACTOR.fullmatch(factor):
        raise ShardingArgumentError(
            "sharding rule: a factor must be a letter, followed by letters, digits and underscores.",
            got=f"{factor!r}",
        )


def _mapping_text(mapping: ArrayMapping) -> str:
    return " ".join(dim if isinstance(dim, str) else f"({' '.join(dim)})" for dim in mapping)


def _symbol(index: int) -> str:
    """Shardy's name of a factor: i, j, …, z, z_1, z_2, …"""
    return chr(ord("i") + index) if index < 18 else f"z_{index - 17}"

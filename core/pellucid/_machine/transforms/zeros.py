"""Operations on tangents and cotangents that may be symbolic zeros."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid._machine.base import strict_zip
from pellucid._machine.ir import (
    Avals,
    Mask,
    Operands,
    Results,
    ShapedArray,
    Values,
    Zero,
    is_linear,
    registry,
)
from pellucid._machine.primitives import (
    ReshardParams,
    recast,
    reshard_p,
)
from pellucid._machine.sharding import NamedSharding, PartitionSpec
from pellucid._machine.tracing import bind1, type_of, types_of


def spread(tangents: Operands, nonzero: Mask, avals: Avals) -> Values:
    """A tangent for each result of types `avals`: the next of `tangents` if `nonzero`, else `Zero`."""
    values = iter(tangents)
    return [next(values) if nz else Zero(aval.tangent()) for nz, aval in strict_zip(nonzero, avals)]


def split_tangents(values: Values, mask: Mask) -> tuple[Values, Values]:
    """Splits `values` into (results, tangents), where only results marked by `mask` have tangents."""
    results = values[: len(mask)]
    return results, spread(values[len(mask) :], mask, types_of(results))


def nonzero_mask(tangents: Operands) -> list[bool]:
    """Mask of the tangents (or cotangents) that are not `Zero`."""
    return [type(t) is not Zero for t in tangents]


def nonzero(tangents: Operands) -> Values:
    """`tangents` (or cotangents) without those that are `Zero`."""
    return [t for t in tangents if type(t) is not Zero]


def linear_parts(operands: Operands, cotangents: Operands) -> tuple[Mask, list[Any], Values]:
    """Arguments of `transpose_jaxpr`: (mask of linear `operands`, types of `cotangents` (None for `Zero`), other
    operands).
    """
    linear = [*map(is_linear, operands)]
    avals = [None if type(ct) is Zero else type_of(ct) for ct in cotangents]
    return linear, avals, [x for x in operands if not is_linear(x)]


def cotangents_of(operands: Operands, cotangents: Results, mask: Iterable[bool]) -> Values:
    """Results of a transpose rule: a cotangent for each `LinearOperand`, None for other operands.

    `mask` has a flag for each linear operand: whether `cotangents` contains its cotangent, which is zero otherwise.
    """
    values, masked = iter(cotangents), iter(mask)
    return [
        None if not is_linear(x) else next(values) if next(masked) else Zero(x.aval)
        for x in operands
    ]


def as_cotangent_of(aval: Any, ct: Any) -> Any:
    """`ct` with the sharding of cotangents of values of type `aval`, if types show one."""
    if type(ct) is Zero:
        return Zero(aval.cotangent()) if type(aval) is ShapedArray else ct
    expected = getattr(aval, "shown_sharding", None)
    shown = getattr(getattr(ct, "aval", None), "shown_sharding", None)
    if expected is shown is None:
        return ct
    mesh = shown.mesh if expected is None else expected.mesh  # pyright: ignore[reportOptionalMemberAccess]  # one is there
    spec = (PartitionSpec() if expected is None else expected.spec.to_ct_spec()).padded(aval.ndim)
    if shown is not None and shown.spec is spec:
        return ct
    summed = () if shown is None else (shown.spec.unreduced - spec.unreduced) & {*mesh.manual_axes}
    if summed:  # a sharding doesn't describe axes over which positions are separate programs
        return as_cotangent_of(
            aval, recast(registry["unreduced_psum"], ct, sorted(summed, key=repr))
        )
    return bind1(reshard_p, ct, params=ReshardParams(NamedSharding(mesh, spec)))

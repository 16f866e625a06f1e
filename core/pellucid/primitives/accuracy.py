"""How accurate a result must be: a wish that some functions pass on to the compiler."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid.base import ArgumentTypeError, ArgumentValueError


class AccuracyMode(enum.Enum):
    """The compiler's usual implementation, or its most accurate one."""

    HIGHEST = 1
    DEFAULT = 2


@dataclass(frozen=True)
class Tolerance:
    """The error that a result may have: absolute, relative, and in units in the last place.

    >>> Tolerance(rtol=1e-3)
    Tolerance(atol=0.0, rtol=0.001, ulps=0)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        if self.atol < 0 or self.rtol < 0 or self.ulps < 0:
            raise ArgumentValueError("Tolerance takes no negative numbers.", got=repr(self))


class AccuracyParams(NamedTuple):
    accuracy: AccuracyMode | Tolerance | None


_AS_USUAL = AccuracyParams(None)


def accuracy_params(accuracy: Any) -> AccuracyParams:
    """The params of a function with an `accuracy` argument."""
    if accuracy is None:
        return _AS_USUAL
    if not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise ArgumentTypeError(
            "accuracy is an AccuracyMode, a Tolerance or None.",
            got=f"accuracy: {type(accuracy).__name__}",
        )
    return AccuracyParams(accuracy)


def accuracy_attributes(ctx: Any, params: AccuracyParams) -> dict[str, Any]:
    """The attributes of a StableHLO operation that has `result_accuracy`."""
    wish = params.accuracy
    if wish is None or wish is AccuracyMode.DEFAULT:
        return {}
    if isinstance(wish, Tolerance):
        fields = f"atol = {wish.atol:e}, rtol = {wish.rtol:e}, ulps = {wish.ulps}, "
        mode = "TOLERANCE"
    else:
        fields, mode = "", wish.name
    text = f"#stablehlo.result_accuracy<{fields}mode = #stablehlo.result_accuracy_mode<{mode}>>"
    return {"result_accuracy": ctx.attribute(text)}


def with_accuracy(name: str) -> Any:
    """A lowering to the StableHLO operation `name`, which takes an accuracy."""

    def lower(ctx: Any, operands: Any, params: AccuracyParams) -> Any:
        attributes = accuracy_attributes(ctx, params)
        return ctx.op1(f"stablehlo.{name}", ctx.avals_out[0], operands, attributes)

    return lower

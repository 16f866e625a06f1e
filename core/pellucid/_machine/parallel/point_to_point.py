"""`psend` and `precv`: values sent from one position to another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    Ints,
    UnsupportedError,
    tree_map,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    Collective,
    P,
    Primitive,
    ShapedArray,
    abstract_token,
    shaped_array,
)
from pellucid._machine.primitives import (
    vary,
)
from pellucid._machine.sharding.partition_spec import AxisName
from pellucid._machine.tracing import bind1, type_of

from .axes import (
    AxisNames,
)
from .exchange import Pairs, PPermuteParams, axes_and_pairs, pair_attributes

_PLATFORMS = ("cuda", "gpu", "rocm")


class PRecvParams(NamedTuple):
    """`out_shape` is the type of the received value."""

    axis_name: AxisNames
    out_shape: ShapedArray
    perm: Pairs


class PointToPoint(Collective, Primitive[P]):
    """One side of a transfer along `params.axis_name`."""

    traits = COLLECTIVE.replace(linear=None)

    def attributes(self, ctx: Any, params: Any) -> dict[str, Any]:
        """Attributes of the StableHLO operation.

        Raises: UnsupportedError on platforms without support.
        """
        if ctx.platform not in _PLATFORMS:
            raise UnsupportedError(
                f"{self.name}: devices of the platform {ctx.platform!r} don't send and receive apart.",
                do="Use `ppermute`, which does both.",
            )
        return pair_attributes(ctx, params)


class PSend(PointToPoint[PPermuteParams]):
    """Sends its operand; returns a token."""

    name = "psend"

    def abstract_eval(self, avals, params):
        return [abstract_token]

    def lower(self, ctx, operands, params):
        attributes = self.attributes(ctx, params)
        token = ctx.op1("stablehlo.create_token", abstract_token, [])
        return [ctx.op1("stablehlo.send", abstract_token, [*operands, token], attributes)]


class PRecv(PointToPoint[PRecvParams]):
    """Receives an array, ordered after its operand, a token."""

    name = "precv"

    def abstract_eval(self, avals, params):
        if avals[0] is not abstract_token:
            raise ArgumentTypeError(
                "precv needs a token.",
                got=avals[0].text(),
                do="Give what `psend` gave, or `create_token()`.",
            )
        return [params.out_shape]

    def lower(self, ctx, operands, params):
        types = [ctx.type(params.out_shape), ctx.type(abstract_token)]
        return [ctx.op("stablehlo.recv", types, operands, self.attributes(ctx, params)).results[0]]


psend_p = PSend()


precv_p = PRecv()


def psend(x: Any, axis_name: AxisName, perm: Iterable[Ints]) -> Any:
    """Send `x` (arrays in a tree) along `axis_name`; gives a token for each array.

    `perm` is as in `ppermute`. GPUs only; a program that does it can't be lowered for others.

    Raises: what `ppermute` raises.

    Arrays may have any shape and dtype; tokens have none.

    >>> from pellucid import make_jaxpr
    >>> make_jaxpr(lambda x: psend(x, "i", [(0, 1)]), axis_env=[("i", 2)])(1.0)
    { lambda ; a:f32[]. let b:Tok = psend[axis_name=('i',) perm=((0, 1),)] a in (b,) }
    """
    axes, pairs = axes_and_pairs("psend", axis_name, perm)
    params = PPermuteParams(axes, pairs)
    return tree_map(lambda leaf: bind1(psend_p, vary(leaf, axes), params=params), x)


def precv(token: Any, out_shape: Any, axis_name: AxisName, perm: Iterable[Ints]) -> Any:
    """The value that `psend` sent along `axis_name`, with shape and dtype of `out_shape` (in a tree), received after `token`.

    Raises: what `ppermute` raises; ArgumentTypeError for anything that isn't a token.

    >>> from pellucid import make_jaxpr
    >>> make_jaxpr(lambda x: precv(psend(x, "i", [(0, 1)]), x, "i", [(0, 1)]), axis_env=[("i", 2)])(1.0)
    { lambda ; a:f32[]. let
        b:Tok = psend[axis_name=('i',) perm=((0, 1),)] a
        c:f32[] = precv[axis_name=('i',) out_shape=float32[] perm=((0, 1),)] b
      in (c,) }
    """
    axes, pairs = axes_and_pairs("precv", axis_name, perm)

    def receive_leaf(out):
        aval: Any = out if hasattr(out, "shape") and hasattr(out, "dtype") else type_of(out)
        params = PRecvParams(axes, shaped_array(tuple(aval.shape), np.dtype(aval.dtype)), pairs)
        return vary(bind1(precv_p, token, params=params), axes)

    return tree_map(receive_leaf, out_shape)

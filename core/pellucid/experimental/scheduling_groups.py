"""Calls that carry metadata for the compiler's scheduler, under the names of `jax.experimental.scheduling_groups`."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from pellucid._machine.base.errors import ArgumentTypeError
from pellucid._machine.base.functional import wrapping
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.calls import JaxprCall
from pellucid._machine.ir.facets import Shown
from pellucid._machine.ir.jaxpr import ClosedJaxpr, DebugInfo
from pellucid._machine.ir.rules import Values
from pellucid._machine.tracing.function import source_of
from pellucid._machine.tracing.operands import types_of
from pellucid._machine.tracing.trace import bind
from pellucid._machine.transforms.derived import stage_open
from pellucid._machine.xla.pytree import flatten


class XlaMetadataCallParams(NamedTuple):
    """The program, without constants, and pairs of a key and a text."""

    jaxpr: ClosedJaxpr
    metadata: tuple[tuple[str, str], ...]

    def on(self, program: ClosedJaxpr) -> XlaMetadataCallParams:
        """Params of a call of a program derived from this one."""
        return self._replace(jaxpr=program)


class XlaMetadataCall(Shown, JaxprCall[XlaMetadataCallParams]):
    """A call, kept as one in StableHLO, whose operation has frontend attributes."""

    name = "xla_metadata_call"

    def called(self, params: Any) -> None:
        return None  # a call that is inlined loses its metadata

    def lower(self, ctx, operands, params: Any):
        results = ctx.call(params.jaxpr.jaxpr, self.name, operands, key=params.metadata)
        if results:
            ctx.note_metadata(results[0], dict(params.metadata))
        return results

    def printed_params(self, equation):
        return {"jaxpr": equation.params.jaxpr, **dict(equation.params.metadata)}


xla_metadata_call_p = XlaMetadataCall()


def xla_metadata_call(f: Function | None = None, **meta: str) -> Any:
    """`f` as a call with metadata, texts by key, as frontend attributes; a decorator without `f`.

    Its derivatives and batched forms are calls with the same metadata.

    Raises: ArgumentTypeError for metadata that is no text.

    >>> double = xla_metadata_call(lambda x: 2 * x, priority="high")
    >>> print(pl.make_jaxpr(double)(1.0))
    { lambda ; a:f32[]. let
        b:f32[] = xla_metadata_call[
          jaxpr={ lambda ; c:f32[]. let d:f32[] = mul 2.0:f32[] c in (d,) }
          priority=high
        ] a
      in (b,) }
    """
    if bad := {key: value for key, value in meta.items() if not isinstance(value, str)}:
        raise ArgumentTypeError("metadata of a call must be strings.", got=f"{bad}")
    if f is None:
        return functools.partial(xla_metadata_call, **meta)
    function, metadata = f, tuple(sorted(meta.items()))

    @wrapping(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        out_tree: Any = None

        def flat(*values: Any) -> Values:
            nonlocal out_tree
            inner_args, inner_kwargs = tree.unflatten(values)
            results, out_tree = flatten(function(*inner_args, **inner_kwargs))
            return results

        debug = DebugInfo("xla_metadata_call", source_of(function))
        program, consts = stage_open(flat, types_of(leaves), debug)
        params = XlaMetadataCallParams(program, metadata)
        return out_tree.unflatten(bind(xla_metadata_call_p, *consts, *leaves, params=params))

    return call


def scheduling_group(name: str) -> Any:
    """A decorator: the operations of a call of the function are one group of XLA's scheduler, called `name`.

    >>> overlapped = scheduling_group("exchange")(lambda x: x + 1)
    >>> "scheduling_group = " in pl.jit(overlapped).lower(1.0).as_text()
    True
    """
    return xla_metadata_call(scheduling_group=name)


__all__ = ["scheduling_group", "xla_metadata_call", "xla_metadata_call_p"]

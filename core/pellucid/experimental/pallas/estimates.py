"""Estimated cost of a function, in the form that `pallas_call` takes."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import Function, UnsupportedError, tree_flatten
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid.analysis.costs import jaxpr_costs
from pellucid.introspect.program import read_jaxpr
from pellucid.kernels.specs import CostEstimate


def estimate_cost(fun: Function, *args: Any, **kwargs: Any) -> CostEstimate:
    """The cost of `fun` for arguments of these types: FLOPs, transcendental functions, and bytes of arguments and results.

    Raises: UnsupportedError for a loop whose number of steps is known only when it runs.

    >>> x = np.ones((8, 16), np.float32)
    >>> estimate_cost(lambda x: jnp.exp(x @ x.T), x)
    CostEstimate(flops=2048, transcendentals=64, bytes_accessed=768, remote_bytes_transferred=0)
    """
    leaves, tree = tree_flatten((args, kwargs))
    arrays = [x for x in leaves if hasattr(x, "shape") and hasattr(x, "dtype")]

    def call(*arrays: Any) -> Any:
        """`fun` of arrays, and of the arguments that are none."""
        rest = iter(arrays)
        given = [next(rest) if hasattr(x, "shape") and hasattr(x, "dtype") else x for x in leaves]
        args, kwargs = tree.unflatten(given)
        return fun(*args, **kwargs)

    program = make_jaxpr(call)(*arrays).jaxpr
    reading = read_jaxpr(program, listing=False, source_lines=False, value_names=False)
    flops, transcendentals, _ = jaxpr_costs(reading).total
    if flops is None or transcendentals is None:
        raise UnsupportedError(
            "estimate_cost: the number of operations is known only when the function runs."
        )
    atoms = [*program.invars, *program.outvars]
    n_bytes = sum(a.aval.size * a.aval.dtype.itemsize for a in atoms)
    return CostEstimate(int(flops), int(transcendentals), int(n_bytes))

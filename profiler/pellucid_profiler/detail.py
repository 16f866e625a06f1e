"""`detail`: profiles a function compiled without fusions, so that the time of each equation is measured, not estimated."""

from __future__ import annotations

from typing import Any

from pellucid.introspect.errors import ArgumentTypeError
from pellucid_profiler.recorder import profile
from pellucid_profiler.session import Session

WITHOUT_FUSIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_disable_hlo_passes": "fusion,cpu-instruction-fusion,fusion_merger,multi_output_fusion,priority-fusion",
}
"""Compiler options that disable fusion. XLA ignores passes that a platform doesn't have."""


def detail(function: Any, *args: Any, runs: int = 3, **kwargs: Any) -> Session:
    """Profiles some runs of a jitted function compiled without fusions.

    XLA fuses several equations into one kernel, and a session can only estimate how its time divides among them.
    Without fusions each equation is measured; but the program moves more data, so compare times within it, not with the
    function's normal time. `args` and `kwargs` are the arguments of a call. Donated arguments are deleted by the first
    run, so the next run raises.

    Raises: ArgumentTypeError if `function` isn't jitted.

    >>> f = pl.jit(lambda x: jnp.tanh(x @ x) * 2)
    >>> session = detail(f, jnp.ones((64, 64)))
    >>> session.is_detail, len(session.calls)
    (True, 3)
    """
    if not hasattr(function, "lower"):
        raise ArgumentTypeError(
            "profiler.detail needs a jitted function.",
            got=f"{type(function).__name__}",
            do="Pass `pl.jit(function)`.",
        )
    compiled = function.lower(*args, **kwargs).compile(compiler_options=WITHOUT_FUSIONS)
    compiled(*args, **kwargs)
    with profile() as recorded:
        for _ in range(runs):
            compiled(*args, **kwargs)
    session = recorded.wait()
    session.is_detail = True
    return session

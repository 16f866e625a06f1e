"""Detail: a function compiled without fusions, so that the time of each of its equations is measured."""

from __future__ import annotations

from typing import Any

from pellucid.introspect.errors import ArgumentTypeError
from pellucid_profiler.recorder import profile
from pellucid_profiler.session import Session

WITHOUT_FUSIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_disable_hlo_passes": "fusion,cpu-instruction-fusion,fusion_merger,multi_output_fusion,priority-fusion",
}
"""Options of XLA by which instructions stay apart; passes that a platform lacks are ignored."""


def detail(function: Any, *args: Any, runs: int = 3, **kwargs: Any) -> Session:
    """The session of some runs of a jitted function that is compiled for it without fusions.

    XLA puts several equations into one kernel, whose time a session can only estimate for each. Without fusions it is
    measured, but of another program, which moves more data; so compare lines within it, not with the function's own time.
    `args` and `kwargs` are those of a call; arguments that it donates are deleted in the first run, and the next one
    raises.

    Raises: ArgumentTypeError for what isn't a jitted function.

    >>> f = pl.jit(lambda x: jnp.tanh(x @ x) * 2)
    >>> session = detail(f, jnp.ones((64, 64)))
    >>> session.is_detail, len(session.calls)
    (True, 3)
    """
    if not hasattr(function, "lower"):
        raise ArgumentTypeError(
            "profiler.detail takes a jitted function.",
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

"""The programs of examples/, run by any library of the reference's names."""

from __future__ import annotations

import runpy
import traceback
from typing import Any


def losses(jax: Any, source: str, steps: int) -> list[float]:
    """The losses of the program `source`, whose imports of pellucid become imports of `jax`, in `steps` steps."""
    program: dict[str, Any] = {"__name__": "example"}
    exec(source.replace("pellucid", jax.__name__), program)
    return program["main"](steps)


def answer_for_jax() -> None:
    """Let `import jax` be answered by pellucid in this process, for good."""
    from pellucid import as_jax  # the reference runs in processes that must not import it

    as_jax.install()


def library_losses(path: str, steps: int) -> list[float]:
    """Losses of the program at `path`, which imports jax, in `steps` steps.

    Some libraries turn 64 bits on for good, and netket sets a mesh when it is imported: both are taken back.
    What it raises comes as text: its class may be one of jax, which the process that waits for it can't import.
    """
    import jax  # which this process has, or pellucid answers for

    before, mesh = jax.config.read("jax_enable_x64"), jax.sharding.get_mesh()
    try:
        return runpy.run_path(path)["main"](steps)
    except Exception:
        raise RuntimeError(traceback.format_exc()) from None
    finally:
        jax.config.update("jax_enable_x64", before)
        jax.set_mesh(mesh)

"""Thread-local flags with the current mesh, which are part of cache keys.

All three flags are part of the C++ call path's signature and of `flags.trace_context()`, so that functions are retraced
when the current mesh changes. None means no mesh.
"""

from __future__ import annotations

import threading
from typing import Any

from pellucid._machine.xla import flags

abstract = flags.flag("pellucid_abstract_mesh", None, in_call_key=True, in_trace_key=True)
"""The AbstractMesh that types and bare PartitionSpecs refer to."""
concrete = flags.flag("pellucid_concrete_mesh", None, in_call_key=True, in_trace_key=True)
"""The Mesh set by `set_mesh`."""
entered = flags.flag("pellucid_entered_mesh", None, in_call_key=True, in_trace_key=True)
"""The Mesh of the innermost `with mesh:`."""


_outer = threading.local()


def enter(mesh: Any) -> None:
    """Begin `with mesh:` in this thread."""
    _outer.__dict__.setdefault("meshes", []).append(entered.swap_local(mesh))


def leave() -> None:
    """End the innermost `with mesh:` of this thread."""
    entered.set_local(_outer.meshes.pop())

"""How a notebook shows core objects: a table from types to figures, registered on IPython's formatters.

Core objects know nothing of it. Without this module, or in a terminal, they show as text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _figure(name: str, attribute: str | None = None) -> Callable[[Any], dict[str, Any] | None]:
    """The figure called `name` of a value, or of its `attribute`; loaded when the first one is shown."""

    def bundle(value: Any) -> dict[str, Any] | None:
        figures = importlib.import_module("pellucid_viz.figures")
        return getattr(figures, name)(
            value if attribute is None else getattr(value, attribute)
        ).displayed()

    return bundle


_sharding = _figure("sharding")


_array = _figure("array")
_MIN_DRAWN = 64
"""Elements from which on an array is drawn; of fewer the text says all."""


def array_bundle(array: Any) -> dict[str, Any] | None:
    """Where an array over several devices lies, or the values of a large one on a single device, beside its text.

    None for others. Elements are fetched for the text only, as Python's own display does.
    """
    if array.is_deleted():
        return None
    if len(array.sharding.device_set) > 1:
        return (_sharding(array) or {}) | {"text/plain": repr(array)}
    if array.size < _MIN_DRAWN:
        return None
    return (_array(array) or {}) | {"text/plain": repr(array)}


def function_bundle(function: Any) -> dict[str, Any] | None:
    """The card of a jitted function; None for pellucid's own, such as `jnp.einsum`."""
    jitted = getattr(function, "jitted", None)
    is_users = jitted is not None and jitted.options.share
    return _figure("function")(function) if is_users else None


def profile_bundle(profile: Any) -> dict[str, Any] | None:
    """The session of a profile, for which it waits; None for one that is being recorded."""
    return _figure("profile")(profile) if profile.is_stopped else None


FIGURES: dict[tuple[str, str], Callable[[Any], dict[str, Any] | None]] = {
    ("pellucid._machine.ir.jaxpr", "ClosedJaxpr"): _figure("program"),
    ("pellucid._machine.ir.jaxpr", "Jaxpr"): _figure("program"),
    ("pellucid._machine.higher_order.stages", "Traced"): _figure("program", "jaxpr"),
    ("pellucid._machine.higher_order.stages", "Lowered"): _figure("program"),
    ("pellucid._machine.higher_order.stages", "Compiled"): _figure("compiled"),
    ("pellucid._machine.sharding.mesh", "Mesh"): _sharding,
    ("pellucid._machine.sharding.mesh", "AbstractMesh"): _sharding,
    ("pellucid._machine.sharding.named_sharding", "NamedSharding"): _sharding,
    ("jaxlib._jax", "ArrayImpl"): array_bundle,
    ("jaxlib._jax", "PjitFunction"): function_bundle,
    ("pellucid_profiler.session", "Session"): _figure("profile"),
    ("pellucid_profiler.recorder", "Profile"): profile_bundle,
    ("pellucid_profiler.comparison", "Comparison"): _figure("profile_comparison"),
}
"""For each type, by module and name (so that nothing is imported for it), how it is shown."""

SERVED_AS = {
    "pellucid._machine.ir.jaxpr": "jax._src.ir.jaxpr",
    "pellucid._machine.higher_order.stages": "jax.stages",
    "pellucid._machine.sharding.mesh": "jax.sharding",
    "pellucid._machine.sharding.named_sharding": "jax.sharding",
    "pellucid_profiler.session": "jax.profiler",
    "pellucid_profiler.recorder": "jax.profiler",
    "pellucid_profiler.comparison": "jax.profiler",
}
"""The modules of which these types say that they are while `import jax` is answered (`as_jax/identity.py`)."""


def register(shell: Any) -> None:
    """Show core objects as figures in an IPython `shell`."""
    formatter = shell.display_formatter.mimebundle_formatter
    for (module, name), figure in FIGURES.items():
        for named in {module, SERVED_AS.get(module, module)}:
            formatter.for_type_by_name(
                named, name, lambda value, _figure=figure, **_: _figure(value)
            )


def unregister(shell: Any) -> None:
    """Undo `register`."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name in FIGURES:
        for named in {module, SERVED_AS.get(module, module)}:
            formatter.pop(f"{named}.{name}", None)

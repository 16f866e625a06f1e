"""Registers figures as IPython's display of pellucid's types.

Pellucid's core doesn't depend on it: without this module, or in a terminal, its objects are displayed as text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _figure(name: str, attribute: str | None = None) -> Callable[[Any], dict[str, Any] | None]:
    """A formatter that displays a value, or its `attribute`, as the figure `name`. The figure is imported on first use."""

    def bundle(value: Any) -> dict[str, Any] | None:
        figures = importlib.import_module("pellucid_viz.figures")
        return getattr(figures, name)(
            value if attribute is None else getattr(value, attribute)
        ).displayed()

    return bundle


_sharding = _figure("sharding")


_array = _figure("array")
_MIN_DRAWN = 64
"""Minimum size of an array to be drawn; the text of smaller ones shows all elements."""


def array_bundle(array: Any) -> dict[str, Any] | None:
    """Figure of the sharding of an array on several devices, or of the values of a large one on one device, with its
    text.

    None for other arrays. Elements are fetched only for the text, as by Python's own display.
    """
    if array.is_deleted():
        return None
    if len(array.sharding.device_set) > 1:
        return (_sharding(array) or {}) | {"text/plain": repr(array)}
    if array.size < _MIN_DRAWN:
        return None
    return (_array(array) or {}) | {"text/plain": repr(array)}


def function_bundle(function: Any) -> dict[str, Any] | None:
    """Figure of a jitted function; None for pellucid's own functions, such as `jnp.einsum`."""
    jitted = getattr(function, "jitted", None)
    is_users = jitted is not None and jitted.options.share
    return _figure("function")(function) if is_users else None


def profile_bundle(profile: Any) -> dict[str, Any] | None:
    """Figure of a profile's session, after waiting for it; None while it is being recorded."""
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
"""Formatter of each type, given by module and name so that nothing must be imported."""

SERVED_AS = {
    "pellucid._machine.ir.jaxpr": "jax._src.ir.jaxpr",
    "pellucid._machine.higher_order.stages": "jax.stages",
    "pellucid._machine.sharding.mesh": "jax.sharding",
    "pellucid._machine.sharding.named_sharding": "jax.sharding",
    "pellucid_profiler.session": "jax.profiler",
    "pellucid_profiler.recorder": "jax.profiler",
    "pellucid_profiler.comparison": "jax.profiler",
}
"""Module names that these types report while `import jax` is answered (`as_jax/identity.py`)."""


def register(shell: Any) -> None:
    """Registers the figures with an IPython `shell`."""
    formatter = shell.display_formatter.mimebundle_formatter
    for (module, name), figure in FIGURES.items():
        for named in {module, SERVED_AS.get(module, module)}:
            formatter.for_type_by_name(
                named, name, lambda value, _figure=figure, **_: _figure(value)
            )


def unregister(shell: Any) -> None:
    """Reverts `register`."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name in FIGURES:
        for named in {module, SERVED_AS.get(module, module)}:
            formatter.pop(f"{named}.{name}", None)

"""pellucid: see through your array programs."""

from pellucid import wiring as _wiring  # noqa: F401

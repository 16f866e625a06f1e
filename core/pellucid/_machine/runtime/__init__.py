"""Clients, buffers, running."""

from pellucid._machine.runtime import interchange as _interchange

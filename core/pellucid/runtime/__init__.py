"""Clients, buffers, running."""

from pellucid.runtime import interchange as _interchange

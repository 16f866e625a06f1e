"""Running programs: clients, buffers, executables."""

from pellucid._machine.runtime import interchange as _interchange

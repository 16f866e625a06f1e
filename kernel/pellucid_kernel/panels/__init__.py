"""Kernel side of the panels: one module and one line per panel."""

from pellucid_kernel.panels.devices import DevicesPanel
from pellucid_kernel.panels.panel import Panel
from pellucid_kernel.panels.programs import ProgramsPanel

PANELS: tuple[type[Panel], ...] = (ProgramsPanel, DevicesPanel)

__all__ = ["PANELS", "Panel"]

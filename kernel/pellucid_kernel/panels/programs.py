"""The panel "Programs": jitted functions and the entries of their caches."""

from __future__ import annotations

from collections.abc import Mapping

from pellucid import analysis, introspect
from pellucid_kernel.panels.panel import Handler, Panel
from pellucid_kernel.schema import ProgramsState


class ProgramsPanel(Panel):
    name = "programs"

    def state(self) -> ProgramsState:
        return ProgramsState(functions=introspect.functions())

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "show_program": lambda request: analysis.function_view(
                int(request["entry"]), request["view"]
            ),
        }

"""The kernel "Pellucid": ipykernel with a shell that is ready for pellucid."""

from importlib import metadata
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from traitlets import Type


class PellucidKernel(IPythonKernel):
    """Runs Python cells; differs from ipykernel in its name, how its shell is prepared, and its debugger."""

    implementation = "pellucid"
    implementation_version = metadata.version("pellucid")

    debugger_class = Type("pellucid_kernel.debug.adapter.PellucidDebugger")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        shell: Any = self.shell
        shell.extension_manager.load_extension("pellucid_kernel")

    def do_shutdown(self, restart: bool) -> Any:
        """Shut down, or restart: a program that a debugger has stopped runs on, so that its cell can end."""
        self._call_debugger("release")
        return super().do_shutdown(restart)

    def core_loaded(self) -> None:
        """Let the debugger stop in programs; the shell calls this when a cell has loaded the core."""
        self._call_debugger("core_loaded")

    def _call_debugger(self, name: str) -> None:
        debugger = getattr(self, "debugger", None)  # none without debugpy
        if debugger is not None:
            getattr(debugger, name)()

    @property
    def banner(self) -> str:
        """First line of a console that connects to this kernel."""
        return f"Pellucid {self.implementation_version} on {super().banner}"

"""The kernel "Pellucid": ipykernel with a shell prepared for pellucid."""

from importlib import metadata
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from traitlets import Type


class PellucidKernel(IPythonKernel):
    """An IPython kernel with its own name, a prepared shell, and a debugger for jitted functions."""

    implementation = "pellucid"
    implementation_version = metadata.version("pellucid")

    debugger_class = Type("pellucid_kernel.debug.adapter.PellucidDebugger")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        shell: Any = self.shell
        shell.extension_manager.load_extension("pellucid_kernel")

    def do_shutdown(self, restart: bool) -> Any:
        """Shuts down or restarts the kernel. A program stopped in the debugger is resumed first, so that its cell can
        end.
        """
        self._call_debugger("release")
        return super().do_shutdown(restart)

    def core_loaded(self) -> None:
        """Enables breakpoints in programs. The shell calls this when a cell has loaded pellucid."""
        self._call_debugger("core_loaded")

    def _call_debugger(self, name: str) -> None:
        debugger = getattr(self, "debugger", None)  # none without debugpy
        if debugger is not None:
            getattr(debugger, name)()

    @property
    def banner(self) -> str:
        """First line shown by a console that connects to this kernel."""
        return f"Pellucid {self.implementation_version} on {super().banner}"

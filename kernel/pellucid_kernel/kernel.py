"""The kernel "Pellucid": ipykernel with a shell that is ready for pellucid."""

from importlib import metadata
from typing import Any

from ipykernel.ipkernel import IPythonKernel


class PellucidKernel(IPythonKernel):
    """Runs Python cells; differs from ipykernel only in its name and in how its shell is prepared."""

    implementation = "pellucid"
    implementation_version = metadata.version("pellucid")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        shell: Any = self.shell
        shell.extension_manager.load_extension("pellucid_kernel")

    @property
    def banner(self) -> str:
        """First line of a console that connects to this kernel."""
        return f"Pellucid {self.implementation_version} on {super().banner}"

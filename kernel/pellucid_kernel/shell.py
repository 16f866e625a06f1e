"""Changes that pellucid makes to an IPython shell.

A kernel starts without pellucid's core, which takes as long to load as the rest of the kernel. It is loaded just before
the first cell that mentions pellucid or jax.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import leading_empty_lines
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

from pellucid_kernel.cells import Cells
from pellucid_kernel.channel import Channel
from pellucid_kernel.debug import python_thread
from pellucid_kernel.magics import PellucidMagics
from pellucid_viz import formatters

if TYPE_CHECKING:
    from pellucid_kernel.shell_connection import ShellConnection

_NAMES_CORE = re.compile(r"\b(pellucid|jax)\b")
_LOOKS_BACK = ("%debug", "%tb", "%pellucid", "%xmode")
"""Lines that inspect the last error, whose frames must therefore be kept."""
_attached: dict[InteractiveShell, ShellExtension] = {}


class ShellExtension:
    """State of one shell: the cells that ran, the connected panels and, once the core is loaded, its connection."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.cells = Cells(shell)
        self.channel = Channel()
        self.session: ShellConnection | None = None
        self._failed = False
        self._is_announced = False

    def before_cell(self, info: ExecutionInfo) -> None:
        """Records the cell, loads the core if the cell needs it, and frees what the previous cell's error kept alive."""
        self.cells.note(info)
        text = info.raw_cell or ""
        if self.session is None and _NAMES_CORE.search(text):
            self.start_session()
        if self._failed and self.session is not None and not text.lstrip().startswith(_LOOKS_BACK):
            self.session.let_go()
            self._failed = False
        if self.session is not None:
            self.session.cell_started(info.cell_id)

    def after_cell(self, result: ExecutionResult) -> None:
        """Sends the current state to the panels."""
        # A user's module may have imported the core indirectly.
        if self.session is None and "pellucid.wiring" in sys.modules:
            self.start_session()
        self._failed = self._failed or result.error_in_exec is not None
        if not self._is_announced:
            self._is_announced = True
            self.channel.announce()
        if self.session is not None:
            self.session.cell_ended()
        # Otherwise a step over a cell's last line would stop in IPython's code when it runs the next cell.
        python_thread.end_step()

    def start_session(self) -> None:
        """Loads the core and its displays. If that fails, the user's own import reports the error."""
        try:
            module = importlib.import_module("pellucid_kernel.shell_connection")
        except ImportError:
            return
        self.session = module.ShellConnection(self.shell, self.cells, self.channel)
        loaded = getattr(getattr(self.shell, "kernel", None), "core_loaded", None)
        if loaded is not None:
            loaded()

    def show_whole_traceback(self) -> None:
        """Shows the last error as IPython does, with all frames."""
        if self.session is None:
            self.shell.showtraceback()
        else:
            self.session.show_whole_traceback()

    def stop(self) -> None:
        """Reverts the changes of this extension."""
        if self.session is not None:
            self.session.stop()
        self.channel.close()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Prepares `shell` for pellucid. IPython calls this for `%load_ext pellucid_kernel`.

    It keeps empty lines at the top of a cell, which IPython would drop before compiling, so that source lines of
    programs agree with the lines in the notebook. It also enables figures for programs.
    """
    if shell in _attached:
        return
    extension = _attached[shell] = ShellExtension(shell)
    formatters.register(shell)
    shell.register_magics(PellucidMagics(shell, extension))
    shell.events.register("pre_run_cell", extension.before_cell)
    shell.events.register("post_run_cell", extension.after_cell)
    transforms = shell.input_transformer_manager.cleanup_transforms
    if leading_empty_lines in transforms:
        transforms.remove(leading_empty_lines)
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is not None:
        extension.channel.listen(kernel.comm_manager)
    if "pellucid.wiring" in sys.modules:
        extension.start_session()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Reverts `load_ipython_extension`. IPython calls this for `%unload_ext pellucid_kernel`."""
    extension = _attached.pop(shell, None)
    if extension is None:
        return
    extension.stop()
    formatters.unregister(shell)
    shell.events.unregister("pre_run_cell", extension.before_cell)
    shell.events.unregister("post_run_cell", extension.after_cell)
    shell.magics_manager.magics["line"].pop("pellucid", None)
    shell.magics_manager.magics["cell"].pop("profile", None)
    transforms = shell.input_transformer_manager.cleanup_transforms
    if leading_empty_lines not in transforms:
        transforms.insert(0, leading_empty_lines)

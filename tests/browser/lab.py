"""JupyterLab as a browser test drives it: notebooks, cells, outputs, themes."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from playwright.sync_api import Error, Locator, Page

from tests.browser.server import Server

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
MILLISECONDS = 60_000
# JupyterLab asks for a subshell when a comm is opened, and doesn't catch that its kernel is shut down meanwhile.
OF_SHUTDOWN = "Canceled future for create_subshell_request message before replies were done"

KERNEL_IS_READY = """() => {
    const session = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;
    const kernel = session?.kernel;
    return kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
}"""

# A widget that a command gives would take seconds to be sent.
RUN_COMMAND = "async ([id, args]) => void await window.jupyterapp.commands.execute(id, args)"

IS_AT_REST = "'jupyterapp' in window && !document.querySelector('.jp-Dialog, .lm-Menu')"

OPEN = """async path => {
    const { commands, shell } = window.jupyterapp;
    const launchers = [...shell.widgets('main')];
    await commands.execute('docmanager:open', { path });
    launchers.forEach(widget => widget.dispose());
}"""

# What is hidden goes first: JupyterLab's toolbars can't bear to be shown and disposed at once. Where the main area is
# empty, it opens a launcher some time later.
CLOSE_ALL = """async () => {
    const { shell } = window.jupyterapp;
    const open = [...shell.widgets('main'), ...shell.widgets('down')];
    open.sort((a, b) => a.isVisible - b.isVisible).forEach(widget => widget.dispose());
    shell.collapseRight();
    shell.activateById('filebrowser');
    while ([...shell.widgets('main')].length === 0) await new Promise(resolve => setTimeout(resolve, 20));
}"""


class Lab:
    """One page with JupyterLab."""

    def __init__(self, page: Page, server: Server, output: Path, *, path: str = "lab/tree") -> None:
        self.page = page
        self.server = server
        self.output = output
        self.path = path
        self.complaints: list[str] = []
        """Uncaught errors of the page's scripts."""
        self.must_load = False
        """Whether the next notebook needs a page of its own."""
        page.set_default_timeout(MILLISECONDS)
        page.on("pageerror", self._complain)

    def _complain(self, error: Error) -> None:
        if OF_SHUTDOWN not in str(error):
            self.complaints.append(error.stack or str(error))

    def open_notebook(
        self,
        name: str,
        cells: list[str],
        *,
        kernel: str = "pellucid",
        run: bool = True,
        may_fail: bool = False,
    ) -> None:
        """Open a new notebook with `cells`; with `run`, wait for its kernel and run them all.

        The first cell that fails is the last one that runs, unless they `may_fail`.
        """
        metadata = {"tags": ["raises-exception"]} if may_fail else {}
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source, metadata=metadata) for source in cells],
            metadata={"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
        )
        self.open_stored_notebook(name, notebook)
        self.wait_for_kernel()
        if run:
            self.run_all()

    def open_stored_notebook(self, name: str, notebook: nbformat.NotebookNode) -> None:
        """Write `notebook` into the server's folder and open it, without waiting for a kernel."""
        nbformat.write(notebook, self.server.root / name)
        if self.can_be_cleared():
            self.clear()
            self.page.evaluate(OPEN, name)
        else:
            # `reset` forgets the layout that an earlier page left behind.
            self.page.goto(f"{self.server.url}/{self.path}/{name}?reset&token={self.server.token}")
            self.must_load = self.path != "lab/tree"
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for()

    def can_be_cleared(self) -> bool:
        """Whether the page has JupyterLab with the settings that now hold, and no dialog that waits for an answer."""
        return not self.must_load and self.page.evaluate(IS_AT_REST)

    def clear(self) -> None:
        """Close all tabs, lose what they hold, and show the side bars as a new page does."""
        self.page.evaluate(CLOSE_ALL)

    def wait_for_kernel(self) -> None:
        """Wait until the kernel can run a cell; one that is run earlier is silently dropped."""
        self.page.wait_for_function(KERNEL_IS_READY)

    def run_all(self) -> None:
        """Run all cells and wait until the last one has ended."""
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
                .every((prompt) => /\\[\\d+\\]/.test(prompt.textContent))"""
        )
        self.wait_for_kernel()

    def evaluate_in_kernel(self, code: str) -> None:
        """Let the kernel of the notebook in front run `code`, which belongs to no cell."""
        self.page.evaluate(
            """code => {
                const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
                session.kernel.requestExecute({ code });
            }""",
            code,
        )

    def evaluate_in_cell(self, code: str) -> None:
        """Write `code` into the active cell and run it."""
        self.page.evaluate(
            """code => {
                const { content } = window.jupyterapp.shell.currentWidget;
                content.activeCell.model.sharedModel.setSource(code);
            }""",
            code,
        )
        self.command("notebook:run-cell")

    @contextlib.contextmanager
    def settings(self, **values: object) -> Iterator[None]:
        """Set settings of the extension for pages that are opened inside."""
        path = self.server.root.parent / "settings/@pellucid/lab/views.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
        self.must_load = True
        yield
        path.unlink()
        self.must_load = True

    def output_of(self, cell: int) -> Locator:
        """The output area of a cell, counted from 0."""
        return self.page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output")

    def start(self, command: str) -> None:
        """Execute one of JupyterLab's commands, without waiting for its end."""
        self.page.evaluate("id => void window.jupyterapp.commands.execute(id)", command)

    def command(self, command: str, **arguments: object) -> None:
        """Execute one of JupyterLab's commands."""
        self.page.evaluate(RUN_COMMAND, [command, arguments])

    def set_theme(self, theme: str) -> None:
        """Switch to the theme "light" or "dark" and wait until it is drawn."""
        self.command("apputils:change-theme", theme=THEMES[theme])
        light = str(theme == "light").lower()
        self.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")

    def screenshot(self, name: str) -> Path:
        """Write a picture of the page into the output folder."""
        path = self.output / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def screenshots(self, name: str) -> None:
        """Write a picture of the page in each theme."""
        for theme in THEMES:
            self.set_theme(theme)
            time.sleep(0.3)  # colours fade in
            self.screenshot(f"{name}_{theme}")

    def shut_down_kernels(self) -> None:
        """End all kernels of the server, so that the next test begins without any."""
        for kernel in self.server.request("GET", "kernels"):
            self.server.request("DELETE", f"kernels/{kernel['id']}")

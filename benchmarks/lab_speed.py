"""Is the lab within its bounds? Measures each of them once and prints it beside what is wanted.

Needs the built extension, playwright and a Chromium, and takes about a minute: `python benchmarks/lab_speed.py`.
The viewer is measured in a page of its own, the first view of a program in JupyterLab, and the start of kernels by
turns with the plain kernel.
"""

from __future__ import annotations

import gzip
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import transformer
from jupyter_client.manager import start_new_kernel
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from viewer_speed import QUIET, ROOT, measure_samples

import pellucid as pl

sys.path.insert(0, str(ROOT))
from tests.browser.lab import Lab
from tests.browser.server import chromium_path, running_server

BUNDLE = ROOT / "lab-extension" / "dist" / "labextension" / "static"
KERNEL_ROUNDS = 5

# 64 equations in each of 156 layers, in scopes as a model has them.
TEN_THOUSAND = """import pellucid as pl, pellucid.numpy as jnp
def model(x):
    for _ in range(156):
        with pl.named_scope("layer"):
            for _ in range(32):
                x = jnp.sin(x) * 2.0
    return x
program = pl.make_jaxpr(model)(1.0)
len(program.eqns)"""

# The kernel and the browser share a clock: the reply to a cell says when the kernel sent it.
TIME_TO_FIRST_PICTURE = """async () => {
  const { content, sessionContext } = window.jupyterapp.shell.currentWidget;
  let ended = 0;
  sessionContext.session.kernel.anyMessage.connect((_, { msg, direction }) => {
    if (direction === 'recv' && msg.header.msg_type === 'execute_reply') {
      ended = Date.parse(msg.header.date);
    }
  });
  content.activeCellIndex = 1;
  void window.jupyterapp.commands.execute('notebook:run-cell');
  const drawn = () => document.querySelector('.pellucid-program > div')
    ?.shadowRoot?.querySelector('[role=treeitem]');
  while (ended === 0 || !drawn()) {
    await new Promise(requestAnimationFrame);
  }
  await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
  return Date.now() - ended;
}"""


class Bound(NamedTuple):
    """The bound of a figure: at most `limit`, or at least, where more is better."""

    name: str
    unit: str
    limit: float
    is_least: bool = False

    def row(self, amount: float) -> str:
        """The figure beside its bound."""
        is_kept = amount >= self.limit if self.is_least else amount <= self.limit
        sign = "≥" if self.is_least else "≤"
        verdict = "ok" if is_kept else "MISSED"
        return f"{self.name:52} {amount:8.4g}  {sign} {self.limit:<6g} {self.unit:4} {verdict}"


def kernel_start_ratio() -> float:
    """Median time until the kernel answers, over that of the plain kernel, which take turns."""
    times: dict[str, list[float]] = {"pellucid": [], "python3": []}
    for _ in range(KERNEL_ROUNDS):
        for name, seconds in times.items():
            begun = time.perf_counter()
            manager, client = start_new_kernel(kernel_name=name)
            seconds.append(time.perf_counter() - begun)
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    return statistics.median(times["pellucid"]) / statistics.median(times["python3"])


def what_if_change() -> float:
    """Longest of four changes of `what_if` on a training step of 12 layers for 512 devices, in milliseconds."""
    mesh = pl.sharding.AbstractMesh((64, 8), ("data", "model"))
    parameters = pl.tree.map(
        lambda x: pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=pl.NamedSharding(mesh, pl.P())),
        transformer.parameters(pl),
    )
    batch = (512, transformer.LENGTH)
    tokens = pl.ShapeDtypeStruct(batch, "int32", sharding=pl.NamedSharding(mesh, pl.P("data")))
    figure = pl.viz.what_if(transformer.train_step(pl))(parameters, tokens)
    times = []
    for data in (32, 64, 128, 256):
        begun = time.perf_counter()
        figure.change({"data": data, "model": 512 // data}, {"*['up']": pl.P(None, "model")})
        times.append(time.perf_counter() - begun)
    return 1000 * max(times)


def first_picture(browser: Browser | BrowserContext, folder: Path) -> float:
    """Milliseconds from the end of a cell in JupyterLab to the first picture of its 10,000 equations."""
    with running_server(folder) as server:
        lab = Lab(browser.new_page(), server, folder)
        cells = [nbformat.v4.new_code_cell(each) for each in (TEN_THOUSAND, "program")]
        kernel = {"name": "pellucid", "display_name": "Pellucid", "language": "python"}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        lab.open_stored_notebook("speed.ipynb", notebook)
        lab.wait_for_kernel()
        lab.command("notebook:run-cell")
        milliseconds = lab.page.evaluate(TIME_TO_FIRST_PICTURE)
        lab.shut_down_kernels()
    return milliseconds


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch_persistent_context(
            str(folder / "profile"),
            executable_path=chromium_path(),
            args=[*QUIET, "--disable-dev-shm-usage"],
            viewport={"width": 1400, "height": 900},
        )
        (folder / "jupyter").mkdir()
        opened = first_picture(browser, folder / "jupyter")
        viewer: dict[str, Any] = measure_samples(browser, folder / "samples")
        browser.close()
    bundle = sum(len(gzip.compress(path.read_bytes())) for path in BUNDLE.glob("*.js"))
    moves = [viewer[name] for name in ("flat_pan", "flat_zoom")]
    frames = min(each["frames_per_second"] for each in moves)
    paint = max(each["paint_ms"] for each in moves)
    one, five, _ = os.getloadavg()
    print(f"{os.cpu_count()} cores, load {one:.1f} in the last minute, {five:.1f} in the last five")
    for bound, amount in [
        (Bound("10,000 equations open, from the end of the cell", "ms", 1000), opened),
        (Bound("a level of them expands, median", "ms", 100), viewer["expand_10k_ms"]["median"]),
        (
            Bound(f"pan and zoom, {viewer['flat_boxes']} nodes in sight", "/s", 50, is_least=True),
            frames,
        ),
        (Bound("  of which the viewer's own work, for one frame", "ms", 20), paint),
        (Bound("100,000 equations open", "ms", 4000), viewer["open_100k_ms"]),
        (Bound("hover links, 10,000 equations", "ms", 50), viewer["hover_10k_ms"]),
        (Bound("record of 10,000 equations", "MB", 3), viewer["record_bytes_10k"] / 1e6),
        (Bound("kernel start, times the plain kernel's", "", 1.3), kernel_start_ratio()),
        (Bound("bundle of the extension, gzip", "MB", 2.5), bundle / 1e6),
        (Bound("sharding over 4,096 devices", "ms", 1000), viewer["sharding_4096_ms"]),
        (
            Bound("a function over 4,096 devices", "ms", 1000),
            viewer["sharded_function_4096_ms"],
        ),
        (Bound("what_if: a change of 12 layers over 512 devices", "ms", 2000), what_if_change()),
    ]:
        print(bound.row(amount))


if __name__ == "__main__":
    main()

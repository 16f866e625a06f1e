"""Makes the pictures of `docs/gallery/examples`: what the lab shows of programs of examples/.

Each figure is an expression of a program's own names; the package with a native function is built first. Chromium opens the page that `figure.save` writes. `python
tools/example_pictures.py [PROGRAM ...]`; needs the built viewer and playwright.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.browser.server import CHROMIUM_ARGUMENTS, chromium_path  # noqa: E402

FOLDER = ROOT / "docs" / "gallery" / "examples"
SIZE = (1200, 900)
DEVICES = 8
PATHS = {
    "ffi_project": "ffi_project/src/linear_recurrence/__init__.py",
    "onnx_import": "onnx_import/read_onnx.py",
    "run_exported": "run_exported/export_program.py",
}
"""Where programs are that consist of more than one file, in examples/."""
FIGURES = {
    "data_per_process": """jax.viz.sharding(jax.make_array_from_process_local_data(
        NamedSharding(jax.make_mesh((8,), ("data",)), P("data")), np.zeros((FILES * ROWS_OF_EACH, FEATURES + 1))))""",
    "decoder_with_cache": """jax.viz.program(next_logits)(
        initial_params(jax.random.key(0)), empty_cache(5), np.zeros(5, np.int32), 3)""",
    "digits_from_scratch": """jax.viz.program(jax.grad(loss))(
        initial_params(jax.random.key(0)), np.zeros((BATCH_SIZE, 64), np.float32), np.zeros(BATCH_SIZE, np.int32))""",
    "digits_sharded": """(lambda mesh: jax.viz.sharding(loss)(
        initial_params(jax.random.key(0), mesh),
        *jax.device_put((np.ones((BATCH_SIZE, 64), np.float32), np.zeros(BATCH_SIZE, np.int32)), NamedSharding(mesh, P("data")))))(
        jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2))""",
    "digits_with_nn": """jax.viz.program(loss)(
        initial_params(jax.random.key(0)), np.zeros((BATCH_SIZE, 8, 8, 1), np.float32), np.zeros(BATCH_SIZE, np.int32), jax.random.key(1))""",
    "diffusion": """jax.viz.program(sampled)(initial_params(jax.random.key(0)), jax.random.key(1))""",
    "ffi_project": """pl.viz.program(pl.grad(lambda decay, x: jnp.sum(linear_recurrence(decay, x) ** 2)))(
        jnp.full(64, 0.9), jnp.ones((8, 64)))""",
    "fluid": """jax.viz.compiled(jax.grad(loss))(np.ones((2, SIZE, SIZE), np.float32), blot(), ring())""",
    "gaussian_process": """jax.viz.program(jax.grad(loss))(
        {name: 0.0 for name in ("log_scale", "log_amplitude", "log_noise")}, *observations(60))""",
    "graph_network": """(lambda graph: jax.viz.program(loss)(
        {"into": np.ones((PEOPLE, HIDDEN), np.float32), "bias": np.ones(HIDDEN, np.float32), "out": np.ones((HIDDEN, GROUPS), np.float32)},
        graph, np.arange(8)))(acquaintances(np.random.default_rng(0)))""",
    "kalman_filter": """jax.viz.program(filtered)(np.zeros(2, np.float32), np.zeros(500, np.float32))""",
    "kernel_least_squares": """jax.viz.program(lambda points, values: fit(points, values, 30))(*samples(1000))""",
    "language_model": """jax.viz.program(logits)(
        initial_params(jax.random.key(0), 30), np.zeros((BATCH_SIZE, CONTEXT), np.int32))""",
    "mixture_of_experts": """(lambda mesh, params, x, y: jax.viz.sharding(jax.shard_map(
        loss, mesh=mesh, in_specs=(SPECS, P("expert"), P("expert")), out_specs=P()))(
            {name: jax.device_put(value, NamedSharding(mesh, SPECS[name])) for name, value in params.items()},
            *jax.device_put((x, y), NamedSharding(mesh, P("expert")))))(
        jax.make_mesh((8,), ("expert",), axis_types=(AxisType.Auto,)), initial_params(jax.random.key(0)), *points(np.random.default_rng(0)))""",
    "neural_ode": """jax.viz.program(jax.grad(loss))(
        initial_params(jax.random.key(0)), np.zeros((32, len(TIMES), 2), np.float32))""",
    "onnx_import": """(lambda network, params: pl.viz.program(network)(params, np.zeros((2, 1, 4, 4), np.float32)))(
        *read(ROOT / "tests" / "examples" / "model.onnx"))""",
    "policy_gradient": """jax.viz.program(episode)(initial_params(jax.random.key(0)), jax.random.key(1))""",
    "private_sgd": """jax.viz.program(private_gradients)(
        {"into": np.ones((64, 32), np.float32), "out": np.ones((32, 10), np.float32)},
        np.ones((BATCH_SIZE, 64), np.float32), np.zeros(BATCH_SIZE, np.int32), jax.random.key(1))""",
    "run_exported": """pl.viz.program(predict)(
        {"into": np.ones((4, 8), np.float32), "bias": np.ones(8, np.float32), "out": np.ones((8, 3), np.float32)}, np.ones((5, 4), np.float32))""",
    "variational_autoencoder": """jax.viz.program(loss)(
        initial_params(jax.random.key(0)), np.zeros((BATCH_SIZE, 64), np.float32), jax.random.key(1))""",
    "variational_inference": """jax.viz.program(loss)(
        {"mean": jnp.zeros(31), "log_deviation": jnp.zeros(31)}, jax.random.key(0), *patients())""",
}
"""What is shown of each program."""


def figure(name: str) -> Any:
    """The figure of a program."""
    path = ROOT / "examples" / PATHS.get(name, f"{name}.py")
    with tempfile.TemporaryDirectory() as built:
        if name == "ffi_project":
            build(path.parents[2], built)
        names = {"pl": import_module("pellucid"), "ROOT": ROOT, **runpy.run_path(str(path))}
        return eval(FIGURES[name], names)  # noqa: S307 (of the table above)


def build(project: Path, folder: str) -> None:
    """Build a project with a native function into a folder, and let its package be found there."""
    copy = shutil.copytree(project, Path(folder) / "project")
    command = [sys.executable, "setup.py", "-q", "build", "--build-lib", folder]
    subprocess.run(command, cwd=copy, check=True)
    sys.path.insert(0, folder)


def picture(browser: Browser, name: str) -> None:
    """Take the picture of a program's figure, as high as it needs to be."""
    context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
    page = context.new_page()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        figure(name).save(source)
        page.goto(source.as_uri())
        root = page.locator(".pl-root").first
        root.wait_for()
        page.wait_for_timeout(600)  # layouts come from a worker
        root.screenshot(path=FOLDER / f"{name}.png")
    context.close()


def main(names: list[str]) -> None:
    """Write the pictures of these programs, of all if there are none."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=CHROMIUM_ARGUMENTS
        )
        for name in names or FIGURES:
            picture(browser, name)
        browser.close()


if __name__ == "__main__":
    os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", str(DEVICES))
    main(sys.argv[1:])

"""The C++ program that runs exported functions is built, and agrees with pellucid where there is a PJRT plugin for it."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import export

FOLDER = Path(__file__).parents[2] / "examples" / "run_exported"
VARIABLE = "PELLUCID_PJRT_PLUGIN"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler g++")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("built") / "run_exported"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["g++", *options, FOLDER / "run_exported.cc", "-o", built, "-ldl"], check=True)
    return built


@pytest.fixture
def plugin() -> str:
    path = os.environ.get(VARIABLE)
    spec = importlib.util.find_spec("lammps_jax_pjrt_cpu")
    if path is None and spec is not None and spec.origin is not None:
        path = str(Path(spec.origin).with_name("pjrt_c_api_cpu_plugin.so"))
    if path is None:
        pytest.skip(f"no PJRT plugin: {VARIABLE} names none, lammps-jax-pjrt-cpu isn't installed")
    return path


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    return subprocess.run(
        [program, *map(str, arguments)], env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_what_it_does_not_take(program: Path, tmp_path: Path) -> None:
    assert "usage" in run(program).stderr
    done = run(program, tmp_path / "absent.so", "a", "b")
    assert done.returncode == 1
    assert "absent.so" in done.stderr
    other = ctypes.util.find_library("m")
    assert "is no PJRT plugin: it has no GetPjrtApi" in run(program, other, "a", "b").stderr


def test_the_example_gives_what_pellucid_gives(program: Path, plugin: str, tmp_path: Path) -> None:
    arguments = runpy.run_path(str(FOLDER / "export_program.py"))["main"](tmp_path)
    done = run(program, plugin, tmp_path / "predict.mlirbc", tmp_path / "result", *arguments)
    assert done.returncode == 0, done.stderr
    for i in range(2):
        result, expected = np.load(tmp_path / f"result{i}.npy"), np.load(tmp_path / f"expected{i}.npy")  # fmt: skip
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def export_to(folder: Path, function, *args: np.ndarray) -> list[Path]:
    exported = export.export(pl.jit(function))(*args)
    (folder / "program").write_bytes(exported.mlir_module_serialized)
    paths = [folder / f"argument{i}.npy" for i in range(len(args))]
    for path, array in zip(paths, args, strict=True):
        np.save(path, array)
    return paths


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("bool", (3,)), ("int8", ()), ("uint16", (2, 3, 4)), ("int32", (2, 0)), ("float16", (2, 3)),
     ("float32", ()), ("complex64", (3, 2))],
)  # fmt: skip
def test_arrays_arrive_and_return(
    program: Path, plugin: str, tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    moves = lambda x: (jnp.moveaxis(x, 0, -1) if x.ndim else x, jnp.equal(x, 1))
    paths = export_to(tmp_path, moves, x)
    done = run(program, plugin, tmp_path / "program", tmp_path / "result", *paths)
    assert done.returncode == 0, done.stderr
    moved, ones = np.load(tmp_path / "result0.npy"), np.load(tmp_path / "result1.npy")
    np.testing.assert_array_equal(moved, np.moveaxis(x, 0, -1) if x.ndim else x)
    assert (moved.dtype, ones.dtype) == (x.dtype, np.dtype(bool))
    np.testing.assert_array_equal(ones, x == 1)


def test_errors_of_the_plugin_and_of_files_are_told(
    program: Path, plugin: str, tmp_path: Path
) -> None:
    paths = export_to(tmp_path, lambda x: x + 1, np.ones(3, np.float32))

    def error(name: str, *arguments: Path) -> str:
        done = run(program, plugin, tmp_path / name, tmp_path / "r", *arguments)
        assert done.returncode == 1
        return done.stderr

    assert "1" in error("program")  # the number of arguments
    (tmp_path / "broken").write_bytes(b"no program")
    assert error("broken", *paths)
    np.save(paths[0], np.asfortranarray(np.ones((2, 3), np.float32)))
    assert "Fortran" in error("program", *paths)
    paths[0].write_bytes(paths[0].read_bytes()[:-2].replace(b"True", b"False"))
    assert "doesn't hold what its header says" in error("program", *paths)
    np.save(paths[0], np.array(["text"]))
    assert "dtype <U4" in error("program", *paths)

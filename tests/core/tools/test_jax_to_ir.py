"""The command that writes the program of a function to files."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.extend import mlir
from pellucid.tools import jax_to_ir

PROGRAM = """
import pellucid.numpy as jnp

def fn(x, y, z, w):
    return jnp.dot(x, y) / z + w
"""
SHAPES = '[("y", "f32[128,32]"), ("x", "f32[8,128]")]'


def test_the_command_writes_both_files(tmp_path) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM)
    constants = ["--constants", '{"z": 3.5}', "--evaled_constants", '{"w": "[1.0]"}']
    files = ["--ir_dest", "fn.pb", "--ir_human_dest", "fn.txt"]
    subprocess.run(
        [sys.executable, "-m", "pellucid.tools.jax_to_ir", "--fn", "prog.fn", "--input_shapes", SHAPES,
         *constants, *files],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True,
    )  # fmt: skip
    text = (tmp_path / "fn.txt").read_text()
    assert text.startswith("HloModule jit_fn")
    assert "(f32[128,32]{1,0}, f32[8,128]{1,0})->f32[8,32]{1,0}" in text
    assert "constant(3.5)" in text
    assert mlir.hlo_to_stablehlo((tmp_path / "fn.pb").read_bytes())[:4] == b"ML\xefR"


def test_a_portable_artifact(tmp_path) -> None:
    jax_to_ir.main([
        "--fn", "pellucid.numpy.dot", "--input_shapes", '{"a": "s32[2]", "b": "s32[2]"}',
        "--ir_format", "STABLEHLO", "--ir_dest", str(tmp_path / "add"),
    ])  # fmt: skip
    module = mlir.deserialize_portable_artifact((tmp_path / "add").read_bytes())
    assert "stablehlo.dot" in str(module)


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [("f32[]", (), "float32"), ("pred[2]", (2,), "bool"), (" bf16[1, 2] ", (1, 2), "bfloat16"),
     ("s8[3]", (3,), "int8"), ("i8[3]", (3,), "int8"), ("c64[0]", (0,), "complex64")],
)  # fmt: skip
def test_shapes(text, shape, dtype) -> None:
    assert jax_to_ir.parse_shape_str(text) == pl.ShapeDtypeStruct(shape, np.dtype(dtype))


@pytest.mark.parametrize("text", ["f32", "f32[2", "x9[2]", "f32[-1]", "f32[a]"])
def test_bad_shapes(text) -> None:
    with pytest.raises(ArgumentValueError, match="a dtype and sizes"):
        jax_to_ir.parse_shape_str(text)


def test_bad_arguments(capsys) -> None:
    struct = jax_to_ir.parse_shape_str("f32[]")
    with pytest.raises(ArgumentValueError, match="can only write HLO and StableHLO"):
        jax_to_ir.jax_to_ir(abs, [("x", struct)], format="TF")
    with pytest.raises(ArgumentValueError, match="both: \\['x'\\]"):
        jax_to_ir.jax_to_ir(abs, [("x", struct)], constants={"x": 1}, format="HLO")
    with pytest.raises(SystemExit):
        jax_to_ir.main(["--fn", "a.b", "--input_shapes", "[]"])
    assert "at least one of --ir_dest" in capsys.readouterr().err

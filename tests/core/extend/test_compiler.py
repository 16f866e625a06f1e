"""Modules as bytes, and functions of the user that transform what XLA compiles."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base import config
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CompilationError,
    PlatformError,
)
from pellucid.extend import lowering, mlir, xla
from pellucid.interpreters import mlir as rules

STAGES = list(xla.PipelineStage)


def _nine_for_seven(module: bytes) -> bytes:
    return module.replace(np.float32(7).tobytes(), np.float32(9).tobytes())


@pytest.mark.parametrize("stage", STAGES)
def test_programs_are_compiled_anew_where_transformations_change(stage) -> None:
    times_seven = pl.jit(lambda x: x * 7)
    x = np.float32(2)
    assert times_seven(x) == 14
    xla.register_hlo_module_transformation(_nine_for_seven, name="nine", stage=stage)
    try:
        assert times_seven(x) == 18
        other = STAGES[1 - STAGES.index(stage)]
        assert not xla.clear_hlo_module_transformation("nine", other)
        assert times_seven(x) == 18
    finally:
        assert xla.clear_hlo_module_transformation("nine", stage)
    assert times_seven(x) == 14
    assert not xla.clear_hlo_module_transformation("nine", stage)


def test_transformations_of_one_platform() -> None:
    calls = []
    xla.register_hlo_module_transformation(calls.append, name="count", platforms=["cpu", "cuda"])
    assert not xla.clear_hlo_module_transformation("count", platforms="tpu")
    assert xla.clear_hlo_module_transformation("count", platforms="cpu")
    assert pl.jit(lambda x: x + 3)(np.float32(1)) == 4
    assert calls == []
    assert xla.clear_hlo_module_transformation("count")
    assert not xla.clear_hlo_module_transformation("count")


def test_an_error_of_a_transformation_is_one_of_the_program() -> None:
    def bad(module: bytes) -> None:
        raise ValueError("no such module")

    xla.register_hlo_module_transformation(bad, name="bad")
    try:
        with pytest.raises(CompilationError, match="no such module"):
            pl.jit(lambda x: x + 5)(np.float32(1))
    finally:
        xla.clear_hlo_module_transformation("bad")


def test_transformed_programs_are_not_kept_on_disk(tmp_path) -> None:
    with (
        config.compilation_cache_dir(str(tmp_path)),
        config.persistent_cache_min_compile_time_secs(0),
    ):
        xla.register_hlo_module_transformation(_nine_for_seven, name="nine")
        try:
            assert float(pl.jit(lambda x: x * 7 + 1)(np.float32(2))) == 19
        finally:
            xla.clear_hlo_module_transformation("nine")
        assert float(pl.jit(lambda x: x * 7 + 1)(np.float32(2))) == 15
        assert len(list(tmp_path.glob("*.executable"))) == 1


def test_bad_transformations_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="needs a function"):
        xla.register_hlo_module_transformation(3, name="three")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="must be a PipelineStage"):
        xla.clear_hlo_module_transformation("x", 0)  # type: ignore[arg-type]
    with pytest.raises(PlatformError, match="no platform 'abacus'"):
        xla.register_hlo_module_transformation(len, name="x", platforms="abacus")  # type: ignore[arg-type]


def test_modules_as_bytes() -> None:
    lowered = pl.jit(lambda x: pl.numpy.sin(x) + 1).lower(np.ones(3, np.float32))
    module = lowered.compiler_ir()
    artifact = mlir.serialize_portable_artifact(module, "1.9.0")
    context = rules.make_ir_context()
    again = mlir.deserialize_portable_artifact(artifact, context)
    assert again.context is context or again.context == context
    assert "stablehlo.sine" in str(again)
    hlo = lowered.compiler_ir("hlo")
    stablehlo = mlir.hlo_to_stablehlo(hlo.as_serialized_hlo_module_proto())
    plain = lowering.JaxIrContext()
    plain.append_dialect_registry(lowering.upstream_dialects)
    plain.load_all_available_dialects()
    assert "stablehlo.sine" in str(rules.ir.Module.parse(stablehlo, context))
    for function in (
        mlir.deserialize_portable_artifact, mlir.hlo_to_stablehlo, mlir.refine_polymorphic_shapes,
    ):  # fmt: skip
        with pytest.raises(ArgumentValueError):
            function(b"something else")
    with pytest.raises(ArgumentValueError, match="no portable artifact of this version"):
        mlir.serialize_portable_artifact(module, "0.0.1")

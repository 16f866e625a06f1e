"""The lens with kernels after each pass of TPUs' compiler, and with kernels for Hopper GPUs; compilers are needed only where a test says so."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis
from pellucid._machine.xla import plugins, tpu_passes
from pellucid._machine.xla.tpu_passes import PassesFailedError, PassText
from pellucid.analysis import comparisons
from pellucid.errors import ArgumentValueError
from pellucid.experimental.pallas import BlockSpec, mosaic_gpu, pallas_call, tpu
from pellucid.introspect import mosaic_passes

X = np.zeros((32, 128), np.float32)
ROWS = BlockSpec((8, 128), lambda i: (i, 0))


def double(x_ref, o_ref):
    y = x_ref[...] * 2
    o_ref[...] = y


def called(params):
    return pallas_call(double, X, grid=4, in_specs=[ROWS], out_specs=ROWS, compiler_params=params)


def text_of(operation, id):
    return (
        "module {\n"
        f'  %0 = {operation} %arg0 {{kind = "a (b)"}} : vector<8x128xf32> loc(#loc2)\n'
        "} loc(#loc)\n"
        "#loc = loc(unknown)\n"
        '#loc1 = loc("kernel.py":3:8)\n'
        f'#loc3 = loc("e{id}:"(#loc1))\n'
        '#loc2 = loc("mul"(#loc3))\n'
    )


@pytest.fixture
def passes(monkeypatch):
    """Lets the compiler be there, and give these texts, or fail with them."""
    calls = []
    ids = {}
    own = mosaic_passes.mosaic_passes

    def read(equation, **options):
        """Notes the ids of the equations of the kernel, which each trace has anew."""
        ids.update({e.primitive.name: e.id for e in equation.params.kernel.body.jaxpr.equations})
        return own(equation, **options)

    monkeypatch.setattr(comparisons, "mosaic_passes", read)

    def put(*operations, failure=None):
        def run(module, topology, seconds, report):
            calls.append((topology, str(module).count("tpu_custom_call")))
            report("canonicalize", 1.5)
            texts = [PassText(name, text_of(each, ids["mul"])) for name, each in operations]
            if failure is not None:
                raise PassesFailedError(failure, texts)
            return texts

        monkeypatch.setattr(mosaic_passes, "tpu_passes", run)
        return calls

    return put


def test_passes_that_change_a_kernel_follow_it_with_its_lines(passes):
    calls = passes(
        ("original", "arith.mulf"), ("canonicalize", "arith.mulf"), ("lower-to-llo", "llo.vmul.f32")
    )
    said = []
    report = lambda text, seconds: said.append(text)
    record = analysis.lens(called(tpu.CompilerParams()), X, chip="v5e", report=report)
    given, after = record.programs[3:]
    assert (after.dialect, after.name) == ("mosaic", "double after lower-to-llo")
    assert record.notes[3].endswith("; 1 of 2 passes changed it")
    assert after.listing is not None
    assert after.listing.text.split("\n")[1] == (
        '  %0 = llo.vmul.f32 %arg0 {kind = "a (b)"} : vector<8x128xf32>'
    )
    [row] = [row for row in after.listing.line_equations if row >= 0]
    assert row == 0
    assert any(s.name.endswith("test_mosaic_passes.py") for s in after.sources)
    assert given.name == "double"
    assert (len(calls), said) == (1, ["passes of `double` for v5e: canonicalize"])
    assert record.links[-1].source_ids


def test_a_compiler_that_stops_leaves_the_passes_before(passes):
    passes(("original", "a.b"), ("x", "c.d"), failure="E1001")
    record = analysis.lens(called(tpu.CompilerParams()), X, chip="v5e")
    assert record.notes[3].endswith("1 of 1 passes changed it; the compiler stopped: E1001")
    assert record.programs[4].name == "double after x"


def test_without_the_compiler_a_row_says_what_to_install(monkeypatch):
    monkeypatch.setattr(tpu_passes, "tpu_library", lambda: None)
    record = analysis.lens(called(tpu.CompilerParams()), X, chip="v5e")
    assert "pip install 'pellucid[tpu-aot]'" in record.notes[3]
    assert len(record.programs) == 4
    with pytest.raises(ArgumentValueError, match="there is no such TPU"):
        analysis.lens(called(tpu.CompilerParams()), X, chip="v99")


def test_a_process_that_does_not_end_is_ended(monkeypatch, tmp_path):
    """The compiler's process is any that runs this module: here one that finds no library, and one for which no time is left."""
    monkeypatch.setattr(tpu_passes, "tpu_library", lambda: tmp_path / "libtpu.so")
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    lowered = pl.jit(lambda x: x + 1).lower(1.0).compiler_ir()
    with pytest.raises(PassesFailedError, match="hasn't ended after 0 seconds"):
        tpu_passes.tpu_passes(lowered, "v5e:2x2", 0)


def test_kernels_for_gpus_have_a_pane():
    record = analysis.lens(called(mosaic_gpu.CompilerParams()), X)
    found = record.programs[3]
    assert (found.dialect, found.name) == ("mosaic_gpu", "double")
    assert found.listing is not None
    assert "gpu.launch" in found.listing.text
    note = record.notes[3]
    assert "registers per thread" in note or "pip install" in note


@pytest.mark.skipif(
    plugins.tpu_library() is None, reason="no compiler of TPUs is installed: the extra `tpu-aot`"
)
@pytest.mark.timeout(200)
def test_the_compiler_of_tpus_gives_its_passes():
    record = analysis.lens(called(tpu.CompilerParams()), X, chip="v5e")
    names = [program.name.partition(" after ")[2] for program in record.programs[4:]]
    assert "apply-vector-layout" in names
    listings = [program.listing for program in record.programs[4:]]
    assert all(each and max(each.line_equations) >= 0 for each in listings)

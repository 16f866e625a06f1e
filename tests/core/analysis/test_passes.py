"""A program after each pass that changed it, ours and XLA's."""

import importlib
import itertools

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis
from pellucid._machine.base.events import CompilationFinished, counting

X = jnp.ones((8, 8))


@pl.jit
def inner(z):
    return jnp.tanh(z @ z) * 2.0


def outer(x):
    _ = jnp.cos(x)
    return inner(x) + jnp.sin(x).sum()


def texts(record):
    return [
        [program.strings[name] for name in program.equations.primitive]
        for program in record.programs
    ]


def test_passes_that_changed_something_are_states_in_order() -> None:
    record = analysis.passes(outer, X)
    titles = record.transformations
    assert titles[:2] == ["", "remove dead equations"]
    assert titles.index("StableHLO") < titles.index("HLO") < titles.index("fusion")
    assert record.sources == [*range(-1, len(titles) - 1)]
    names = dict(zip(titles, texts(record), strict=True))
    assert "cos" in names[""]
    assert "cos" not in names["remove dead equations"]
    assert "fusion" in names["fusion"]
    keys = [program.key for program in record.programs]
    assert len({*keys}) == len(keys)
    assert [(each.source, each.target) for each in record.links] == [*itertools.pairwise(keys)]
    fused = record.links[titles.index("fusion") - 1]
    assert fused.source_ids, "the fusions hold operations that were there before"
    for one, other in itertools.pairwise(record.programs):
        assert one.listing != other.listing


def test_ours_alone_need_no_compiler() -> None:
    with counting(CompilationFinished) as compiled:
        record = analysis.passes(outer, X, with_xla=False)
    assert compiled.count == 0
    assert record.transformations[-1] == "StableHLO"


def test_what_is_dumped_is_neither_kept_nor_compiled_for_the_user() -> None:
    jitted = pl.jit(outer)
    analysis.passes(jitted, X)
    with counting(CompilationFinished) as compiled:
        jitted(X)
    assert compiled.count == 1


def test_states_of_small_changes_are_left_out_of_large_records(monkeypatch) -> None:
    whole = analysis.passes(outer, X)
    sizes = [len(program.equations.id) for program in whole.programs]
    passes = importlib.import_module("pellucid.analysis.passes")  # the package has the function
    assert sum(sizes) < passes.MAX_OPERATIONS
    monkeypatch.setattr(passes, "MAX_OPERATIONS", sum(sizes) * 2 // 3)
    record = analysis.passes(outer, X)
    assert sum(len(program.equations.id) for program in record.programs) <= sum(sizes) * 2 // 3
    shown = record.transformations
    assert ", ".join(filter(None, shown)) == ", ".join(filter(None, whole.transformations))
    assert {"StableHLO", "HLO"} <= {each.rpartition(", ")[2] for each in shown}
    assert record.programs[-1].listing == whole.programs[-1].listing
    keys = [program.key for program in record.programs]
    assert [(each.source, each.target) for each in record.links] == [*itertools.pairwise(keys)]

"""Writes sample records as JSON: `python -m tests.introspect.sample_records FOLDER [NAME …]`.

The front end's tests and the viewer's benchmark read them, so both languages test the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pellucid as pl
from pellucid.analysis import program
from tests.introspect import (
    sample_arrays as arrays,
    sample_comparisons as comparisons,
    sample_facts as facts,
    sample_grids as grids,
    sample_profiles as profiles,
    sample_programs as programs,
    sample_recordings as recordings,
    sample_runs as runs,
    sample_shardings as shardings,
    sample_stages as stages,
    traced_programs as traced,
    twelve_programs as twelve,
)

SAMPLES: dict[str, Callable[[], object]] = {
    "mlp": lambda: programs.mlp().record(),
    "transformer": lambda: programs.transformer().record(),
    "transformer_calls": lambda: programs.transformer_calls().record(),
    "control_flow": lambda: programs.control_flow().record(),
    "hostile": lambda: programs.hostile().record(),
    "empty": lambda: programs.empty().record(),
    "nothing": lambda: programs.nothing().record(),
    "transformer_unscoped": lambda: programs.transformer(scoped=False).record(),
    "equations_10k": lambda: programs.transformer("equations_10k", layers=16, stages=10).record(),
    "equations_10k_unscoped": lambda: programs.transformer(
        "equations_10k_unscoped", layers=160, scoped=False
    ).record(),
    "equations_100k": lambda: programs.transformer(
        "equations_100k", layers=160, stages=10
    ).record(),
    "train_step": traced.train_step,
    "gradient_program": traced.gradient,
    "pattern": traced.pattern,
    "compiled_step": traced.compiled_step,
    "compiled": traced.compiled,
    "timed_compiled": traced.timed_compiled,
    "wide": lambda: programs.wide().record(),
    "mesh": traced.mesh,
    "what_if": traced.what_if,
    "sharding_simple": shardings.simple,
    "sharding_replicated": shardings.replicated,
    "sharding_uneven": shardings.uneven,
    "sharding_unreduced": shardings.unreduced,
    "sharding_vector": shardings.vector,
    "sharding_scalar": shardings.scalar,
    "sharding_4d": shardings.four_dims,
    "sharding_4096": shardings.large,
    "sharded_function": shardings.function,
    "sharded_calls": shardings.calls,
    "sharded_unevenly": shardings.uneven_constraint,
    "sharded_function_4096": shardings.function_4096,
    "sharded_function_10k": shardings.function_10k,
    "lens": stages.lens,
    "ladder": stages.ladder,
    "diff": stages.diff,
    "diff_large": stages.diff_large,
    "diff_nested": stages.diff_nested,
    "diff_wrapped": traced.diff_wrapped,
    "array_values": arrays.plane,
    "array_values_parts": arrays.with_parts,
    "array_values_deleted": arrays.deleted,
    "divergence": comparisons.divergence,
    "divergence_equal": comparisons.equal,
    "divergence_10k": lambda: comparisons.divergence(10_000),
    "gradient": comparisons.gradient,
    "finding": comparisons.finding,
    "unequal_runs": comparisons.unequal_runs,
    "gradient_empty": comparisons.no_gradients,
    "kernel_program": lambda: program(
        grids.product(64, 16), grids.like(64, 64), grids.like(64, 64)
    ),
    "grid_1": grids.single,
    "grid_64": lambda: grids.matmul(64, 16),
    "grid_4096": lambda: grids.matmul(512, 32),
    "grid_million": lambda: grids.matmul(1600, 16),
    "grid_causal": grids.causal,
    "grid_unseen": grids.unseen,
    "grid_race": grids.race,
    "grid_overlapping": grids.overlapping,
    "memories_product": grids.memory_of_product,
    "memories_small": grids.memory_of_small,
    "memories_none": grids.memory_of_none,
    "runs_blocks": runs.blocks,
    "runs_pipeline": runs.pipeline,
    "runs_gather": runs.gather,
    "runs_256_steps": runs.long_ring,
    "runs_deadlock": runs.deadlock,
    "runs_race": runs.race,
    "runs_empty": runs.empty,
    "memory": facts.memory,
    "miss": facts.miss,
    "misses": facts.misses,
    "function": facts.function,
    "error": facts.error,
    "recording": recordings.run,
    "recording_empty": recordings.empty,
    "profile": lambda: profiles.session().record(),
    "profile_empty": lambda: profiles.empty().record(),
    "profile_comparison": lambda: profiles.comparison().record(),
    "profile_10k": lambda: profiles.session(10_000, 3, 2).record(),
    "profile_8_devices": lambda: profiles.session(60, 5, 8).record(),
    **{name: partial(twelve.record, make) for name, make in twelve.PROGRAMS.items()},
}

OF_EACH_KIND = (
    "train_step", "lens", "ladder", "diff", "compiled", "sharding_4d", "sharded_calls", "what_if", "profile_8_devices",
    "profile_comparison", "recording", "gradient", "divergence", "finding", "unequal_runs", "array_values_parts", "memory", "miss", "misses",
    "function", "error", "grid_causal", "runs_gather", "memories_product",
)  # fmt: skip
"""A sample of each kind of record that is shown by itself. What holds of every view is tested with these."""


def write(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        record = SAMPLES[name]()
        text = json.dumps(record.to_dict(), separators=(",", ":"), allow_nan=False)  # type: ignore[attr-defined]
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    # As in the tests: runs on eight devices are among the samples.
    pl.config.update("jax_num_cpu_devices", 8)
    write(Path(sys.argv[1]), sys.argv[2:] or list(SAMPLES))

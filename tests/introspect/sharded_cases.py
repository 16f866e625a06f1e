"""The sharded programs of the corpora, and what is asked of each."""

from collections.abc import Callable
from typing import Any

import pytest
from corpus import explicit_programs, manual_programs, sharded_programs
from corpus.recording import Recording

import pellucid as pl
from benchmarks import transformer
from pellucid.introspect.errors import PellucidError

QUICK = {
    "data_parallel", "fully_sharded", "embedding", "scanned_layers", "sorted_and_summed",
    "ring_attention", "axes_left_to_the_compiler",
}  # fmt: skip


def transformer_step(jax: Any) -> Any:
    """A step of training a transformer of 12 layers, cut along both axes of a mesh."""
    types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=types)

    def placed(x: Any, *spec: Any) -> Any:
        return jax.device_put(
            x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
        )

    columns, rows = (None, "model"), ("model",)
    cut = {"q": columns, "k": columns, "v": columns, "up": columns, "o": rows, "down": rows}
    parameters = jax.tree_util.tree_map_with_path(
        lambda path, x: placed(x, *cut.get(path[-1].key, ())), transformer.parameters(pl)
    )
    ids = placed(transformer.tokens(pl), "data")
    return jax.jit(transformer.train_step(jax, jit_layers=True))(parameters, ids)


def cases() -> list[Any]:
    """The programs as parameters of tests; those that are not `QUICK` rotate."""
    actual: dict[str, Any] = {
        f.__name__: lambda jax, f=f, a=a: f(jax, *a) for f, a in sharded_programs.PROGRAMS
    }
    actual |= {f.__name__: f for f in (*explicit_programs.PROGRAMS, transformer_step)}
    actual |= {
        name: lambda jax, name=name: manual_programs.value(jax, name)
        for name in manual_programs.PROGRAMS
        if name not in manual_programs.NESTED and name not in actual
    }
    return [
        pytest.param(program, id=name, marks=() if name in QUICK else pytest.mark.rotates)
        for name, program in actual.items()
    ]


def told(program: Callable[[Any], Any], ask: Callable[..., Any]) -> list[Any]:
    """Results of `ask(jitted, *args)` for the functions that a program calls; it refuses where the call is refused."""
    actual, refused, raised = [], [], []

    def note(jitted: Any, args: Any) -> None:
        try:
            actual.append(ask(jitted, *args))
        except PellucidError as error:
            refused.append(type(error))

    try:
        program(Recording(pl, note))
    except PellucidError as error:
        raised.append(type(error))
    assert refused == raised
    return actual

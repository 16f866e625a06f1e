"""Ordered effects of programs over several devices: once for all devices, in order, across sets of devices too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.debug
from pellucid._machine.ir.avals import abstract_token, shaped_array
from pellucid._machine.ir.effects import Effect
from pellucid._machine.ir.primitive import NO_PARAMS, Primitive
from pellucid._machine.ir.traits import HOST
from pellucid._machine.tracing.trace import bind
from pellucid._machine.xla.mlir import ir
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec as P


class Noting(Effect):
    """The effect of `Note`."""

    ordered = True


EFFECT = Noting()
noted: list[Any] = []


class Note(Primitive[Any]):
    """Hands its operand to Python."""

    name = "test_note"
    traits = HOST.replace(returns_list=False)

    def abstract_eval(self, avals: tuple[Any, ...], params: Any) -> Sequence[Any]:
        return [shaped_array((), np.dtype(bool))]

    def effects(self, avals: tuple[Any, ...], params: Any) -> Any:
        return frozenset({EFFECT})

    def lower(self, ctx: Any, operands: Sequence[Any], params: Any) -> Sequence[Any]:
        def host(token: Any, value: Any) -> tuple[Any, ...]:
            noted.append(np.array(value))
            return token, np.array(True)

        index = len(ctx.host_callbacks)
        ctx.host_callbacks.append(host)
        unsigned = ir.IntegerType.get_unsigned(64)

        def layout(rank: int) -> Any:
            order = np.arange(rank - 1, -1, -1, dtype=np.int64)
            return ir.DenseIntElementsAttr.get(order, type=ir.IndexType.get())

        ranks = [0, ctx.avals_in[0].ndim]
        call = ctx.op(
            "stablehlo.custom_call",
            ctx.types([abstract_token, *ctx.avals_out]),
            [ctx.tokens[EFFECT], *operands],
            {
                "call_target_name": ctx.string("xla_ffi_python_cpu_callback"),
                "api_version": ctx.integer(4, 32),
                "has_side_effect": ctx.boolean(True),
                "backend_config": ir.DictAttr.get({"index": ir.IntegerAttr.get(unsigned, index)}),
                "operand_layouts": ir.ArrayAttr.get([layout(rank) for rank in ranks]),
                "result_layouts": ir.ArrayAttr.get([layout(0), layout(0)]),
                **ctx.on_one_device(2),
            },
        )
        ctx.tokens[EFFECT], result = call.results
        return [result]


note_p = Note()


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    noted.clear()
    yield
    pl.effects_barrier()


def test_python_is_called_once_for_all_devices_and_in_order() -> None:
    mesh = Mesh(np.array(pl.devices()[:8]), ("x",))

    def program(x: Any) -> Any:
        bind(note_p, x, params=NO_PARAMS)
        bind(note_p, x + 1, params=NO_PARAMS)
        return x * 2

    jitted = pl.jit(program)
    x = np.arange(8, dtype=np.float32)
    for place in (NamedSharding(mesh, P("x")), pl.devices()[3], NamedSharding(mesh, P())):
        np.testing.assert_array_equal(jitted(pl.device_put(x, place)), x * 2)
    pl.effects_barrier()
    np.testing.assert_array_equal(noted, [x, x + 1] * 3)


def test_callbacks_get_whole_values_once(capsys: pytest.CaptureFixture[str]) -> None:
    mesh = Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))
    x = pl.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
    calls: list[Any] = []

    def host(value: Any) -> np.ndarray:
        calls.append(np.array(value))
        return np.asarray(value) * 2

    def program(x: Any) -> Any:
        pl.debug.print("sum {}", x.sum())
        pl.debug.print("first {}", x[0], ordered=True)
        return pl.pure_callback(host, pl.ShapeDtypeStruct((8,), np.float32), x) + x

    np.testing.assert_array_equal(pl.jit(program)(x), np.arange(8) * 3)
    pl.effects_barrier()
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "first 0.0", "sum 28.0"]
    np.testing.assert_array_equal(calls, [np.arange(8)])

"""Small programs whose results are defined to the bit are compiled quickly, and give the bits of the usual compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compilation import usual_options

import pellucid as pl
from pellucid import lax, nn, numpy as jnp
from pellucid._machine.compilation import pipeline
from pellucid._machine.compilation.options import HAS_OLD_EMITTERS
from pellucid._machine.lowering import brief_programs
from pellucid.sharding import NamedSharding, PartitionSpec as P

_CPU = pl.default_backend() == "cpu"
pytestmark = pytest.mark.skipif(
    not _CPU or not HAS_OLD_EMITTERS,
    reason="a choice of XLA's options for CPUs, which newer ones don't have",
)

_SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-42,
    -1e38,
    3e9,
    -3e9,
    2.5,
    3.5,
    127.5,
    -129.0,
    1e10,
]
FLOATS = np.array([*_SPECIAL, *np.random.default_rng(0).standard_normal(16)], np.float32)  # fmt: skip
OTHERS = np.roll(FLOATS, 7)
INTEGERS = np.array(
    [0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 33, 5, -5, 100, 31, 32, -31, 64, 2], np.int32
)
FACTORS = np.roll(INTEGERS, 5)
POSITIONS = np.array([3, 3, -1, 40, 0, 5, 31, 3], np.int32)
KEY = pl.random.key(7)

BRIEF: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add": (lambda x, y: x + y, (FLOATS, OTHERS)),
    "subtract": (lambda x, y: x - y, (FLOATS, OTHERS)),
    "multiply": (lambda x, y: x * y, (FLOATS, OTHERS)),
    "divide": (lambda x, y: x / y, (FLOATS, OTHERS)),
    "add a number": (lambda x: x + 0.1, (FLOATS,)),
    "multiply by a number": (lambda x: x * 0.1, (FLOATS,)),
    "compare": (lambda x, y: x > y, (FLOATS, OTHERS)),
    "where": (lambda i, x, y: jnp.where(i > 0, x[:16], y[:16]), (INTEGERS, FLOATS, OTHERS)),
    "move": (lambda x: jnp.concatenate([x[2:9], x[::-3]]).reshape(3, -1).T, (FLOATS,)),
    "pad": (lambda x: lax.pad(x, np.float32(-0.0), [(1, 2, 1)]), (FLOATS,)),
    "take": (lambda x, i: x[i], (FLOATS, POSITIONS)),
    "set": (lambda x, y, i: x.at[i].set(y[:8]), (FLOATS, OTHERS, POSITIONS)),
    "count": (lambda x, i: x.at[i].add(1), (INTEGERS, POSITIONS)),
    "update a slice": (lambda x, y: lax.dynamic_update_slice(x, y[:3], (30,)), (FLOATS, OTHERS)),
    "quotients of integers": (lambda x, y: (lax.div(x, y), lax.rem(x, y)), (INTEGERS, FACTORS)),
    "integers": (lambda x, y: (x * y, x - y, -x, abs(x), jnp.sign(x), x ^ y), (INTEGERS, FACTORS)),
    "shifts": (lambda x, y: (x << y, x >> y, lax.shift_right_logical(x, y)), (INTEGERS, FACTORS)),
    "sum of integers": (lambda x: (x.sum(), x.max(), (x > 0).all()), (INTEGERS,)),
    "from integers": (lambda x: x.astype(np.float32), (INTEGERS,)),
    "to integers": (lambda x: x.astype(np.int32), (FLOATS,)),
    "to bytes": (lambda x: x.astype(np.int8), (FLOATS,)),
    "to unsigned": (lambda x: x.astype(np.uint8), (FLOATS,)),
    "to flags": (lambda x: x.astype(bool), (FLOATS,)),
    "bits": (lambda k: pl.random.bits(k, (8,)), (KEY,)),
    "split": (lambda k: pl.random.key_data(pl.random.split(k, 4)), (KEY,)),
    "full": (lambda: jnp.full((4, 5), 0.1), ()),
    "iota": (lambda: jnp.arange(7), ()),
}  # fmt: skip

OTHER_PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "exp": (jnp.exp, (FLOATS,)),
    "product": (lambda x: x @ x, (FLOATS,)),
    "sum": (lambda x: x.sum(), (FLOATS,)),
    "sum at positions": (lambda x, i: x.at[i].add(0.5), (FLOATS, POSITIONS)),
    "two roundings": (lambda x: x * x - 0.1, (FLOATS,)),
    "divided by a number": (lambda x: x / 3, (FLOATS,)),
    "selected extreme": (lambda x, y: jnp.where(x > y, x, y), (FLOATS, OTHERS)),
    "greater of floats": (jnp.maximum, (FLOATS, OTHERS)),
    "half precision": (lambda x: x + x, (jnp.asarray(FLOATS, "bfloat16"),)),
    "to half precision": (lambda x: x.astype("bfloat16"), (FLOATS,)),
    "complex": (lambda x: x * x, (FLOATS.astype(np.complex64),)),
    "loop": (lambda x: lax.fori_loop(0, 9, lambda i, x: x ^ i, x), (INTEGERS,)),
    "branch": (lambda x: lax.cond(x[0] > 0, lambda x: x, lambda x: -x, x), (INTEGERS,)),
    "call": (lambda x: pl.jit(lambda x: x << 1)(x) + pl.jit(lambda x: x >> 1)(x), (INTEGERS,)),
    "large": (lambda x: x + x, (np.ones(brief_programs.MAX_ELEMENTS + 1, np.int32),)),
    "sum of many": (lambda x: x.sum(), (np.ones(brief_programs.MAX_ELEMENTS + 1, np.int32),)),
    "softmax": (nn.softmax, (FLOATS,)),
}  # fmt: skip


def _is_brief(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    seen: list[bool] = []

    def notes(module: Any) -> bool:
        seen.append(brief_programs.is_brief(module))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "is_brief", notes)
        pl.clear_caches()
        pl.jit(function).lower(*arguments).compile()
    return seen[-1]


def _bits(function: Callable[..., Any], arguments: tuple[Any, ...], *, is_brief: bool) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "is_brief", lambda _: is_brief)
        patch.setattr(pipeline, "compile_options", usual_options)
        pl.clear_caches()
        results = pl.tree.leaves(pl.jit(function)(*arguments))
        pl.clear_caches()
    return [np.asarray(result) for result in results]


@pytest.mark.parametrize("name", BRIEF)
def test_brief_programs_give_the_bits_of_the_usual_compilation(name: str) -> None:
    function, arguments = BRIEF[name]
    assert _is_brief(function, arguments)
    quick = _bits(function, arguments, is_brief=True)
    usual = _bits(function, arguments, is_brief=False)
    for mine, other in zip(quick, usual, strict=True):
        np.testing.assert_array_equal(mine, other)
        if mine.dtype.kind == "f":
            are_numbers = ~np.isnan(mine)  # IEEE 754 leaves the sign of NaN open
            np.testing.assert_array_equal(
                np.signbit(mine)[are_numbers], np.signbit(other)[are_numbers]
            )


def test_double_precision_is_brief_too() -> None:
    with pl.enable_x64():
        x = FLOATS.astype(np.float64)
        assert _is_brief(lambda x: x / x[::-1], (x,))
        assert not _is_brief(lambda x: x * x + x, (x,))


@pytest.mark.parametrize("name", OTHER_PROGRAMS)
def test_other_programs_are_compiled_as_usual(name: str) -> None:
    assert not _is_brief(*OTHER_PROGRAMS[name])


def test_programs_over_devices_are_compiled_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[dict[str, Any]] = []
    options = pipeline.compile_options

    def notes(devices: Any, overrides: Any = (), **keywords: Any) -> Any:
        chosen.append(dict(overrides))
        return options(devices, overrides, **keywords)

    monkeypatch.setattr(pipeline, "compile_options", notes)
    mesh = pl.make_mesh((4,), ("a",), devices=pl.devices()[:4])
    placed = pl.device_put(np.arange(8), NamedSharding(mesh, P("a")))
    pl.jit(lambda x: x + 5).lower(placed).compile()
    assert "xla_cpu_use_fusion_emitters" not in chosen[-1]
    pl.jit(lambda x: x + 5).lower(np.arange(8)).compile()
    assert chosen[-1]["xla_cpu_use_fusion_emitters"] is False


def test_users_options_win(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = pl.jit(lambda x: x + 5).lower(np.arange(8))
    with pytest.raises(pl.errors.CompilerOptionError):
        lowered.compile({"xla_backend_optimization_level": "high"})
    lowered.compile({"xla_backend_optimization_level": 2, "xla_cpu_use_fusion_emitters": True})

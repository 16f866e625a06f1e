"""Options of XLA for one compilation."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid._machine.base import config
from pellucid._machine.base.errors import ConfigError
from pellucid._machine.compilation.options import keeps_apart, overrides
from pellucid._machine.xla import flags

YNNPACK = "xla_cpu_experimental_ynn_fusion_type"


def test_programs_of_many_calls_keep_them():
    chosen = dict(overrides((), "cpu", calls=3, largest_contraction=0))
    assert chosen["xla_disable_hlo_passes"] == "call-inliner"
    assert chosen["xla_cpu_opt_preset"] == "CPU_OPT_PRESET_FAST_COMPILE"
    assert not overrides((), "cpu", calls=2, largest_contraction=0)


def test_other_platforms_decide_themselves():
    with flags.overridden(keeps_apart, True):
        assert not overrides((), "cuda", calls=12, largest_contraction=8)


def test_operations_are_kept_apart_also_where_calls_are_kept():
    with flags.overridden(keeps_apart, True):
        assert dict(overrides((), "cpu", 3, 0))["xla_disable_hlo_passes"] == "fusion,call-inliner"

        @pl.jit
        def scaled(x):
            return x * 2.0 + 1.0

        function = lambda x: scaled(x) + scaled(x * 3) + scaled(x * 5)
        text = pl.jit(function).lower(np.ones(4, np.float32)).compile().as_text()
    # Each kernel has one operation; the function is still called.
    assert " call(" in text
    for body in text.split("\n\n"):
        assert body.count(" multiply(") + body.count(" add(") <= 1 or "fused" not in body


@pytest.mark.parametrize(("products", "chosen"), [(0, False), (2**20, True), (2**20 + 1, False)])
def test_small_contractions_need_no_library(products, chosen):
    assert (YNNPACK in dict(overrides((), "cpu", 1, products))) is chosen


def test_the_user_wins():
    mine = (("xla_disable_hlo_passes", ""), (YNNPACK, ""))
    assert dict(overrides(mine, "cpu", 3, 8)).items() >= dict(mine).items()


@pytest.mark.parametrize(
    ("batch", "n", "by_library"), [(1, 96, False), (1, 128, True), (2, 64, False), (16, 64, True)]
)
def test_which_products_go_to_the_library(batch, n, by_library):
    x = np.ones((batch, n, n), np.float32)
    text = pl.jit(lambda x: x @ x).lower(x).compile().as_text()
    assert ("ynn_fusion" in text) is by_library


@pytest.mark.parametrize(("requested", "level"), [("O0", 0), ("O3", 3), (1, 1)])
def test_optimization_levels(requested, level):
    with config.optimization_level(requested):
        chosen = dict(overrides((), "cpu", 1, 0))
        assert chosen == {"xla_backend_optimization_level": level}
        assert pl.jit(lambda x: x + level)(1.0) == 1 + level


@pytest.mark.parametrize("requested", ["O4", 4, -1, "fast", True, 1.5])
def test_other_optimization_levels_are_refused_when_they_are_set(requested):
    with pytest.raises(ConfigError, match=r"(?s)optimization_level.*'O0'"):
        pl.config.update("jax_optimization_level", requested)


@pytest.mark.parametrize("requested", ["UNKNOWN", None])
def test_optimization_is_left_to_the_compiler(requested):
    with config.optimization_level(requested):
        assert not overrides((), "cpu", 1, 0)


def goes_to_the_library(f, x):
    text = pl.jit(f).lower(x).compile().as_text()
    return "ynn_fusion" in text


def test_products_in_loops_go_to_the_library():
    x = np.ones((16, 16), np.float32)
    layer = pl.jit(lambda x: x @ x)

    def looped(x):
        return lax.fori_loop(0, 3, lambda _, x: layer(x), x)

    assert not goes_to_the_library(layer, x)
    assert goes_to_the_library(looped, x)
    assert goes_to_the_library(lambda x: looped(layer(x)), x)
    assert not goes_to_the_library(lambda x: layer(lax.fori_loop(0, 3, lambda _, x: x + 1, x)), x)

"""A primitive without a row fails here."""

from pellucid._machine.base import config
from pellucid._machine.ir.primitive import registry
from tests.laws.sample import all_samples, lax

lax()  # loads every module of primitives

WITHOUT: dict[str, str] = {
    "after_all": "its operands and results are tokens; tests/core/primitives/test_staging.py uses it",
    "create_token": "it has no operands, and a token as result; as above",
    "dim_as_value": "it has a value only in programs of symbolic shapes; tests/core/export/test_symbolic.py uses it",
    "dce_sink": "it has no results, which rows compare; as above",
    "layout_constraint": "the identity, of the reference's experimental module; tests/core/primitives/test_layout_constraint.py",
    "pvary": "made inside shard_map only; tests/core/parallel and test_collectives.py use it",
    "call": "closed_call under another name, for the rules of libraries",
    "closed_call": "made by checkify and by remat_opt; tests/core/checks and the file of custom rules use it",
    "custom_lin": "made only by reverse mode of custom_vjp; tests/core/higher_order/test_own_rules.py uses it",
    "geqrf": "made by `numpy.linalg.qr` for its raw form; tests/core/numpy/test_linalg.py",
    "native_call": "made by lowering rules of decompositions, whose rows run it",
    "remat_opt": "made only by reverse mode of custom_vjp with optimize_remat; the same file uses it",
    "preduced": "made inside shard_map only; tests/core/parallel/test_addends.py compares its uses with the reference",
    "reduced_vary_cast": "likewise",
    "vary_unreduced_cast": "likewise",
    "unreduced_vary_cast": "made by the debugger, to show addends; tests/kernel/debug/test_stepping.py steps with it",
    "reduced_same_cast": "likewise",
    "add_any": "made only by differentiation, whose laws use it",
    "reshard": "rows name no devices; tests/core/primitives/test_sharding_constraint.py checks its rules",
    "select_and_gather_add": "made only by differentiation of windowed extrema, whose laws use it",
    "select_and_scatter_add": "made only by differentiation of windowed extrema, whose laws use it",
    "sharding_constraint": "rows name no devices; the law of sharding puts it on all operands of all rows",
    "xla_metadata_value": "the identity, of the reference's experimental module; tests/core/primitives/test_metadata.py",
}
"""Primitives that need no row, with the reason."""


LAYERS = (
    "pellucid._machine.primitives",
    "pellucid._machine.higher_order",
    "pellucid._machine.linalg",
    "pellucid.random",
    "pellucid.experimental.sparse",
)
CHECKED = sorted(
    name for name, primitive in registry.items() if type(primitive).__module__.startswith(LAYERS)
)


def test_every_primitive_has_a_sample() -> None:
    sampled: set[str] = set()
    for sample in all_samples():
        with config.enable_x64(sample.needs_x64):
            sampled |= sample.primitives()
    missing = set(CHECKED) - sampled - set(WITHOUT)
    assert not missing, "add a row to a file of tests/laws/samples"


def test_exceptions_exist() -> None:
    assert set(WITHOUT) <= set(registry)

"""Public modules: they gather names, and only names that users of the reference know."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import missing_api  # noqa: E402  (a tool, which is no package)

from tools import public_api  # noqa: E402

OURS = {
    "pellucid": {
        "Observer",
        "device_put_replicated",
        "device_put_sharded",
        "explain_misses",
        "observe",
    },
    "pellucid.distributed": {"KeyValueStore", "barrier", "key_value_store", "report_error"},
    "pellucid.errors": {"PellucidError"},
    "pellucid.profiler": {
        "Profile",
        "Session",
        "annotate",
        "load",
        "perfetto_trace",
        "profile",
        "save_perfetto",
        "start",
        "step",
        "stop",
    },
    "pellucid.sharding": {"use_mesh"},  # as releases before 0.10 spelled it
}
"""Names that the reference does not have."""

MODULES = [name for name in missing_api.reference_names() if missing_api.exists(name)]


@pytest.mark.parametrize("name", MODULES)
def test_every_listed_name_exists_and_is_known(name):
    module = importlib.import_module(name)
    listed = public_api.names_of(module)
    if listed is None:
        pytest.skip("lists nothing")
    assert len(set(listed)) == len(listed)
    assert [n for n in listed if not hasattr(module, n)] == []
    known = {*missing_api.reference_names()[name], *OURS.get(name, ())}
    assert set(listed) <= known, "names that the reference does not have"


def test_most_modules_are_looked_at():
    assert {"pellucid.lax", "pellucid.tree_util", "pellucid.sharding"} <= set(MODULES)


def test_names_of_a_module_that_is_not_there_are_all_missing():
    assert missing_api.missing_names("pellucid.nowhere.at_all", ["a", "b"]) == ["a", "b"]


def test_a_missing_name_is_found():
    assert missing_api.missing_names("pellucid.lax", ["add", "no_such_operation"]) == [
        "no_such_operation"
    ]


def test_submodules_load_when_they_are_first_used():
    pellucid = importlib.import_module("pellucid")
    for name in pellucid._SUBMODULES:
        assert getattr(pellucid, name).__name__ == f"pellucid.{name}"


def test_errors_are_caught_by_the_names_of_the_reference():
    import numpy as np

    import pellucid as pl
    from pellucid import errors, lax

    def run(function, x=1.0):
        pl.jit(function)(x)

    cases = [
        (errors.TracerBoolConversionError, lambda x: 1 if x else 2),
        (errors.TracerIntegerConversionError, lambda x: [1, 2][x.astype(int)]),
        (errors.TracerArrayConversionError, np.asarray),
    ]
    for error, function in cases:
        with pytest.raises(error) as caught:
            run(function)
        assert isinstance(caught.value, errors.ConcretizationTypeError)
        assert isinstance(caught.value, TypeError)
    leaked = []
    run(lambda x: leaked.append(x))
    with pytest.raises(errors.UnexpectedTracerError) as caught:
        lax.add(leaked[0], 1.0)
    assert isinstance(caught.value, errors.JAXTypeError)

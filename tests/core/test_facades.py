"""Public modules: they gather names, and only names that users of the reference know."""

import ast
import fnmatch
import importlib
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import pellucid.errors
from tools import missing_api, public_api

OURS = {
    "pellucid": {
        "Observer",
        "device_put_replicated",
        "device_put_sharded",
        "exact_arithmetic",
        "explain_misses",
        "masked_gradients",
        "observe",
    },
    "pellucid.distributed": {"KeyValueStore", "barrier", "key_value_store", "report_error"},
    # All classes of errors of ours: another test holds that they are there.
    "pellucid.errors": {
        name
        for name, x in vars(pellucid.errors).items()
        if getattr(x, "__module__", "") == "pellucid.errors"
    },
    "pellucid.numpy.linalg": {"hermitian_function"},
    "pellucid.test_util": {
        "LawError",
        "check_adjoint",
        "check_batching",
        "check_laws",
        "check_lowering",
        "check_reference",
        "check_sharding",
        "check_symbolic_sizes",
        "check_types",
    },
    # In the reference they are in modules below this one.
    "pellucid.experimental.sparse": {"SparseInfo", "bcoo_eliminate_zeros", "bcsr_eliminate_zeros"},
    "pellucid.profiler": {
        "Profile",
        "Session",
        "Comparison",
        "HeapRow",
        "annotate",
        "findings",
        "guided_options",
        "memory_by_line",
        "merge",
        "read_xspace",
        "report",
        "Compilation",
        "Finding",
        "Peaks",
        "detail",
        "load",
        "measure_peaks",
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

MODULES = [
    name
    for name in missing_api.reference_names()
    if isinstance(missing_api.owner_of(name), types.ModuleType)
]


@pytest.mark.parametrize("name", MODULES)
def test_every_listed_name_exists_and_is_known(name):
    module = importlib.import_module(name)
    listed = public_api.names_of(module)
    if listed is None:
        pytest.skip("lists nothing")
    assert len(set(listed)) == len(listed)
    assert [n for n in listed if not hasattr(module, n)] == []
    expected = {*missing_api.reference_names()[name], *OURS.get(name, ())}
    assert set(listed) <= expected, "names that the reference does not have"


def test_most_modules_are_looked_at():
    assert {"pellucid.lax", "pellucid.tree_util", "pellucid.sharding"} <= set(MODULES)


def test_names_of_a_module_that_is_not_there_are_all_missing():
    nowhere = missing_api.coverage("pellucid.nowhere.at_all", {"a": None, "b": "x"})
    assert (nowhere.exists, nowhere.missing, nowhere.compatible) == (False, ["a", "b"], 0)


def test_missing_and_incompatible_names_are_found():
    lax = missing_api.coverage("pellucid.lax", {"add": "x, y", "sub": "x", "no_such": "x, y"})
    assert lax.missing == ["no_such"]
    assert lax.incompatible == {"sub": "y is required"}
    assert lax.compatible == 1


def test_attributes_of_objects_are_compared():
    for name in missing_api.OBJECTS:
        assert f"pellucid.{name}" in missing_api.reference_api()
        assert missing_api.owner_of(f"pellucid.{name}") is not None


@pytest.mark.parametrize(
    ("theirs", "ours", "difference"),
    [
        ("x, axis=None", lambda x, axis=None: 0, None),
        ("x, axis=None", lambda x, axis=None, more=1, *, extra=2: 0, None),
        ("x, /", lambda y: 0, None),
        ("x", lambda x, /: 0, "x is no keyword at place 0"),
        ("x, axis=None", lambda x, *, axis=None: 0, "no axis at place 1"),
        ("x, axis=None", lambda axis, x: 0, "x is no keyword at place 0"),
        ("x, *, axis=None", lambda x: 0, "no axis"),
        ("x, axis=0", lambda x, axis=1: 0, "axis=1, not 0"),
        ("x, axis=...", lambda x, axis=1: 0, None),
        ("x, axis=0", lambda x, axis: 0, "axis has no default"),
        ("x", lambda x, y: 0, "y is required"),
        ("x", lambda x, *, y: 0, "y is required"),
        ("*args, out=None", lambda x, y, out=None: 0, None),
        ("*args", lambda: 0, "no *args"),
        ("x, _private=1", lambda x: 0, None),
        ("x", 3, "not callable"),
    ],
)
def test_parameters_are_compatible_if_calls_bind_the_same(theirs, ours, difference):
    assert missing_api.difference_of(theirs, ours) == difference


def test_submodules_load_when_they_are_first_used():
    pellucid = importlib.import_module("pellucid")
    for name in pellucid._SUBMODULES:
        assert getattr(pellucid, name).__name__ == f"pellucid.{name}"


def test_type_checkers_see_the_same_names():
    path = Path(pellucid.__file__).with_name("__init__.pyi")
    names = {"P"} if "\nP = PartitionSpec\n" in path.read_text(encoding="utf-8") else set()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom):
            names |= {alias.asname for alias in statement.names if alias.asname}
    assert names == {*pellucid.__all__, *pellucid._SUBMODULES}


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


def test_every_missing_or_incompatible_name_has_a_reason():
    page = (missing_api.ROOT / "docs" / "api-differences.md").read_text(encoding="utf-8")
    table = page.partition("| names | reason |\n")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()]
    patterns = re.findall(r"`([^`]+)`", " ".join(cells))
    names = [
        f"{each.module}.{name}".removeprefix("pellucid.")
        for each in missing_api.all_coverage()
        for name in (*each.missing, *each.incompatible)
    ]
    assert [n for n in names if not any(fnmatch.fnmatchcase(n, p) for p in patterns)] == []


def test_every_error_of_the_machine_is_among_the_public_ones():
    code = """
import importlib, pkgutil
import pellucid, pellucid._machine, pellucid.errors
for module in pkgutil.walk_packages(pellucid._machine.__path__, "pellucid._machine."):
    importlib.import_module(module.name)
kinds = [pellucid.errors.PellucidError]
for kind in kinds:
    kinds += [each for each in kind.__subclasses__() if each not in kinds]
    module = importlib.import_module(kind.__module__)
    assert not kind.__module__.startswith("pellucid._machine"), kind
    assert getattr(module, kind.__name__) is kind, kind
assert len(kinds) > 60
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

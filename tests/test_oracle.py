"""The oracle answers truly, survives its worker, and keeps `jax` out of this process."""

import dataclasses
import os
import sys
import types

import ml_dtypes
import numpy as np
import pytest
from corpus import probes
from oracle import (
    Failure,
    Key,
    Leaf,
    Oracle,
    OracleCrash,
    OracleError,
    OracleTimeout,
    Outcome,
    assert_same,
    evaluate,
)


def test_a_result_comes_back_with_structure_dtype_and_value(oracle):
    outcome = oracle.run(probes.double, np.arange(3, dtype=np.float32))
    assert outcome.structure == "PyTreeDef({'none': None, 'twice': *})"
    [leaf] = outcome.leaves
    assert (leaf.kind, leaf.dtype, leaf.shape, leaf.weak_type) == ("array", "float32", (3,), False)
    np.testing.assert_array_equal(leaf.array, [0, 2, 4])


def test_ml_dtypes_travel_both_ways(oracle):
    x = np.arange(3).astype(ml_dtypes.bfloat16)
    [leaf] = oracle.run(probes.double, x).leaves
    assert leaf.array.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(leaf.array, x + x)


def test_weak_types_and_python_values_are_told_apart(oracle):
    weak, strong, number, text = oracle.run(probes.weak).leaves
    assert (weak.weak_type, weak.dtype) == (True, "float32")
    assert (strong.weak_type, strong.dtype) == (False, "int8")
    assert (number.kind, number.text) == ("python", "3")
    assert text.text == "'text'"


def test_keys_travel_as_raw_data(oracle):
    key = Key("threefry2x32", np.array([0, 1], np.uint32))
    [leaf] = oracle.run(probes.split_key, key).leaves
    assert (leaf.kind, leaf.text, leaf.dtype, leaf.shape) == (
        "key",
        "threefry2x32",
        "key<fry>",
        (2,),
    )
    assert leaf.array.shape == (2, 2)


def test_a_jaxpr_comes_back_as_text(oracle):
    assert "mul" in oracle.run(probes.double, np.ones(2, np.float32), jaxpr=True).jaxpr


def test_an_exception_comes_back_as_class_and_text(oracle):
    failure = oracle.run(probes.fail, "lost").failure
    assert (failure.name, failure.text, failure.builtin) == ("KeyError", "'lost'", "KeyError")
    assert "probes.py" in failure.traceback
    with pytest.raises(AssertionError, match="lost"):
        oracle.call(probes.fail, "lost")


def test_the_built_in_ancestor_of_an_exception_is_found(oracle):
    assert oracle.run(probes.wrong_shapes).failure.builtin in ("TypeError", "ValueError")


def test_warnings_come_back_and_prints_do_no_harm(oracle):
    outcome = oracle.run(probes.chatter)
    assert ("UserWarning", "look out") in outcome.warnings
    assert outcome.leaves[0].shape == (2,)


def test_call_gives_plain_data(oracle):
    assert oracle.call(probes.Nested.method) == "found"


def test_options_have_workers_of_their_own(oracle, oracle_x64, oracle_8_devices):
    assert oracle.call(probes.device_count) == (1, "float32")
    assert oracle_x64.call(probes.device_count) == (1, "float64")
    assert oracle_8_devices.call(probes.device_count) == (8, "float32")


def test_the_worker_is_started_once_and_is_another_process(oracle):
    first = oracle.call(probes.process_id)
    assert first == oracle.call(probes.process_id) != os.getpid()
    assert "jax" not in sys.modules


@pytest.fixture
def own_oracle(oracle):
    """An oracle that a test may break."""
    broken = Oracle()
    yield broken
    broken.close()


def test_a_worker_that_dies_is_reported_and_replaced(own_oracle):
    before = own_oracle.call(probes.process_id)
    with pytest.raises(OracleCrash, match=r"status 3.*(\n.*)*dying now"):
        own_oracle.call(probes.die)
    assert own_oracle.call(probes.process_id) != before


def test_a_worker_that_hangs_is_stopped_and_replaced(own_oracle):
    before = own_oracle.call(probes.process_id)
    with pytest.raises(OracleTimeout, match="sleep"):
        own_oracle.call(probes.sleep, 60.0, timeout=0.2)
    assert own_oracle.call(probes.process_id) != before


def test_local_functions_are_refused(oracle):
    with pytest.raises(OracleError, match="can't be found by name"):
        oracle.call(lambda jax: None)


def test_a_module_with_pellucid_is_refused(oracle, tmp_path, monkeypatch):
    (tmp_path / "needs_pellucid.py").write_text("import pellucid\ndef f(jax): pass\n")
    function = types.FunctionType((lambda jax: None).__code__, {}, "f")
    function.__module__, function.__qualname__ = "needs_pellucid", "f"
    local = Oracle()
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(OracleError, match="imports pellucid"):
            local.call(function)
    finally:
        local.close()


def _outcome(array, **changes):
    leaf = Leaf("array", "", str(array.dtype), array.shape, array=array)
    return Outcome((dataclasses.replace(leaf, **changes),), "PyTreeDef(*)")


def test_outcomes_that_differ_in_anything_are_told_apart():
    theirs = _outcome(np.ones(3, np.float32))
    assert_same(theirs, theirs)
    assert_same(_outcome(np.ones(3, np.float32) + 1e-6), theirs)
    different = [
        _outcome(np.ones(3, np.float32) + 1e-3),
        _outcome(np.ones(3, np.float64)),
        _outcome(np.ones(2, np.float32)),
        _outcome(np.ones(3, np.float32), weak_type=True),
        dataclasses.replace(theirs, structure="PyTreeDef([*])"),
        dataclasses.replace(theirs, leaves=()),
    ]
    for ours in different:
        with pytest.raises((AssertionError, ValueError)):
            assert_same(ours, theirs)
    assert_same(_outcome(np.ones(3, np.float32), weak_type=True), theirs, weak_types=False)


def test_failures_agree_by_their_built_in_class():
    class Ours(KeyError):
        pass

    library = types.SimpleNamespace(tree=types.SimpleNamespace(map=lambda f, tree: tree))

    def outcome(error):
        def program(library):
            raise error

        return evaluate(library, program, ())

    assert_same(outcome(Ours("x")), outcome(KeyError("y")), fails=True)
    with pytest.raises(AssertionError, match="the oracle raised TypeError"):
        assert_same(outcome(Ours("x")), outcome(TypeError("y")), fails=True)
    with pytest.raises(AssertionError, match="no error here"):
        assert_same(_outcome(np.ones(1)), outcome(TypeError("y")), fails=True)


def test_failures_do_not_pass_for_results():
    failed = Outcome(failure=Failure("TypeError", ("TypeError",), "y", "the traceback"))
    for ours in (failed, _outcome(np.ones(1))):
        with pytest.raises(AssertionError, match="the traceback"):
            assert_same(ours, failed)
    with pytest.raises(AssertionError, match="the oracle raised no error"):
        assert_same(failed, _outcome(np.ones(1)), fails=True)

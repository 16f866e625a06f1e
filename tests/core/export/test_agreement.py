"""Files travel both ways: jax runs what pellucid exported, and pellucid what jax 0.10.2 did (`artifacts`)."""

import importlib.util

import numpy as np
import pytest

import pellucid as pl
from pellucid import export
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec
from tests.corpus import exported as programs
from tests.corpus.exported import CUT, FOLDER, PARAMS, SCALE, X

CALLS = {
    "layer": (programs.call, (X, PARAMS), {"scale": SCALE}),
    "eigenvalues": (programs.call, (CUT[:4],), {}),
    "by_platform": (programs.call, (X,), {}),
    "uniform": (programs.call_with_key,),
}
needs_flatbuffers = pytest.mark.skipif(
    importlib.util.find_spec("flatbuffers") is None, reason="jax.export needs flatbuffers"
)


def artifact(name):
    return (FOLDER / f"{name}.bin").read_bytes()


@pytest.fixture(scope="module")
def ours():
    return programs.exports(pl)


def expected(name):
    program = getattr(programs, name)
    if name == "uniform":
        return program(pl, pl.random.key(1))
    _, args, kwargs = CALLS[name]
    return program(pl, *args, **kwargs)


def assert_close(result, answer):
    leaves, tree = pl.tree.flatten(result)
    others, other_tree = pl.tree.flatten(answer)
    assert tree == other_tree
    for x, y in zip(leaves, others, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_programs_of_jax_run_here(name):
    program, *arguments = CALLS[name]
    assert_close(program(pl, artifact(name), *arguments), expected(name))


def test_derivatives_in_files_of_jax_are_used():
    def norm(x):
        gradient = pl.grad(lambda x: programs.layer(pl, x, PARAMS, SCALE)["y"].sum())(x)
        return (gradient**2).sum()

    result = programs.second_derivative(pl, artifact("layer"))
    np.testing.assert_allclose(result, pl.grad(norm)(X), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["products", "symbolic_products"])
def test_programs_of_jax_over_a_mesh_run_here(name):
    y, is_placed, gradient = programs.over_devices(pl, artifact(name))
    np.testing.assert_allclose(y, CUT @ CUT.T, rtol=1e-6)
    np.testing.assert_allclose(gradient, np.broadcast_to(2 * CUT.sum(0), CUT.shape), rtol=1e-6)
    assert is_placed


def symbolic_answers():
    """The answers of `programs.symbolic_calls`, without an export."""

    def loss(x, y):
        return sum((leaf**2).sum() for leaf in pl.tree.leaves(programs.symbolic(pl, x, y)))

    answers = []
    for x in (X, CUT):
        answers += pl.tree.leaves(programs.symbolic(pl, x, CUT[:6]))
        answers += [*pl.grad(loss, (0, 1))(x, CUT[:6]), pl.grad(lambda x: loss(x, x[:2]))(x)]
    return answers


def test_symbolic_programs_of_jax_run_here():
    assert_close(programs.symbolic_calls(pl, artifact("symbolic")), symbolic_answers())


@pytest.mark.oracle
@needs_flatbuffers
def test_jax_runs_our_symbolic_programs(ours, oracle_8_devices):
    theirs = oracle_8_devices.run(programs.symbolic_calls, ours["symbolic"]).require_result()
    for leaf, y in zip(theirs.leaves, symbolic_answers(), strict=True):
        np.testing.assert_allclose(leaf.array, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*CALLS, "products", "dtypes", "symbolic", "symbolic_products"])
def test_files_say_the_same_as_those_of_jax(name, ours):
    mine, theirs = (programs.types(pl, blob) for blob in (ours[name], artifact(name)))
    assert mine == theirs


def test_shardings_are_those_of_jax(ours):
    mine, theirs = (export.deserialize(blob) for blob in (ours["products"], artifact("products")))
    for name in ("_in_named_shardings", "_out_named_shardings"):
        [a], [b] = getattr(mine, name), getattr(theirs, name)
        assert a.spec == b.spec
        assert a.mesh.shape_tuple == b.mesh.shape_tuple == (("x", 4), ("y", 2))


def test_shardings_come_back_over_a_mesh(ours):
    mesh = Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))
    again = export.deserialize(ours["products"])
    assert again.in_shardings_jax(mesh) == (NamedSharding(mesh, PartitionSpec("x", "y")),)
    assert again.out_shardings_jax(mesh) == (NamedSharding(mesh, PartitionSpec("x")),)
    with pytest.raises(export.ExportError, match="a mesh of another shape"):
        again.in_shardings_jax(Mesh(np.array(pl.devices()[:8]), ("x",)))


@pytest.mark.oracle
@needs_flatbuffers
@pytest.mark.parametrize("name", CALLS)
def test_jax_runs_our_programs(name, ours, oracle_8_devices):
    program, *arguments = CALLS[name]
    theirs = oracle_8_devices.run(program, ours[name], *arguments).require_result()
    answer = pl.tree.leaves(expected(name))
    for leaf, y in zip(theirs.leaves, answer, strict=True):
        np.testing.assert_allclose(leaf.array, y, rtol=1e-5, atol=1e-6)


@pytest.mark.oracle
@needs_flatbuffers
def test_jax_uses_our_derivatives_and_shardings(ours, oracle_8_devices):
    [second] = oracle_8_devices.run(programs.second_derivative, ours["layer"]).leaves
    np.testing.assert_allclose(
        second.array, programs.second_derivative(pl, ours["layer"]), rtol=1e-4, atol=1e-6
    )
    for name in ("products", "symbolic_products"):
        y, is_placed, gradient = oracle_8_devices.run(programs.over_devices, ours[name]).leaves
        np.testing.assert_allclose(y.array, CUT @ CUT.T, rtol=1e-6)
        np.testing.assert_allclose(
            gradient.array, np.broadcast_to(2 * CUT.sum(0), CUT.shape), rtol=1e-6
        )
        assert is_placed.text == "True"

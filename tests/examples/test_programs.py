"""What programs of examples/ compute, against what it is known to be."""

from __future__ import annotations

import os
import runpy
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.sharding import AxisType, PartitionSpec as P

ROOT = Path(__file__).parents[2]


def program(name: str) -> dict[str, Any]:
    """The names that the program defines."""
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


@pytest.mark.slow
def test_the_cache_changes_nothing() -> None:
    decoder = program("decoder_with_cache")
    params = pl.tree.map(lambda x: 8 * x, decoder["initial_params"](pl.random.key(1)))
    sequences = decoder["examples"](np.random.default_rng(1), 5)
    whole = decoder["logits"](params, sequences)
    cache = decoder["empty_cache"](5)
    for place in range(decoder["LENGTH"]):
        scores, cache = decoder["next_logits"](params, cache, sequences[:, place], place)
        np.testing.assert_allclose(scores, whole[:, place], rtol=1e-4, atol=1e-3)
    prompts = sequences[:, : decoder["DIGITS"] + 1]
    written = decoder["written"](params, prompts)
    assert len(np.unique(written)) > 2
    np.testing.assert_array_equal(written, decoder["written_without_cache"](params, prompts))


def test_the_adjoint_of_the_fluid_is_its_derivative() -> None:
    with pl.enable_x64(True):
        fluid = program("fluid")
        rng = np.random.default_rng(0)
        flow, direction = rng.normal(size=(2, 2, fluid["SIZE"], fluid["SIZE"]))
        loss = pl.jit(partial(fluid["loss"], smoke=fluid["blot"](float), target=fluid["ring"](float)))  # fmt: skip
        along = float(jnp.vdot(pl.jit(pl.grad(loss))(flow), direction))
        step = 1e-6
        difference = (loss(flow + step * direction) - loss(flow - step * direction)) / (2 * step)
        np.testing.assert_allclose(along, difference, rtol=1e-6)
        after, smoke = fluid["after"](flow, fluid["blot"](float))
        waves = np.fft.fftfreq(fluid["SIZE"])
        waves[fluid["SIZE"] // 2] = 0  # of which the grid shows the zeros of the slope
        spectrum = np.fft.fft2(fluid["without_sources"](after))
        assert np.abs(waves[:, None] * spectrum[0] + waves * spectrum[1]).max() < 1e-10
        assert float(smoke.min()) >= 0


@pytest.mark.parametrize("capacity", [64, 2])
def test_experts_over_devices_compute_what_one_device_computes(capacity: int) -> None:
    """With places for all, each point gets its expert's function; where there are two, the first two of each device do."""
    experts = program("mixture_of_experts")
    count = experts["EXPERTS"]
    params = experts["initial_params"](pl.random.key(2))
    x, y = experts["points"](np.random.default_rng(1))
    mesh = pl.make_mesh((count,), ("expert",), axis_types=(AxisType.Auto,))
    over = partial(pl.shard_map, mesh=mesh, in_specs=(experts["SPECS"], P("expert"), P("expert")))

    def one_device(params, x, y):
        probabilities = pl.nn.softmax(x @ params["router"])
        chosen = jnp.argmax(probabilities, axis=1)
        hidden = pl.nn.relu(jnp.einsum("nd,ndh->nh", x, params["into"][chosen]))
        results = jnp.einsum("nh,nhd->nd", hidden, params["out"][chosen])
        results = results * jnp.take_along_axis(probabilities, chosen[:, None], axis=1)
        by_device = pl.nn.one_hot(chosen, count).reshape(count, -1, count)
        place = jnp.sum(jnp.cumsum(by_device, axis=1) * by_device, axis=-1).reshape(-1, 1)
        load = jnp.mean(pl.nn.one_hot(chosen, count), axis=0)
        unequal = count * jnp.sum(load * jnp.mean(probabilities, axis=0))
        results = x + jnp.where(place <= capacity, results, 0)
        return jnp.mean((results - y) ** 2) + experts["BALANCE"] * unequal

    def eight_devices(params, x, y):
        results, unequal = experts["layer"](params, x, capacity)
        error = pl.lax.pmean(jnp.mean((results - y) ** 2), "expert")
        return error + experts["BALANCE"] * unequal

    ours = pl.jit(pl.value_and_grad(over(eight_devices, out_specs=P())))(params, x, y)
    expected = pl.jit(pl.value_and_grad(one_device))(params, x, y)
    pl.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), ours, expected)


def test_neighbours_are_gathered_as_a_matrix_does_it() -> None:
    graph = program("graph_network")
    groups, senders, receivers = graph["acquaintances"](np.random.default_rng(3))
    count = graph["PEOPLE"]
    matrix = np.zeros((count, count))
    matrix[receivers, senders] = 1
    assert (matrix == matrix.T).all()
    root = np.diag(matrix.sum(axis=0) ** -0.5)
    x = np.random.default_rng(4).normal(size=(count, 3)).astype(np.float32)
    gathered = graph["gathered"](x, senders, receivers)
    np.testing.assert_allclose(gathered, root @ matrix @ root @ x, rtol=1e-4, atol=1e-5)
    assert np.bincount(groups).tolist() == [count // graph["GROUPS"]] * graph["GROUPS"]


def test_points_of_the_moons_are_near_them() -> None:
    diffusion = program("diffusion")
    points = diffusion["moons"](pl.random.key(0), 500)
    assert float(diffusion["distances"](points).max()) < 0.3
    assert float(diffusion["distances"](jnp.array([[-0.5, 0.75]]))[0]) == pytest.approx(0, abs=1e-6)
    # The middle of the upper circle is a radius away from it, and nearer to the other one.
    middle = diffusion["distances"](jnp.array([[-0.5, -0.25]]))[0]
    assert float(middle) == pytest.approx(np.hypot(1, 0.5) - 1, abs=1e-6)


def test_a_pole_falls_by_its_weight_and_a_cart_gets_its_push() -> None:
    balance = program("policy_gradient")
    moved = balance["moved"]
    seconds = balance["STEP_SECONDS"]
    right, left = (moved(jnp.array([0.0, 0.0, 0.0, 0.0]), action) for action in (1, 0))
    np.testing.assert_allclose(right, -left)
    # Upright and at rest: (m + M) x'' + m l t'' = F, and 4/3 l t'' + x'' = 0.
    masses = np.array([[1.1, 0.05], [1.0, 2 / 3]])
    pushed, turned = np.linalg.solve(masses, [10.0, 0.0])
    np.testing.assert_allclose(right[1::2], seconds * np.array([pushed, turned]), rtol=1e-5)
    leaning = jnp.array([0.0, 0.0, 0.1, 0.0])
    both = (moved(leaning, 1) + moved(leaning, 0)) / 2  # no push
    assert both[3] > 0
    states, actions, standing = pl.jit(balance["episode"])(
        balance["initial_params"](pl.random.key(0)), pl.random.key(1)
    )
    assert standing[0]
    assert (np.diff(standing.astype(int)) <= 0).all()
    np.testing.assert_allclose(pl.vmap(moved)(states[:-1], actions[:-1]), states[1:], rtol=1e-5, atol=1e-6)  # fmt: skip


@pytest.mark.multi_process
def test_two_processes_learn_what_one_learns() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    folders = [str(ROOT / folder) for folder in ("core", "kernel", "viz", "profiler")]
    environment = {**os.environ, "XLA_FLAGS": "", "PYTHONPATH": os.pathsep.join(folders)}
    environment.pop("PELLUCID_NUM_CPU_DEVICES", None)

    def start(devices: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, ROOT / "examples" / "data_per_process.py", *arguments],
            env={**environment, "JAX_NUM_CPU_DEVICES": devices}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    processes = [start("8"), *[start("4", address, "2", str(index)) for index in range(2)]]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0, 0]
    # Gloo, by which processes exchange, tells whom it found.
    told = [[line for line in text.splitlines() if "[Gloo]" not in line] for text in outputs]
    assert told[0][-1] == "weights [-0.  1.  2.  3.  4.  5.]"
    assert told[1:] == [told[0], []]

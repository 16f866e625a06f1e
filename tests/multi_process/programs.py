"""Programs of the tests' processes: each function runs in every process of a job, and returns plain data.

Those that take a mesh also run in the test's own process, on as many virtual devices, to be compared.
"""

import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from place import Place

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import ArgumentValueError, PellucidError
from pellucid._machine.xla import distributed as xla_distributed
from pellucid.experimental import mesh_utils, multihost_utils


def join(place: Place, *, initialization: float = 20, heartbeat: float = 20, shutdown: float = 20):
    """Come into the job."""
    pl.distributed.initialize(
        place.address,
        place.count,
        place.process,
        initialization_timeout=initialization,
        heartbeat_timeout_seconds=heartbeat,
        shutdown_timeout_seconds=shutdown,
    )


def error_of(call: Callable[[], Any]) -> list[Any]:
    """Class and text of the error that `call` raises, and after how many seconds."""
    start = time.monotonic()
    try:
        call()
    except PellucidError as error:
        return [type(error).__name__, str(error), time.monotonic() - start]
    return ["nothing", "", time.monotonic() - start]


# Compared with one process ------------------------------------------------------------------------


def two_axes(n_devices: int) -> Any:
    """A mesh with an axis over which the batch is split, and one over which the model is."""
    return pl.make_mesh((n_devices // 2, 2), ("data", "model"), axis_types=(AUTO, AUTO))


AUTO = pl.sharding.AxisType.Auto


def parameters() -> dict[str, np.ndarray]:
    """Weights of two layers."""
    rng = np.random.default_rng(0)
    return {
        "in": rng.normal(size=(8, 16)).astype(np.float32),
        "out": rng.normal(size=(16, 4)).astype(np.float32),
    }


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of 16 examples."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(16, 8)).astype(np.float32), rng.normal(size=(16, 4)).astype(np.float32)


def step(weights: Any, inputs: Any, targets: Any) -> tuple[Any, Any]:
    """One step of gradient descent: the loss, and the weights after it."""

    def loss(weights: Any) -> Any:
        hidden = jnp.tanh(inputs @ weights["in"])
        return ((hidden @ weights["out"] - targets) ** 2).mean()

    value, slopes = pl.value_and_grad(loss)(weights)
    return value, pl.tree.map(lambda w, slope: w - 0.1 * slope, weights, slopes)


def train(mesh: Any, local: Callable[[np.ndarray], np.ndarray]) -> list[Any]:
    """Losses and last weights of three steps over `mesh`; `local` takes this process's part of the batch."""
    split = {"in": pl.P(None, "model"), "out": pl.P("model", None)}
    weights = {
        name: pl.device_put(value, pl.NamedSharding(mesh, split[name]))
        for name, value in parameters().items()
    }
    by_example = pl.NamedSharding(mesh, pl.P("data"))
    data = [pl.make_array_from_process_local_data(by_example, local(part)) for part in batch()]
    losses = []
    run = pl.jit(step, donate_argnums=0)
    for _ in range(3):
        loss, weights = run(weights, *data)
        losses.append(float(loss))
    whole = multihost_utils.process_allgather(weights, tiled=True)
    return [losses, whole["in"].tolist(), whole["out"].tolist()]


def collectives(mesh: Any) -> dict[str, Any]:
    """Each collective over a mesh axis "x", on the same operand."""
    n = mesh.size
    operand = np.arange(n * n * 2, dtype=np.float32).reshape(n * n, 2) % 7
    x = pl.device_put(operand, pl.NamedSharding(mesh, pl.P("x")))
    ring = [(i, (i + 1) % n) for i in range(n)]
    bodies = {
        "psum": lambda x: lax.psum(x, "x"),
        "pmean": lambda x: lax.pmean(x, "x"),
        "pmax": lambda x: lax.pmax(x, "x"),
        "pmin": lambda x: lax.pmin(x, "x"),
        "psum_scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),
        "all_gather": lambda x: lax.all_gather(x, "x"),
        "all_to_all": lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),
        "ppermute": lambda x: lax.ppermute(x, "x", ring),
        "axis_index": lambda x: x * 0 + lax.axis_index("x"),
    }
    actual = {}
    for name, body in bodies.items():

        def each(x: Any, body: Any = body) -> Any:
            return body(x)[None]

        mapped = pl.shard_map(
            each, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"), check_vma=False
        )
        actual[name] = multihost_utils.process_allgather(pl.jit(mapped)(x), tiled=True).tolist()
    return actual


def operands(mesh: Any, x: Any) -> dict[str, Any]:
    """Programs and single operations on `x`, which lies over `mesh`, and on values of this process or the host."""
    over_x = pl.NamedSharding(mesh, pl.P("x"))
    ones = jnp.ones(x.shape)
    actual = {
        "scalar": pl.jit(jnp.multiply)(x, 2.0),
        "numpy": pl.jit(jnp.multiply)(x, np.arange(float(x.size))),
        "local": pl.jit(jnp.multiply)(x, ones),
        "constant": pl.jit(lambda x: x * ones + np.arange(float(x.size)))(x),
        "one operation": x + 1,
        "two operations": (x + ones)[2:4],
        "placed by jit": pl.jit(lambda x: x * 2, in_shardings=over_x)(np.arange(float(x.size))),
        "made by jit": pl.jit(lambda: jnp.zeros(x.shape), out_shardings=over_x)(),
        "put": pl.device_put(ones, over_x),
        "donated": pl.jit(lambda x: x * 2, donate_argnums=0)(x + 0),
        "gradient": pl.grad(lambda x: (x**2).sum())(x),
        "batched": pl.vmap(lambda x: x * 2)(x),
    }
    return {
        name: multihost_utils.process_allgather(value, tiled=True).tolist()
        for name, value in actual.items()
    }


def training(place: Place) -> Any:
    """The training step over all devices of the job, whose rows of the mesh are the processes."""
    join(place)
    mesh = two_axes(pl.device_count())
    share = 16 // place.count
    first = place.process * share
    return train(mesh, lambda part: part[first : first + share])


def all_collectives(place: Place) -> Any:
    """Collectives and operands over all devices of the job."""
    join(place)
    mesh = pl.make_mesh((pl.device_count(),), ("x",), axis_types=(AUTO,))
    x = pl.make_array_from_process_local_data(
        pl.NamedSharding(mesh, pl.P("x")), np.arange(2.0) + 2 * place.process
    )
    return [collectives(mesh), operands(mesh, x)]


# What is only there with several processes --------------------------------------------------------


def branches(place: Place) -> Any:
    """Python branches in a `shard_map` that runs eagerly, on values that are the same within each process."""
    join(place)
    mesh = pl.make_mesh((pl.device_count(),), ("x",), axis_types=(AUTO,))
    x = pl.make_array_from_process_local_data(
        pl.NamedSharding(mesh, pl.P("x")), np.full(2, float(place.process))
    )

    def mapped(value_of: Callable[[Any], Any], *, check_vma: bool) -> Any:
        def body(x: Any) -> Any:
            return x if value_of(x) > 0 else -x

        return pl.shard_map(
            body, mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"), check_vma=check_vma
        )(x)

    total = mapped(lambda x: lax.psum(x.sum(), "x"), check_vma=True)
    return {
        "of one process": error_of(lambda: mapped(lambda x: x.sum(), check_vma=False))[:2],
        "of all": multihost_utils.process_allgather(total, tiled=True).tolist(),
    }


def facts(place: Place) -> dict[str, Any]:
    """Devices, arrays that span processes, meshes by process, the store and barriers; all of it twice."""
    first = _facts(place)
    pl.distributed.shutdown()
    return {"first": first, "joined": pl.distributed.is_initialized(), "second": _facts(place)}


def _facts(place: Place) -> dict[str, Any]:
    join(place)
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    by_x = pl.NamedSharding(mesh, pl.P("x"))
    x = pl.make_array_from_process_local_data(by_x, np.arange(4.0) + 10 * place.process)
    granules = mesh_utils.create_hybrid_device_mesh(
        (2, 1), (1, place.count), process_is_granule=True
    )
    pl.distributed.barrier("a name")
    pl.distributed.barrier("a name")
    store = pl.distributed.key_value_store()
    store.set(f"said/{place.process}", f"hello from {place.process}")
    counted = store.increment(f"count/{place.process}") + store.increment(
        f"count/{place.process}", 4
    )
    store.set("scratch/of all", "first", overwrite=True)
    store.set(f"scratch/{place.process}", "mine")
    store.delete(f"scratch/{place.process}")
    store.set(f"bytes/{place.process}", bytes([place.process]))
    return {
        "devices": [pl.device_count(), pl.local_device_count(), len(pl.local_devices(0))],
        "processes": [pl.process_index(), pl.process_count(), pl.process_indices()],
        "addressable": [
            x.is_fully_addressable,
            x.shape,
            len(x.addressable_shards),
            len(x.global_shards),
        ],
        "text": repr(x),
        "granules": [[d.process_index for d in row] for row in granules.tolist()],
        "mesh": [d.process_index for d in pl.make_mesh((pl.device_count(),), ("x",)).devices.flat],
        "said": [store.get(f"said/{process}") for process in range(place.count)],
        "bytes": [list(store.get_bytes(f"bytes/{process}")) for process in range(place.count)],
        "listed": sorted(store.items("said")),
        "counted": counted,
        "left": store.items("scratch").get(f"scratch/{place.process}"),
        "sum": float(x.sum()),
    }


def between_processes(place: Place) -> dict[str, Any]:
    """`multihost_utils`, where it gives values and where it raises."""
    join(place)
    mine = place.process
    utils = multihost_utils
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    whole = utils.host_local_array_to_global_array(np.arange(4) + 10 * mine, mesh, pl.P("x"))
    utils.sync_global_devices("here")
    utils.assert_equal({"same": np.ones(3)})
    source = {
        "a": np.array([1.5, -0.0]) if mine else np.ones(2),
        "b": np.bool_(mine == 1),
        "i": np.int64(mine << 40),
    }
    sent = utils.broadcast_one_to_all(source, is_source=mine == 1)
    return {
        "stacked": utils.process_allgather({"row": np.arange(2) + mine, "scalar": mine})[
            "row"
        ].tolist(),
        "scalars": utils.process_allgather(mine).tolist(),
        "tiled": utils.process_allgather(np.arange(2) + mine, tiled=True).tolist(),
        "whole": utils.process_allgather(whole, tiled=True).tolist(),
        "sent": [sent["a"].tolist(), str(sent["a"][1]), bool(sent["b"]), int(sent["i"])],
        "back": np.asarray(utils.global_array_to_host_local_array(whole, mesh, pl.P("x"))).tolist(),
        "all back": np.asarray(
            utils.global_array_to_host_local_array(whole, mesh, pl.P())
        ).tolist(),
        "preempted": utils.reached_preemption_sync_point(0),
        "errors": {
            "stack": error_of(lambda: utils.process_allgather(whole)),
            "shapes": error_of(lambda: utils.process_allgather(np.arange(2 + mine))),
            "sources": error_of(lambda: utils.broadcast_one_to_all(1, is_source=True)),
            "names": error_of(lambda: utils.sync_global_devices(f"name {mine}")),
            "values": error_of(lambda: utils.assert_equal({"x": mine}, "the seeds")),
            "spec": error_of(
                lambda: utils.host_local_array_to_global_array(np.ones(4), mesh, None)
            ),
            "put": error_of(
                lambda: pl.device_put(np.arange(4) + mine, pl.NamedSharding(mesh, pl.P("x")))
            ),
            "numpy": error_of(lambda: np.asarray(whole)),
            "local shape": error_of(
                lambda: pl.make_array_from_process_local_data(
                    pl.NamedSharding(mesh, pl.P("x")), np.arange(3.0)
                )
            ),
            "global shape": error_of(
                lambda: pl.make_array_from_process_local_data(
                    pl.NamedSharding(mesh, pl.P("x")), np.arange(4.0), (12,)
                )
            ),
            "programs": error_of(lambda: pl.jit([_total, _average][mine])(whole)),
            "arguments": error_of(lambda: pl.jit(_scaled)(whole, 1.0 + mine)),
            "again": error_of(lambda: join(place)),
            "barrier": error_of(lambda: pl.distributed.barrier(f"only {mine}", 0.5)),
            "set twice": error_of(
                lambda: [pl.distributed.key_value_store().set(f"a{mine}", "b") for _ in "ab"]
            ),
            "store": error_of(lambda: pl.distributed.key_value_store().get("nobody sets it", 0.2)),
        },
    }


def _total(x: Any) -> Any:
    return x.sum()


def _scaled(x: Any, by: Any) -> Any:
    return (x * by).sum()


def _average(x: Any) -> Any:
    return x.mean()


# When something goes wrong ------------------------------------------------------------------------


def one_fails_among_steps(place: Place, read: str) -> Any:
    """Process 1 is killed while all run steps and read what each gives; what the others see."""
    join(place, heartbeat=60)
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    x = pl.make_array_from_process_local_data(
        pl.NamedSharding(mesh, pl.P("x")), np.ones((2, 1000), np.float32)
    )
    run = pl.jit(_total)
    reading = {
        "float": float,
        "array": np.asarray,
        "get": pl.device_get,
        "shard": lambda y: np.asarray(y.addressable_shards[0].data),
        "item": lambda y: y.item(),
        "print": str,
    }[read]
    reading(run(x))
    if place.process == 1:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()

    def steps() -> None:
        while True:
            reading(run(x))

    return error_of(steps)


def one_fails(place: Place, how: str, who: int, where: str, heartbeat: float = 20) -> Any:
    """Process `who` is killed, stopped, or raises, while the others wait for it; what they see, and whether
    they can go on alone."""
    join(place, heartbeat=heartbeat)
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    x = pl.make_array_from_process_local_data(
        pl.NamedSharding(mesh, pl.P("x")), np.ones(2, np.float32)
    )
    run = pl.jit(_total)
    assert float(run(x)) == 2 * place.count
    pl.distributed.barrier("all have run it")
    if place.process == who:
        time.sleep(0.5)  # the others wait by then
        if how == "raise":
            raise ZeroDivisionError("a mistake of the user")
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[how])
        os.kill(os.getpid(), signal.SIGKILL)  # woken up, it has nothing to say
    waits = {
        "collective": lambda: run(x).block_until_ready(),
        "reading": lambda: np.asarray(run(x)),
        "barrier": lambda: pl.distributed.barrier("never"),
        "store": lambda: pl.distributed.key_value_store().get("never"),
        "shutdown": pl.distributed.shutdown,
        "another program": lambda: (time.sleep(1.5), pl.jit(_average)(x)),
    }
    seen = error_of(waits[where])
    again = error_of(lambda: pl.distributed.barrier("afterwards"))
    pl.distributed.shutdown()
    return {"seen": seen, "again": again, "alone": float(jnp.arange(4.0).sum())}


def start_anew(place: Place, folder: str) -> Any:
    """Process 1 of two is killed; then process 0 and a third one, as process 1, form a job at the same address."""
    mark = pathlib.Path(folder, "killed")
    if place.process == 2:
        while not mark.exists():
            time.sleep(0.05)
        return _sum_of_ones(Place(place.address, 1, 2))
    place = place._replace(count=2)
    join(place)
    if place.process == 1:
        pl.devices()
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    failure = error_of(lambda: [pl.devices(), pl.distributed.barrier("never")])
    assert failure[0] == "PeerFailureError", failure
    pl.distributed.shutdown()
    return _sum_of_ones(place)


def _sum_of_ones(place: Place, wait_before_running: float = 0) -> float:
    """In a job: the sum over an array that has a one on each device."""
    join(place)
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    x = pl.make_array_from_process_local_data(
        pl.NamedSharding(mesh, pl.P("x")), np.ones(2, np.float32)
    )
    time.sleep(wait_before_running)
    return float(pl.jit(_total)(x))


def comes_late(place: Place, seconds: float) -> Any:
    """The last process joins late, and is late again for the first collective."""
    late = seconds if place.process == place.count - 1 else 0
    time.sleep(min(late, 10))
    return _sum_of_ones(place, late)


def only_joins(place: Place, initialization: float = 20, attempts: int = 1) -> Any:
    """Outcome of the last attempt to join."""
    actual = None
    for _ in range(attempts):
        actual = error_of(lambda: join(place, initialization=initialization))
    return actual


def leaves_alone(place: Place) -> Any:
    """Process 0 shuts down, and the others stay away from it."""
    join(place, shutdown=1)
    if place.process == 0:
        return error_of(pl.distributed.shutdown)
    return error_of(lambda: pl.distributed.barrier("never"))


def dies_while_joining(place: Place) -> Any:
    """Process 1 is killed when all have come, and before jaxlib's own service knows it."""
    if place.process == 1:
        xla_distributed.make_client = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    return error_of(lambda: join(place))


def joins_too_late(place: Place) -> Any:
    """Devices are used before the process joins."""
    pl.devices()
    return error_of(lambda: join(place))


def is_preempted(place: Place) -> Any:
    """Process 1 gets SIGTERM; all stop after the same step."""
    join(place)
    stop = None
    for n_step in range(200):
        if multihost_utils.reached_preemption_sync_point(n_step):
            stop = n_step
            break
        if place.process == 1 and n_step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        multihost_utils.sync_global_devices("step")
        time.sleep(0.02)
    return stop


def in_blocks(place: Place) -> list[Any]:
    """Outcomes in processes of a block of `live_devices` that ends well, that one leaves by an error, that one dies in."""
    join(place)
    actual = []
    with multihost_utils.live_devices(pl.devices()) as devices:
        actual.append([device.process_index for device in devices])

    def raises() -> None:
        with multihost_utils.live_devices(pl.devices()):
            if place.process == 1:
                raise ArgumentValueError("a mistake of the user")

    def dies() -> None:
        with multihost_utils.live_devices(pl.devices()):
            if place.process == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    actual.append(error_of(raises)[:2])
    try:
        dies()
    except multihost_utils.ProcessFailureError as error:
        actual.append([device.process_index for device in error.failed_devices])
    actual.append(error_of(dies)[:2])
    actual.append(error_of(lambda: multihost_utils.live_devices([]).__enter__())[:2])
    return actual

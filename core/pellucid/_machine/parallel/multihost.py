"""Conversion between values per process and arrays that span processes, and comparison between processes.

All processes of the job must call these functions, in the same order.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    AgreementError,
    ArgumentValueError,
    DistributedError,
    PeerFailureError,
    ProcessFailureError,
    broadcast_prefix,
    cached,
    config,
    keystr,
    leaf_type,
    strict_zip,
    tree_flatten,
    tree_leaves_with_path,
    tree_map,
    tree_structure,
)
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.runtime import peers, platforms
from pellucid._machine.runtime.assembly import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from pellucid._machine.runtime.distributed import initialize
from pellucid._machine.sharding import Mesh, NamedSharding, PartitionSpec
from pellucid._machine.sharding.errors import PartitionSpecError
from pellucid._machine.sharding.placement import tiles
from pellucid._machine.xla import ArrayImpl

_AXES = ("processes", "local_devices")
MAX_QUOTED_LEAVES = 3
_ONE_LEAF = tree_structure(0)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Each leaf of `in_tree` as a NumPy array that holds every process's value: stacked, or joined if `tiled`.

    A leaf that already spans processes is given whole; so `tiled` must be True for it. All processes must have
    leaves of the same shapes and dtypes. Scalars are always stacked.

    Raises: AgreementError if the processes have other shapes or dtypes; ArgumentValueError for an array that
    spans processes without `tiled`.

    >>> process_allgather(np.arange(2.0, dtype=np.float32))
    array([[0., 1.]], dtype=float32)
    """
    peers.agree("process_allgather", _types_of(in_tree))
    return tree_map(functools.partial(_gather_leaf, tiled=tiled), in_tree)


def _types_of(tree) -> str:
    """The structure of `tree` with the types of its leaves, as a text."""
    leaves, structure = tree_flatten(tree)
    types = ", ".join(
        [x.aval.text() if _spans_processes(x) else leaf_type(np.asarray(x)) for x in leaves]
    )
    return types if structure == _ONE_LEAF else f"{structure}: {types}"


def _gather_leaf(leaf, *, tiled: bool) -> np.ndarray:
    if _spans_processes(leaf):
        if not tiled:
            raise ArgumentValueError(
                "process_allgather: an array that spans processes is one value, so there is nothing to stack.",
                got=f"{leaf.aval.text()} with {leaf.sharding}",
                do="Pass tiled=True to get it whole.",
            )
        return _whole(leaf)
    local = np.asarray(leaf)
    stacked = _whole(_one_row_each(local))
    return stacked.reshape(-1, *local.shape[1:]) if tiled and local.ndim else stacked


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The tree of the source process, as NumPy arrays: process 0, or the one that passes `is_source=True`.

    All processes must have leaves of the same shapes and dtypes; only the source's values matter.

    Raises: AgreementError if the processes have other shapes or dtypes; ArgumentValueError if not one process
    says that it is the source.

    >>> broadcast_one_to_all({"seed": np.uint32(7)})
    {'seed': array(7, dtype=uint32)}
    """
    if is_source is None:
        is_source = platforms.process_index() == 0
    sources = np.flatnonzero(process_allgather(np.bool_(is_source)))
    if len(sources) != 1:
        raise ArgumentValueError(
            "broadcast_one_to_all: one process must be the source.",
            got=f"sources: {'none' if not len(sources) else ', '.join(map(str, sources))}",
        )
    peers.agree("broadcast_one_to_all", _types_of(in_tree))
    return tree_map(functools.partial(_from_source, is_source=is_source), in_tree)


def _from_source(leaf, *, is_source: bool) -> np.ndarray:
    local = np.asarray(leaf)
    # The other processes contribute zeros, so the sum equals the source's bytes.
    data = np.frombuffer(local.tobytes(), np.uint8)
    rows = _one_row_each(data if is_source else np.zeros_like(data))
    summed = np.asarray(_row_sum(rows.sharding.mesh)(rows).addressable_data(0))
    return np.frombuffer(summed.tobytes(), local.dtype).reshape(local.shape).copy()


def sync_global_devices(name: str) -> None:
    """Wait until all processes call this with the same `name`, and their devices have done what came before.

    Raises: AgreementError if the names differ.

    >>> sync_global_devices("checkpoint written")
    """
    peers.agree("sync_global_devices", repr(name))
    process_allgather(np.uint8(0))


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same tree: structure, shapes, dtypes, and values bit for bit.

    Of an array that spans processes, the part on this process's first device counts.

    Raises: AgreementError, which is an AssertionError, in all processes, with the paths of leaves that differ and what
    the processes have there; only structure and types if these differ already.

    >>> assert_equal({"step": 3}, "all processes load the same checkpoint")
    """
    name = fail_message or "assert_equal"
    peers.agree(name, _types_of(in_tree))
    values = [
        (path, np.asarray(x.addressable_data(0) if _spans_processes(x) else x))
        for path, x in tree_leaves_with_path(in_tree)
    ]
    if not values:
        return
    digests = [list(bytes.fromhex(peers.digest([value]))) for _, value in values]
    by_leaf = process_allgather(np.array(digests, np.uint8)).swapaxes(0, 1)
    lines = [
        f"{keystr(path) or 'the value'}, {leaf_type(value)}: {_who_has_what(value, rows)}"
        for (path, value), rows in strict_zip(values, by_leaf)
        if (rows != rows[0]).any()
    ]
    if lines:
        if (n_more := len(lines) - MAX_QUOTED_LEAVES) > 0:
            lines[MAX_QUOTED_LEAVES:] = [f"and {n_more} leaves more"]
        raise AgreementError(f"{name}: the processes have different values.", got=lines)


def _who_has_what(value: np.ndarray, digests: np.ndarray) -> str:
    """A text saying which processes have which value of a leaf; `value` is this process's."""
    if value.size == 1:
        texts = [str(x.item()) for x in process_allgather(value)]
    else:
        texts = [f"contents {bytes(row).hex()}" for row in digests]
    processes: dict[str, list[int]] = {}
    for process, text in enumerate(texts):
        processes.setdefault(text, []).append(process)
    return "; ".join(
        f"{text} in {peers.processes_in_words(who)}" for text, who in processes.items()
    )


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """For each leaf of `local_inputs`, the array over `global_mesh` of which this process has the leaf.

    `pspecs` is a PartitionSpec, or a tree of them that is a prefix of `local_inputs`. This process's devices must
    fill a box of the mesh. A leaf that already spans processes is given as it is.

    >>> mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    >>> host_local_array_to_global_array(np.arange(8), mesh, pl.P("x")).sharding.spec
    P('x',)
    """
    name = "host_local_array_to_global_array"

    def convert(leaf: Any, spec: PartitionSpec) -> Any:
        if _spans_processes(leaf):
            return leaf
        return make_array_from_process_local_data(NamedSharding(global_mesh, spec), leaf)

    return _convert_leaves(name, "local_inputs", local_inputs, pspecs, convert)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """For each array of `global_inputs`, the part that this process has, as an array over its own devices.

    The arrays are first laid out over `global_mesh` as `pspecs` says, which is a PartitionSpec or a tree of them
    that is a prefix of `global_inputs`. This process's devices must fill a box of the mesh. An array that this process
    has whole is given as it is.

    >>> mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    >>> global_array_to_host_local_array(jnp.arange(8), mesh, pl.P("x")).shape
    (8,)
    """
    name = "global_array_to_host_local_array"

    def convert(leaf: Any, spec: PartitionSpec) -> Any:
        if type(leaf) is ArrayImpl and leaf.is_fully_addressable and global_mesh.is_multi_process:
            return leaf
        sharding = NamedSharding(global_mesh, spec)
        placed = leaf
        if type(leaf) is not ArrayImpl or not leaf.sharding.is_equivalent_to(sharding, leaf.ndim):
            placed = _laid_out(sharding)(leaf)
        local = NamedSharding(global_mesh.local_mesh, spec)
        ours, whole = (tiles(s, placed.ndim).counts for s in (local, sharding))
        shape = [n * k // m for n, k, m in strict_zip(placed.shape, ours, whole)]
        shards = [shard.data for shard in placed.addressable_shards]
        return make_array_from_single_device_arrays(shape, local, shards, dtype=placed.dtype)

    return _convert_leaves(name, "global_inputs", global_inputs, pspecs, convert)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether `step_id` is the step after which all processes save and stop, because one of them got SIGTERM.

    All processes call this at every step, from the same step on. From the first call on SIGTERM doesn't end a
    process; it makes all of them stop at the same step. Without a job of several processes it is False.

    Raises: DistributedError if the option `enable_preemption_service` is off.

    >>> reached_preemption_sync_point(step_id=3)
    False
    """
    if not initialize.is_initialized():
        return False
    if not config.enable_preemption_service.value:
        raise DistributedError(
            "reached_preemption_sync_point: no process watches for SIGTERM.",
            got="option enable_preemption_service: False",
            do="Switch it on before the first step.",
        )
    watch = initialize.job("reached_preemption_sync_point").preemption_watch()
    return bool(watch.reached_sync_point(step_id))


def _spans_processes(leaf) -> bool:
    return type(leaf) is ArrayImpl and not leaf.is_fully_addressable


def _convert_leaves(name: str, what: str, tree, pspecs, convert):
    def is_spec(leaf: Any) -> bool:
        return leaf is None or isinstance(leaf, PartitionSpec)

    leaves, structure = tree_flatten(tree)
    specs = broadcast_prefix(pspecs, tree, is_spec, caller=f"{name}: pspecs", name=what)
    for spec in specs:
        if not isinstance(spec, PartitionSpec):
            raise PartitionSpecError(
                f"{name}: `pspecs` must be a tree of PartitionSpecs.",
                got=f"{type(spec).__name__}",
                do="Write PartitionSpec() for what every device holds whole.",
            )
    return structure.unflatten([convert(*pair) for pair in strict_zip(leaves, specs)])


def _one_row_each(local: np.ndarray):
    """The array whose row `i` is the `local` of process `i`."""
    devices = np.array(platforms.devices()).reshape(platforms.process_count(), -1)
    sharding = NamedSharding(Mesh(devices, _AXES), PartitionSpec(_AXES[0]))
    return make_array_from_process_local_data(sharding, local[np.newaxis])


def _whole(x) -> np.ndarray:
    """The whole of `x`, regardless of its sharding, as a NumPy array in every process."""
    sharding = x.sharding
    replicated = NamedSharding(
        sharding.mesh
        if isinstance(sharding, NamedSharding)
        else Mesh(np.array(sharding._device_assignment), ("devices",)),
        PartitionSpec(),
    )
    return np.asarray(_laid_out(replicated)(x).addressable_data(0))


@cached(128)
def _laid_out(sharding: NamedSharding):
    return jit(lambda x: x, out_shardings=sharding)


@cached(128)
def _row_sum(mesh: Mesh):
    replicated = NamedSharding(mesh, PartitionSpec())
    return jit(lambda rows: rows.sum(axis=0, dtype=rows.dtype), out_shardings=replicated)


# Work that all processes finish, or whose failure is raised in all of them --------------------------


_NAME = "live_devices"


@contextlib.contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """A context for code that all processes of `devices` run, or none does; yields the devices, ordered by id.

    The processes wait for each other where it begins and where it ends. If one of them fails meanwhile, all others get
    a ProcessFailureError; if it raises, that process gets what it raised and the others an AgreementError that names it.

    In the reference a job may go on with the processes that are left. Here a job ends with its first failure: the
    connections of collectives are cut, so that nobody waits for ever. So the next block raises at once, until
    `distributed.shutdown` and `initialize` have made a new job.

    Raises: DistributedError without a job; ArgumentValueError if none of `devices` belongs to this process.

    Example: `with live_devices(pl.devices()) as devices:` around a step of training, in each process.

    >>> with pl.experimental.multihost_utils.live_devices(pl.devices()) as devices:
    ...     pass
    Traceback (most recent call last):
        ...
    pellucid.errors.DistributedError: live_devices: this process is not joined to others.
    ...
    """
    initialize.job(_NAME)
    process_ids = sorted({device.process_index for device in devices})
    if platforms.process_index() not in process_ids:
        raise ArgumentValueError(
            f"{_NAME}: none of the devices belongs to this process.",
            got=f"devices of the processes {process_ids}" if devices else "no devices",
            do="Pass `pl.devices()`.",
        )
    try:
        peers.agree(_NAME, "begins", process_ids)
        try:
            yield sorted(devices, key=lambda device: device.id)
        except DistributedError:
            raise  # the other processes got this error, too
        except Exception as error:
            with contextlib.suppress(DistributedError):
                peers.agree(_NAME, f"raised {type(error).__name__}: {error}", process_ids)
            raise
        peers.agree(_NAME, "ends", process_ids)
    except PeerFailureError as error:
        failure = ProcessFailureError(error.what, got=error.got, do=error.do)
        failure.failed = error.failed
        failure.failed_devices = frozenset(d for d in devices if d.process_index in error.failed)
        raise failure from error

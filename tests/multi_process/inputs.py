"""Right and wrong arguments of functions that span processes, and their results in one library.

Run by `inputs_of_pellucid` and `inputs_of_jax`, in two processes with two devices each.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


def outcome(library: Any, case: Callable[[], Any]) -> list[Any]:
    """["value", each leaf as text] or ["error", names of the builtin classes that the error is of]."""
    try:
        leaves = library.tree.leaves(case())
    except Exception as error:
        kinds = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
        return ["error", kinds[:-3]]
    return ["value", [described(x) for x in leaves]]


def described(x: Any) -> str:
    """A leaf of a result: where it lies and what of it is here."""
    if hasattr(x, "is_fully_addressable") and not x.is_fully_addressable:
        here = [np.asarray(shard.data).tolist() for shard in x.addressable_shards]
        return f"{x.dtype}{x.shape} {getattr(x.sharding, 'spec', '')} {here}"
    if hasattr(x, "shape"):
        return f"{x.dtype}{x.shape} {np.asarray(x).tolist()}"
    return repr(x)


def outcomes(library: Any, numpy: Any, utils: Any) -> dict[str, list[Any]]:
    """A function for each case, by name. After those in which processes differ, jax still works."""
    pl, jnp, spec = library, numpy, library.sharding.PartitionSpec
    mine = pl.process_index()
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    by_x = pl.sharding.NamedSharding(mesh, spec("x"))
    whole = pl.sharding.NamedSharding(mesh, spec())
    here = pl.sharding.Mesh(np.array(pl.local_devices()), ("x",))
    from_local = pl.make_array_from_process_local_data
    four = np.arange(4, dtype=np.float32)
    x = from_local(by_x, four + 4 * mine)
    everywhere = from_local(whole, four)
    on_one = pl.device_put(four, pl.local_devices()[0])
    on_both = pl.device_put(four, pl.sharding.NamedSharding(here, spec("x")))
    first_device = pl.sharding.SingleDeviceSharding(pl.local_devices()[0])
    double = pl.jit(lambda a: a * 2, in_shardings=by_x)
    donating = pl.jit(lambda a: a * 2, donate_argnums=0)
    to_global, to_local = (
        utils.host_local_array_to_global_array,
        utils.global_array_to_host_local_array,
    )

    def of_donated(use: Callable[[Any], Any]) -> Any:
        donated = x + 0
        donating(donated).block_until_ready()
        return use(donated)

    def summed(v: Any) -> Any:
        return pl.lax.psum(v, "i")

    cases: dict[str, Callable[[], Any]] = {
        "local data that can't be cut": lambda: from_local(by_x, four[:3]),
        "local data of another length": lambda: from_local(by_x, four, (12,)),
        "global shape of another rank": lambda: from_local(by_x, four, (4, 2)),
        "local data of no rows": lambda: from_local(by_x, np.zeros((0, 2), np.float32)),
        "a callback": lambda: pl.make_array_from_callback((4,), by_x, lambda i: four[i]),
        "a callback's wrong part": lambda: pl.make_array_from_callback((4,), by_x, lambda i: four),
        "too few parts": lambda: pl.make_array_from_single_device_arrays(
            (8,), by_x, [x.addressable_data(0)]
        ),
        "gathered": lambda: utils.process_allgather(on_both),
        "gathered along rows": lambda: utils.process_allgather({"a": four, "b": x}, tiled=True),
        "gathered, but global": lambda: utils.process_allgather(x),
        "gathered numbers": lambda: utils.process_allgather(1 + mine, tiled=True),
        "broadcast": lambda: utils.broadcast_one_to_all({"a": four + mine}),
        "broadcast of what spans processes": lambda: utils.broadcast_one_to_all(x),
        "equal": lambda: utils.assert_equal({"a": 1, "b": everywhere}),
        "not equal": lambda: utils.assert_equal({"a": 1, "b": four * mine}),
        "names": lambda: utils.sync_global_devices(f"name {mine}"),
        "to global": lambda: to_global({"a": four, "b": four[:2]}, mesh, spec("x")),
        "to global, whole": lambda: to_global(four, mesh, spec()),
        "to global, an array": lambda: to_global(on_both, mesh, spec("x")),
        "to global, which it is": lambda: to_global(x, mesh, spec("x")),
        "to global by an unknown axis": lambda: to_global(four, mesh, spec("y")),
        "to global by None": lambda: to_global(four, mesh, None),
        "to global in odd parts": lambda: to_global(four[:3], mesh, spec("x")),
        "to global by another tree": lambda: to_global([four, four], mesh, [spec("x")]),
        "to local": lambda: to_local(x, mesh, spec("x")),
        "to local, whole": lambda: to_local(x, mesh, spec()),
        "to local, which it is": lambda: to_local(jnp.arange(8.0), mesh, spec("x")),
        "to local by an unknown axis": lambda: to_local(x, mesh, spec("y")),
        "to local by None": lambda: to_local(x, mesh, None),
        "put": lambda: pl.device_put(four, by_x),
        "put what differs": lambda: pl.device_put(four + mine, by_x),
        "put a number that differs": lambda: pl.device_put(1.0 + mine, whole),
        "put an array that differs": lambda: pl.device_put(jnp.arange(4.0) + mine, by_x),
        "put an array": lambda: pl.device_put(jnp.arange(4.0), by_x),
        "put to the other process": lambda: pl.device_put(1.0, pl.local_devices(1 - mine)[0]),
        "put what is global to one": lambda: pl.device_put(x, pl.local_devices()[0]),
        "put anew": lambda: pl.device_put(x, whole),
        "jit of local and global": lambda: pl.jit(lambda a, b: a.sum() + b.sum())(x, on_one),
        "jit of parts and global": lambda: pl.jit(lambda a, b: a.sum() + b.sum())(x, on_both),
        "jit of uncommitted and global": lambda: pl.jit(jnp.add)(x, jnp.arange(8.0)),
        "jit that places what is local": lambda: double(jnp.arange(4.0)),
        "jit that places what is elsewhere": lambda: double(on_one),
        "jit to one device": lambda: pl.jit(lambda a: a * 2, out_shardings=first_device)(x),
        "jit of parts": lambda: pl.jit(lambda a: a * 2)(on_both),
        "shard_map of local": lambda: pl.shard_map(
            lambda a: a, mesh=mesh, in_specs=spec("x"), out_specs=spec("x")
        )(on_one),
        "asarray": lambda: np.asarray(x),
        "asarray of what is whole here": lambda: np.asarray(everywhere),
        "device_get": lambda: pl.device_get(x),
        "device_get of what is whole here": lambda: pl.device_get(everywhere),
        "float": lambda: float(x.sum()),
        "float of many": lambda: float(x),
        "bool": lambda: bool(x.sum() > 3),
        "item": lambda: x.item(),
        "tolist": lambda: x.tolist(),
        "an element": lambda: x[0],
        "a slice": lambda: x[2:4],
        "repr": lambda: [repr(x), str(x), repr(everywhere), f"{everywhere}", len(x)],
        "shards": lambda: [str(shard.index) for shard in x.addressable_shards],
        "a shard": lambda: x.addressable_data(1),
        "a shard that isn't there": lambda: x.addressable_data(5),
        "dlpack": lambda: np.from_dlpack(x),
        "pickled": lambda: __import__("pickle").dumps(x),
        "copied": lambda: __import__("copy").deepcopy(x),
        "donated": lambda: of_donated(lambda y: y.addressable_data(0)),
        "donated and shown": lambda: of_donated(lambda y: y.shape),
        "pmap": lambda: pl.pmap(summed, axis_name="i")(four[:2] + mine),
        "pmap of local devices": lambda: pl.pmap(
            summed, axis_name="i", devices=pl.local_devices()
        )(four[:2] + mine),
        "pmap with axes": lambda: pl.pmap(
            lambda a, b: (a + b, pl.lax.pmean(a, "i"), b),
            axis_name="i", in_axes=(1, None), out_axes=(0, None, 0),
        )(four.reshape(2, 2) + mine, 10.0),
        "pmap of too many": lambda: pl.pmap(summed, axis_name="i")(four),
        "a loop": lambda: pl.lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2, x),
        "facts": lambda: [pl.process_count(), pl.process_indices(), pl.distributed.is_initialized()],
        "devices of nobody": lambda: pl.local_devices(7),
        "joined again": lambda: pl.distributed.initialize("127.0.0.1:1", 2, mine),
    }  # fmt: skip
    return {name: outcome(pl, case) for name, case in cases.items()}

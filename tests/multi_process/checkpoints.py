"""Programs of processes that write arrays to files together, and read them."""

from typing import Any

import numpy as np
from place import Place
from programs import AUTO, join

import pellucid as pl
from pellucid.experimental import multihost_utils
from pellucid.experimental.array_serialization import serialization

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def written_and_read(place: Place, folder: str) -> Any:
    """The parts of arrays that this process reads of what all have written, and where a callback was called."""
    join(place)
    mesh = pl.make_mesh((place.count, 2), ("data", "model"), axis_types=(AUTO, AUTO))

    def placed(x: Any, *spec: Any) -> Any:
        sharding = pl.NamedSharding(mesh, pl.P(*spec))
        return pl.make_array_from_callback(x.shape, sharding, lambda part: x[part])

    arrays = [placed(X, "data", "model"), placed(X + 1, "model"), placed(X + 2)]
    specs = [
        serialization.get_tensorstore_spec(f"{folder}/{i}", ocdbt=i == 1, driver=driver)
        for i, driver in enumerate(("zarr", "zarr", "zarr3"))
    ]
    for _ in range(2):  # the second time over the files of the first
        serialization.run_serialization(arrays, specs)
        multihost_utils.sync_global_devices("written")
    callers: list[int] = []
    manager = serialization.GlobalAsyncCheckpointManager()
    paths = [f"{folder}/again/{i}" for i in range(3)]
    callback = lambda: callers.append(pl.process_index())
    manager.serialize_with_paths(arrays, paths, on_commit_callback=callback)
    manager.wait_until_finished()
    other = pl.NamedSharding(mesh, pl.P(("model", "data")))
    read = serialization.run_deserialization([other] * 3, specs)
    read += manager.deserialize_with_paths([other] * 3, paths)
    parts = [
        [(shard.index[0].start, np.asarray(shard.data).tolist()) for shard in x.addressable_shards]
        for x in read
    ]
    multihost_utils.sync_global_devices("read")
    longer = placed(np.ones((16, 4), np.float32), "data")
    try:
        serialization.run_serialization([longer], specs[:1])
    except ValueError as error:
        return parts, callers, str(error)
    return parts, callers, ""

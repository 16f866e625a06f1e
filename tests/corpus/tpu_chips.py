"""What a library knows of TPUs, as plain data."""

import dataclasses
import importlib

DTYPES = [
    "float32", "bfloat16", "float16", "int8", "uint8", "int4", "uint4", "int16", "int32", "bool", "float8_e4m3fn", "float8_e5m2",
    "float8_e4m3b11fnuz", "float8_e4m3fnuz",
]  # fmt: skip


def figures(jax):
    """Each version of TPUs, with each number of cores that a device of it may have."""
    tpu = importlib.import_module(f"{jax.__name__}.experimental.pallas.tpu")
    dtypes = [jax.numpy.dtype(name) for name in DTYPES]
    answer = {}
    for version in tpu.ChipVersion:
        for n in (1, 2) if version.supports_megacore else (1,):
            info = tpu.get_tpu_info_for_chip(version, n)
            known = {field.name: getattr(info, field.name) for field in dataclasses.fields(info)}
            cores = known.pop("sparse_core")
            answer[f"{version} {n}"] = known | {
                "chip_version": version.name,
                "cores": version.num_physical_tensor_cores_per_chip,
                "sparse_core": cores and dataclasses.asdict(cores),
                "is": [info.is_lite, info.is_megacore, info.is_split_chip],
                "products": [info.is_matmul_supported(a, b) for a in dtypes for b in dtypes],
                "tiles": [info.get_sublane_tiling(a) for a in dtypes]
                if info.generation < 8
                else [],
            }
    return answer


def sampled_blocks(jax):
    """The same random numbers in blocks of several sizes."""
    tpu = importlib.import_module(f"{jax.__name__}.experimental.pallas.tpu")
    key = jax.random.key(3)
    blocks = [((8, 16), (1, 0)), ((4, 8), (3, 3)), ((16, 32), (0, 0))]
    return [
        jax.device_get(
            tpu.sample_block(jax.random.uniform, key, size, (4, 8), (16, 32), index, minval=-1.0)
        )
        for size, index in blocks
    ]

"""Answers questions with the reference; `corpus.sharding_answers` runs this source."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax, numpy as jnp
from jax.experimental import mesh_utils
from jax.experimental.layout import Format, Layout  # noqa: F401
from jax.sharding import (  # noqa: F401
    AbstractDevice,
    AbstractMesh,
    AxisType,
    ManualAxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    get_abstract_mesh,
    get_mesh,
)

TYPES = {"A": AxisType.Auto, "E": AxisType.Explicit, "M": AxisType.Manual}


def mesh_of(case):
    devices = jax.devices()
    order = case.get("order") or range(int(np.prod(case["sizes"])))
    chosen = np.array([devices[i] for i in order]).reshape(case["sizes"])
    return Mesh(chosen, tuple("abcd"[: len(case["sizes"])]), tuple(TYPES[t] for t in case["types"]))


def spec_of(entries, unreduced=(), reduced=()):
    decoded = [
        P.UNCONSTRAINED if e == "?" else tuple(e) if isinstance(e, list) else e for e in entries
    ]
    return P(*decoded, unreduced=frozenset(unreduced), reduced=frozenset(reduced))


def encoded(spec):
    return {
        "entries": [
            "?" if e is P.UNCONSTRAINED else list(e) if isinstance(e, tuple) else e
            for e in spec.partitions
        ],
        "unreduced": sorted(spec.unreduced),
        "reduced": sorted(spec.reduced),
    }


def answer_or_error(answer):
    def answered(case):
        try:
            return answer(case)
        except Exception as error:
            return {"error": type(error).__name__}

    return answered


@answer_or_error
def placement(case):
    sharding = NamedSharding(
        mesh_of(case), spec_of(case["spec"], case.get("unreduced", ()), case.get("reduced", ()))
    )
    shape = tuple(case["shape"])
    answer = {
        "repr": repr(sharding),
        "hlo": str(sharding._to_xla_hlo_sharding(len(shape))),
        "replicated": sharding.is_fully_replicated,
        "replicated_axes": sorted(sharding.replicated_axes),
        "num_devices": sharding.num_devices,
    }
    for name, ask in {
        "shard_shape": lambda: list(sharding.shard_shape(shape)),
        "indices": lambda: [
            [device.id, [[s.start, s.stop] for s in index]]
            for device, index in sharding.devices_indices_map(shape).items()
        ],
    }.items():
        try:
            answer[name] = ask()
        except Exception as error:
            answer[name] = {"error": type(error).__name__}
    return answer


@answer_or_error
def equivalence(case):
    a, b = (NamedSharding(mesh_of(c), spec_of(c["spec"])) for c in case["shardings"])
    return [a.is_equivalent_to(b, case["ndim"]), a == b]


@answer_or_error
def texts(case):
    return {name: repr(eval(text, globals())) for name, text in case.items()}


@answer_or_error
def device_order(case):
    class Device:
        def __init__(self, id, coords, core, kind, process, slice_index):
            self.id, self.coords, self.core_on_chip = id, coords, core
            self.device_kind, self.process_index, self.platform = kind, process, "tpu"
            self.slice_index = slice_index

    devices = [Device(**fields) for fields in case["devices"]]
    if "dcn" in case:
        array = mesh_utils.create_hybrid_device_mesh(case["shape"], case["dcn"], devices)
    else:
        array = mesh_utils.create_device_mesh(
            case["shape"], devices, allow_split_physical_axes=case["split"]
        )
    return [device.id for device in array.flat]


RULES = {
    "add": lambda p, x, y: lax.add(x, y),
    "mul": lambda p, x, y: lax.mul(x, y),
    "exp": lambda p, x: lax.exp(x),
    "sum": lambda p, x: jnp.sum(x, axis=tuple(p["dims"])),
    "transpose": lambda p, x: lax.transpose(x, p["permutation"]),
    "reshape": lambda p, x: lax.reshape(x, p["shape"]),
    "broadcast_in_dim": lambda p, x: lax.broadcast_in_dim(x, p["shape"], p["dims"]),
    "squeeze": lambda p, x: lax.squeeze(x, p["dims"]),
    "expand_dims": lambda p, x: lax.expand_dims(x, p["dims"]),
    "sort": lambda p, x: lax.sort(x, dimension=p["dim"]),
    "cumsum": lambda p, x: lax.cumsum(x, p["dim"]),
    "slice": lambda p, x: lax.slice(x, [0] * x.ndim, p["shape"]),
    "concatenate": lambda p, *xs: lax.concatenate(xs, p["dim"]),
    "select": lambda p, x, y: lax.select(np.bool_(True), x, y),
    "dot_general": lambda p, x, y: lax.dot_general(
        x,
        y,
        (p["contracting"], p["batch"]),
        out_sharding=None if p["out"] is None else spec_of(**p["out"]),
    ),
    "take": lambda p, x, i: x[i.astype(jnp.int32)],
}


def rule(case):
    mesh = mesh_of(case)
    with jax.set_mesh(mesh):
        operands = [
            jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec_of(**spec)))
            for shape, spec in case["operands"]
        ]
        try:
            result = jax.eval_shape(lambda *xs: RULES[case["rule"]](case["params"], *xs), *operands)
        except Exception as error:
            return {"error": type(error).__name__}
        return encoded(result.sharding.spec)

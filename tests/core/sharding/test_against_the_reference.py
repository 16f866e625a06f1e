"""Placement, equivalence, texts, type rules and orders of devices are those of the reference."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from corpus import sharding_answers
from oracle import Oracle

from pellucid import ShapeDtypeStruct, eval_shape, lax
from pellucid._machine.sharding.current_mesh import use_abstract_mesh
from pellucid._machine.sharding.errors import ShardingError, ShardingTypeError
from pellucid._machine.sharding.mesh import AbstractMesh, AxisType
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec
from pellucid._machine.sharding.topology import create_device_mesh, create_hybrid_device_mesh

MESHES = [(8,), (4, 2), (2, 4), (2, 2, 2), (1, 4), (4, 1), (1, 1), (3, 2), (1,)]


@pytest.fixture
def ask_reference(oracle_8_devices: Oracle) -> Callable[[str, list[Any]], list[Any]]:
    """`ask_reference(question, cases)`: the reference's answers, one for each case."""
    return functools.partial(oracle_8_devices.call, sharding_answers.answers)


def spec_of(entries: list[Any], unreduced: Any = (), reduced: Any = ()) -> PartitionSpec:
    decoded = [PartitionSpec.UNCONSTRAINED if entry == "?" else entry for entry in entries]
    return PartitionSpec(*decoded, unreduced=frozenset(unreduced), reduced=frozenset(reduced))


def encoded(spec: PartitionSpec) -> dict[str, Any]:
    entries = [
        "?" if e is PartitionSpec.UNCONSTRAINED else list(e) if isinstance(e, tuple) else e
        for e in spec.partitions
    ]
    return {
        "entries": entries,
        "unreduced": sorted(spec.unreduced),
        "reduced": sorted(spec.reduced),
    }


def random_entries(rng: random.Random, axes: list[str], ndim: int) -> list[Any]:
    """Entries for at most `ndim` dimensions that use some of `axes`, each at most once."""
    axes = rng.sample(axes, len(axes))
    entries: list[Any] = []
    for _ in range(ndim):
        count = min(rng.choice([0, 0, 1, 1, 1, 2]), len(axes))
        selected, axes = axes[:count], axes[count:]
        entries.append(None if not selected else selected[0] if len(selected) == 1 else selected)
    return entries[: rng.randint(0, ndim)] if rng.random() < 0.3 else entries


def random_mesh(rng: random.Random, types: str) -> dict[str, Any]:
    sizes = rng.choice(MESHES)
    order = rng.sample(range(8), int(np.prod(sizes))) if rng.random() < 0.3 else None
    return {"sizes": sizes, "types": "".join(rng.choices(types, k=len(sizes))), "order": order}


def axes_of(case: dict[str, Any]) -> list[str]:
    return list("abcd"[: len(case["sizes"])])


def placements() -> list[dict[str, Any]]:
    rng = random.Random(0)
    cases = []
    for _ in range(400):
        case = random_mesh(rng, "AAEEM")
        ndim = rng.randint(0, 3)
        free = [a for a, t in zip(axes_of(case), case["types"], strict=True) if t != "M"]
        case["spec"] = random_entries(rng, free, ndim)
        used = {a for e in case["spec"] for a in (e if isinstance(e, list) else [e])}
        explicit = [
            a
            for a, t in zip(axes_of(case), case["types"], strict=True)
            if t == "E" and a not in used
        ]
        if explicit and rng.random() < 0.5:
            case[rng.choice(["unreduced", "reduced"])] = explicit[: rng.randint(1, 2)]
        if "A" in case["types"] and rng.random() < 0.2:
            case["spec"] = ["?" if entry is None else entry for entry in case["spec"]]
        case["shape"] = [rng.choice([0, 1, 6, 8, 16, 24]) for _ in range(ndim)]
        cases.append(case)
    return cases


def our_placement(sharding: NamedSharding, shape: tuple[int, ...]) -> dict[str, Any]:
    answer: dict[str, Any] = {
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
        except ShardingError as error:
            answer[name] = {"error": type(error).__name__}
    return answer


NOT_DONE_BY_THE_REFERENCE = [{"error": "NotImplementedError"}, {"error": "AssertionError"}]


def test_placement_is_that_of_the_reference(ask_reference: Any, make_mesh_of: Any) -> None:
    cases = placements()
    for case, expected in zip(cases, ask_reference("placement", cases), strict=True):
        assert "error" not in expected, (case, expected)
        mesh = make_mesh_of(case["sizes"], case["types"], case["order"])
        spec = spec_of(case["spec"], case.get("unreduced", ()), case.get("reduced", ()))
        ours = our_placement(NamedSharding(mesh, spec), tuple(case["shape"]))
        if len(spec.unreduced | spec.reduced) > 1:
            (
                ours.pop("repr"),
                expected.pop("repr"),
            )  # there the reference's order changes from run to run
        for question in ("shard_shape", "indices"):
            if expected[question] in NOT_DONE_BY_THE_REFERENCE:
                expected.pop(question)
                answer = ours.pop(question)
                assert question == "shard_shape" or "error" in answer
        assert ours == expected, case


def test_equivalence_is_that_of_the_reference(ask_reference: Any, make_mesh_of: Any) -> None:
    rng = random.Random(1)
    cases = []
    for _ in range(300):
        a = random_mesh(rng, "A")
        b = dict(a) if rng.random() < 0.6 else random_mesh(rng, "A")
        for case in (a, b):
            case["spec"] = random_entries(rng, axes_of(case), 2)
        cases.append({"shardings": [a, b], "ndim": 2})
    seen = set()
    for case, expected in zip(cases, ask_reference("equivalence", cases), strict=True):
        a, b = (
            NamedSharding(make_mesh_of(c["sizes"], c["types"], c["order"]), spec_of(c["spec"]))
            for c in case["shardings"]
        )
        # The reference compares groups of copies in order; which copy is which makes no difference.
        ours = [a.is_equivalent_to(b, 2), a == b]
        assert ours == expected or (ours[0] and a._device_assignment == b._device_assignment), case
        assert b.is_equivalent_to(a, 2) == ours[0]
        seen.add(tuple(ours))
    assert len(seen) == 3


TEXTS = [
    "P()",
    "P('x')",
    "P(None)",
    "P(('x', 'y'), None)",
    "P(('x',), ())",
    "P(['x', 'y'])",
    "P('x', unreduced={'y'})",
    "P(None, reduced={'y'})",
    "P(unreduced={'y'})",
    "P(P.UNCONSTRAINED, 'x')",
    "P('x') + ('y',)",
    "('y',) + P('x')",
    "P('x', unreduced={'y'}) + P('z')",
    "P('x', 'y')[0:1]",
    "P('x', 'y')[1]",
    "len(P('x', 'y'))",
    "P('x') == ('x',)",
    "P('x') == P(('x',))",
    "P('x') == P('x', None)",
    "'x' in P('x')",
    "list(P('x', None))",
    "P('x', None, 'y').index('y')",
    "P('x').update(unreduced={'y'})",
    "P('x', reduced={'y'}).to_ct_spec()",
    "P('x', unreduced={'y'}).to_tangent_spec()",
    "P('x').to_lo()",
    "isinstance(P(), tuple)",
    "AbstractMesh((4, 2), ('x', 'y'))",
    "AbstractMesh((4,), ('x',), (AxisType.Manual,))",
    "AbstractMesh((4, 2), ('x', 'y')).update_axis_types({'x': AxisType.Explicit})",
    "AbstractMesh((), ())",
    "AbstractMesh((4, 2), ('x', 'y')).size",
    "AbstractMesh((4, 2), ('x', 'y')).shape",
    "AbstractMesh((4, 2), ('x', 'y')).shape_tuple",
    "AbstractMesh((4, 2), ('x', 'y')).update(axis_sizes=(8, 1))",
    "AbstractMesh((2, 2), ('x', 'y'), (AxisType.Auto, AxisType.Manual)).manual_axes",
    "AbstractMesh((2, 2), ('x', 'y')).are_all_axes_auto",
    "AbstractMesh((), ()).are_all_axes_auto",
    "NamedSharding(AbstractMesh((4, 2), ('x', 'y')), P('x'))",
    "NamedSharding(AbstractMesh((4, 2), ('x', 'y')), P('x')).memory_kind",
    "NamedSharding(AbstractMesh((4, 2), ('x', 'y')), P('x', 'y')).shard_shape((8, 8))",
    "AbstractDevice('h100', None, 'gpu')",
    "AxisType.Auto",
    "list(AxisType)",
    "ManualAxisType(varying={'x'})",
    "ManualAxisType().empty",
    "ManualAxisType(varying={'x'}, reduced={'y'}).to_ct_mat()",
    "sorted(ManualAxisType(varying={'x'}, reduced={'y'}).vur)",
    "ManualAxisType(varying={'x'}).invarying(AbstractMesh((2,), ('y',), (AxisType.Manual,)))",
    "Layout((1, 0))",
    "Layout((0, 1), tiling=((8, 128),))",
    "Layout((0, 1)).update(major_to_minor=(1, 0))",
    "Layout.AUTO",
    "Format()",
    "Format(Layout.AUTO)",
    "str(Layout((1, 0), ((8, 128), (2, 1)))._to_xla_layout(np.dtype('float32')))",
    "get_abstract_mesh()",
    "get_mesh()",
]


def test_texts_are_those_of_the_reference(ask_reference: Any) -> None:
    from pellucid._machine.sharding.layout import Format, Layout
    from pellucid.sharding import (
        AbstractDevice,
        ManualAxisType,
        get_abstract_mesh,
        get_mesh,
    )

    names = {
        "P": PartitionSpec,
        "AbstractMesh": AbstractMesh,
        "AxisType": AxisType,
        "NamedSharding": NamedSharding,
        "AbstractDevice": AbstractDevice,
        "ManualAxisType": ManualAxisType,
        "Layout": Layout,
        "Format": Format,
        "np": np,
        "get_abstract_mesh": get_abstract_mesh,
        "get_mesh": get_mesh,
    }
    (expected,) = ask_reference("texts", [{text: text for text in TEXTS}])
    ours = {text: repr(eval(text, names)) for text in TEXTS}
    assert ours == expected


class FakeDevice:
    """A device with coordinates, as TPU platforms have them."""

    def __init__(self, **fields: Any) -> None:
        fields["core_on_chip"] = fields.pop("core")
        fields["device_kind"] = fields.pop("kind")
        fields["process_index"] = fields.pop("process")
        self.__dict__ = fields


def torus(
    shape: tuple[int, int, int], kind: str, cores: int = 1, **more: Any
) -> list[dict[str, Any]]:
    first = more.get("first", 0)
    places = itertools.product(range(shape[2]), range(shape[1]), range(shape[0]), range(cores))
    return [
        {
            "id": first + i,
            "coords": [x, y, z],
            "core": core,
            "kind": kind,
            "process": (first + i) // 4,
            "slice_index": more.get("slice_index", 0),
        }
        for i, (z, y, x, core) in enumerate(places)
    ]


ORDERS = [
    *[((4, 4, 4), s, False) for s in [(64,), (4, 16), (16, 4), (4, 4, 4), (1, 4, 16), (2, 32)]],
    *[((4, 4, 4), s, True) for s in [(2, 32), (8, 8), (2, 2, 16), (2, 4, 8), (32, 2)]],
    *[((4, 4, 8), s, True) for s in [(8, 16), (16, 8), (4, 32), (128,), (2, 64), (2, 8, 8)]],
    *[((4, 4, 16), s, True) for s in [(16, 16), (4, 4, 16), (64, 4), (4, 64)]],
    *[((8, 8, 8), s, True) for s in [(64, 8), (16, 32), (4, 128), (2, 4, 64), (128, 4)]],
    *[((2, 4, 8), s, False) for s in [(8, 8), (2, 32), (16, 4), (4, 16), (64,)]],
    *[((4, 8, 1), s, False) for s in [(8, 4), (4, 8), (32,)]],
]


def test_orders_of_devices_are_those_of_the_reference(ask_reference: Any) -> None:
    cases = [
        {"devices": torus(grid, "TPU v4"), "shape": shape, "split": split}
        for grid, shape, split in ORDERS
    ]
    for kind, grid, cores, shapes in [
        ("TPU v5 lite", (4, 2, 1), 1, [(8,), (4, 2), (2, 4)]),
        ("TPU v5 lite", (2, 2, 1), 1, [(4,), (2, 2)]),
        ("TPU v5 lite", (4, 4, 1), 1, [(16,), (4, 4), (1, 16)]),
        ("TPU v5 lite", (8, 4, 1), 1, [(32,), (8, 4)]),
        ("TPU v5p", (2, 2, 2), 1, [(8,), (2, 4), (2, 2, 2)]),
        ("TPU v5p", (2, 2, 1), 1, [(4,), (2, 2)]),
        ("TPU v3", (2, 2, 1), 2, [(8,), (4, 2)]),
        ("TPU7x", (2, 2, 1), 2, [(8,), (2, 4)]),
        ("TPU7x", (2, 2, 2), 2, [(16,), (8, 2)]),
        ("TPU7x", (4, 4, 4), 2, [(128,), (64, 2)]),
        ("TPU v4 lite", (2, 2, 1), 1, [(4,), (2, 2)]),
    ]:
        devices = torus(grid, kind, cores)
        cases += [{"devices": devices, "shape": shape, "split": False} for shape in shapes]
    slices = [
        *torus((2, 2, 1), "TPU v4", slice_index=1, first=4),
        *torus((2, 2, 1), "TPU v4", slice_index=0),
    ]
    for shape, dcn in [((2, 2), (2, 1)), ((2, 2), (1, 2)), ((4, 1), (1, 2)), ((4,), (2,))]:
        cases.append({"devices": slices, "shape": shape, "dcn": dcn, "split": False})
    for case, expected in zip(cases, ask_reference("device_order", cases), strict=True):
        devices = [FakeDevice(**fields) for fields in case["devices"]]
        what = {key: value for key, value in case.items() if key != "devices"}
        try:
            if "dcn" in case:
                array = create_hybrid_device_mesh(case["shape"], case["dcn"], devices)
            else:
                array = create_device_mesh(
                    case["shape"], devices, allow_split_physical_axes=case["split"]
                )
            ours: Any = [device.id for device in array.flat]
        except ShardingError:
            assert "error" in expected, what
            continue
        assert ours == expected, what


RULES = {
    "add": lambda p, x, y: lax.add(x, y),
    "mul": lambda p, x, y: lax.mul(x, y),
    "exp": lambda p, x: lax.exp(x),
    "sum": lambda p, x: lax.reduce_sum(x, p["dims"]),
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
    "take": lambda p, x, i: x[lax.convert_element_type(i, np.int32)],
}


def our_rule(case: dict[str, Any], mesh: AbstractMesh) -> PartitionSpec:
    operands = [
        ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, spec_of(**spec)))
        for shape, spec in case["operands"]
    ]
    with use_abstract_mesh(mesh):
        result = eval_shape(lambda *xs: RULES[case["rule"]](case["params"], *xs), *operands)
    spec = PartitionSpec() if result.sharding is None else result.sharding.spec
    return spec.padded(result.ndim)


def ruled_cases(rule: str, rng: random.Random) -> dict[str, Any]:
    sizes = rng.choice([(4, 2), (2, 2, 2), (2, 4)])
    axes = list("abcd"[: len(sizes)])
    case: dict[str, Any] = {"rule": rule, "sizes": sizes, "types": "E" * len(sizes), "params": {}}

    def operand(shape: tuple[int, ...], marked: bool = False) -> Any:
        entries = random_entries(rng, axes, len(shape))
        used = {a for e in entries for a in (e if isinstance(e, list) else [e])}
        spec: dict[str, Any] = {"entries": entries}
        free = [a for a in axes if a not in used]
        if marked and free:
            spec[rng.choice(["unreduced", "reduced"])] = free[:1]
        return list(shape), spec

    params = case["params"]
    marked = rng.random() < 0.3
    match rule:
        case "add" | "mul" | "concatenate" | "select":
            case["operands"] = [operand((8, 8), marked), operand((8, 8), marked)]
            if rng.random() < 0.4:
                case["operands"][1] = case["operands"][0]
            params["dim"] = rng.randint(0, 1)
        case "dot_general":
            case["operands"] = [operand((8, 8, 16)), operand((8, 16, 8))]
            params |= {"contracting": [[2], [1]], "batch": [[0], [0]], "out": None}
            if rng.random() < 0.5:
                params |= {"contracting": [[0, 2], [0, 1]], "batch": [[], []]}
            if rng.random() < 0.3:
                params["out"] = operand((8, 8), marked=True)[1]
        case "take":
            case["operands"] = [operand((8, 8)), operand((4,))]
        case "reshape":
            old, new = rng.choice(RESHAPES)
            case["operands"] = [operand(old)]
            params["shape"] = new
        case "squeeze":
            case["operands"] = [([8, 1, 8], {"entries": ["a", None, "b"]})]
            params["dims"] = [1]
        case _:
            movement = rule in ("transpose", "broadcast_in_dim", "expand_dims", "sum")
            case["operands"] = [operand((8, 8), marked and movement)]
            params |= {
                "sum": {"dims": rng.choice([[0], [1], [0, 1]])},
                "transpose": {"permutation": rng.choice([[0, 1], [1, 0]])},
                "broadcast_in_dim": {"shape": [3, 8, 8], "dims": rng.choice([[0, 1], [1, 2]])},
                "expand_dims": {"dims": [rng.randint(0, 2)]},
                "slice": {"shape": rng.choice([[8, 4], [2, 8], [8, 8], [3, 8], [1, 1]])},
            }.get(rule, {"dim": rng.randint(0, 1)})
            if rule == "broadcast_in_dim" and params["dims"] == [0, 1]:
                params["shape"] = [8, 8, 3]
    return case


RESHAPES = [
    ((8, 8), (64,)),
    ((8, 8), (8, 1, 8)),
    ((8, 8), (4, 2, 8)),
    ((8, 8), (2, 4, 8)),
    ((8, 8), (8, 4, 2)),
    ((8, 8), (2, 2, 2, 8)),
    ((4, 4, 8), (16, 8)),
    ((4, 2, 8), (8, 8)),
    ((4, 4, 4), (64,)),
    ((4, 4, 4), (4, 16)),
    ((8, 1, 8), (8, 8, 1, 1)),
    ((8, 1, 8), (1, 8, 8)),
    ((16, 4), (8, 2, 4)),
    ((8, 4, 4), (8, 16)),
    ((64,), (8, 8)),
    ((64,), (4, 4, 4)),
]


@pytest.mark.parametrize(
    "rule",
    ["add", "mul", "exp", "sum", "transpose", "reshape", "broadcast_in_dim", "squeeze", "expand_dims",
     "sort", "cumsum", "slice", "concatenate", "select", "dot_general", "take"],
)  # fmt: skip
def test_type_rules_are_those_of_the_reference(rule: str, ask_reference: Any) -> None:
    rng = random.Random(rule)
    cases = [ruled_cases(rule, rng) for _ in range(60)]
    agreed = 0
    for case, expected in zip(cases, ask_reference("rule", cases), strict=True):
        mesh = AbstractMesh(
            case["sizes"],
            tuple("abcd"[: len(case["sizes"])]),
            [AxisType.Explicit] * len(case["sizes"]),
        )
        try:
            ours: Any = encoded(our_rule(case, mesh))
        except (ShardingTypeError, ShardingError):
            assert "error" in expected, case
            continue
        if "error" in expected:
            # The reference has no rule yet; that these results are right is tested elsewhere.
            assert rule in ("reshape", "select"), (case, ours, expected)
        else:
            assert ours == expected, case
            agreed += 1
    assert agreed > 5

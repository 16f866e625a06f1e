from __future__ import annotations

import copy
import pickle
import threading

import pytest

from pellucid._machine.sharding.errors import (
    DuplicateAxisError,
    PartitionSpecError,
    ShardingArgumentError,
)
from pellucid._machine.sharding.interning import InternTable
from pellucid._machine.sharding.partition_spec import PartitionSpec, check_axes_are_used_once

P = PartitionSpec


def test_equal_specs_are_one_object() -> None:
    assert P("x", None) is P("x", None)
    assert P(("x",), ()) is P("x", None)
    assert P(["x", "y"]) is P(("x", "y"))
    assert P("x", unreduced={"y"}) is P("x", unreduced=frozenset({"y"}))
    assert P("x") is not P("x", None)


def test_a_spec_survives_copies_and_pickling_as_itself() -> None:
    spec = P("x", None, ("y", "z"), P.UNCONSTRAINED, unreduced={"u"}, reduced={"r"})
    assert pickle.loads(pickle.dumps(spec)) is spec
    assert copy.copy(spec) is spec
    assert copy.deepcopy(spec) is spec


def test_a_spec_knows_its_axes() -> None:
    spec = P("x", None, ("y", "z"), P.UNCONSTRAINED)
    assert spec.axes_per_dim == (("x",), (), ("y", "z"), ())
    assert spec.axis_names == {"x", "y", "z"}


def test_axis_names_may_be_anything_hashable() -> None:
    assert P(3, (1, "x")).axes_per_dim == ((3,), (1, "x"))


def test_a_spec_with_marks_is_not_unpacked_silently() -> None:
    with pytest.raises(PartitionSpecError, match="can't be unpacked"):
        P(*P("x", reduced={"y"}))


def test_padding_never_drops_entries() -> None:
    assert P("x", unreduced={"y"}).padded(2) is P("x", None, unreduced={"y"})
    assert P("x").padded(1) is P("x")
    with pytest.raises(PartitionSpecError, match="rank 2 or more, but this one has rank 1"):
        P("x", None).padded(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: P("x", unreduced={"x"}),
        lambda: P(unreduced={"x"}, reduced={"x"}),
        lambda: P(unreduced={None}),
    ],
)
def test_marks_that_contradict_are_refused(make: object) -> None:
    with pytest.raises(PartitionSpecError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    "make", [lambda: P(unreduced="x"), lambda: P(P("x"), None), lambda: P({}), lambda: P({"x"})]
)
def test_entries_of_other_types_are_refused(make: object) -> None:
    with pytest.raises(ShardingArgumentError):
        make()  # type: ignore[operator]


def test_an_axis_is_used_once() -> None:
    check_axes_are_used_once(P("x", ("y", "z")))
    for spec in (P("x", "x"), P("x", ("y", "x")), P(("x", "x"))):
        with pytest.raises(DuplicateAxisError):
            check_axes_are_used_once(spec)


def test_a_spec_that_nobody_uses_is_forgotten() -> None:
    table: InternTable[threading.Thread] = InternTable()
    worker = table.add("key", threading.Thread())
    assert table.get("key") is worker
    assert table.add("key", threading.Thread()) is worker
    del worker
    assert table.get("key") is None


def test_threads_get_the_same_spec() -> None:
    specs: list[PartitionSpec] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        specs.extend(P(f"axis {i}") for i in range(200))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(spec) for spec in specs}) == 200

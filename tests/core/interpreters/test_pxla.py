"""Placements as libraries ask for them."""

import pytest

import pellucid as pl
from pellucid.interpreters import pxla
from pellucid.sharding import NamedSharding, PartitionSpec as P

MESH = pl.make_mesh((2, 4), ("a", "b"))


def hlo(*spec):
    return NamedSharding(MESH, P(*spec))._to_xla_hlo_sharding(2)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [((), (None, None), True), (("a",), ("a", None), True), (("a",), (None, "a"), False)],
)
def test_equal_shardings(one, other, equal) -> None:
    assert pxla.are_hlo_shardings_equal(hlo(*one), hlo(*other)) is equal
    assert pxla.are_hlo_shardings_equal(hlo(*one).to_proto(), hlo(*other)) is equal


def test_replicated_shardings() -> None:
    assert pxla.is_hlo_sharding_replicated(hlo())
    assert not pxla.is_hlo_sharding_replicated(hlo("a"))


def test_the_current_mesh() -> None:
    assert pxla.thread_resources.env.physical_mesh.empty
    with pl.set_mesh(MESH):
        assert pxla.thread_resources.env.physical_mesh is MESH

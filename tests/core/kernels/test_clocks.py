"""What orders accesses in the simulator of kernels: the signals that a wait needs, and regions that overlap."""

import itertools

import numpy as np
import pytest

from pellucid.kernels.simulator.clocks import Signal, needed
from pellucid.kernels.simulator.memory import Box, overlap, points_of


def arrivals(amounts):
    """All orders in which the signals of some issuers may arrive, each issuer's in its own order: as (issuer, number)."""
    names = [issuer for issuer, row in amounts.items() for _ in row]
    for order in set(itertools.permutations(names)):
        counts = dict.fromkeys(amounts, 0)
        found = []
        for issuer in order:
            found.append((issuer, counts[issuer]))
            counts[issuer] += 1
        yield found


def in_all_orders(amounts, value):
    """The signals that have arrived in any order when the sum first reaches `value`."""
    common = None
    for order in arrivals(amounts):
        total, seen = 0, set()
        for issuer, k in order:
            total += amounts[issuer][k]
            seen.add((issuer, k))
            if total >= value:
                break
        common = seen if common is None else common & seen
    return common or set()


@pytest.mark.parametrize("seed", range(12))
def test_a_wait_needs_the_signals_that_come_first_in_any_order(seed):
    rng = np.random.default_rng(seed)
    amounts = {i: rng.integers(1, 4, rng.integers(1, 3)).tolist() for i in range(3)}
    clock = dict.fromkeys(amounts, 0)
    rows = {
        i: [Signal(sum(row[: k + 1]), clock, float(k)) for k in range(len(row))]
        for i, row in amounts.items()
    }
    total = sum(map(sum, amounts.values()))
    for value in range(1, total + 1):
        expected = in_all_orders(amounts, value)
        # The last signal needed of an issuer stands for those before it.
        latest = {i: max(k for j, k in expected if j == i) for i, _ in expected}
        found = {}
        for signal in needed(rows, {}, value):
            [issuer] = [i for i, row in rows.items() if any(s is signal for s in row)]
            found[issuer] = rows[issuer].index(signal)
        assert found == latest
        # Signals that are in flight count as if they had arrived, but pass nothing on.
        in_flight = {"late": 2}
        with_late = in_all_orders({**amounts, "late": [2]}, value)
        seen = {id(s) for s in needed(rows, in_flight, value)}
        assert len(seen) == len({i for i, _ in with_late if i != "late"})


@pytest.mark.parametrize("seed", range(20))
def test_regions_overlap_where_elements_do(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
    positions = np.arange(int(np.prod(shape))).reshape(shape)

    def box():
        ranges = []
        for n in shape:
            start, step = int(rng.integers(0, n)), int(rng.integers(1, 4))
            ranges.append(range(start, int(rng.integers(start, n + 1)), step))
        return Box(tuple(ranges))

    def elements(region):
        if isinstance(region, Box):
            return set(positions[np.ix_(*region.ranges)].ravel().tolist())
        return set(region.positions.tolist())

    for _ in range(20):
        some = rng.integers(-1, positions.size, 3)
        regions = [box(), box(), points_of(some, shape), points_of(some[:1], shape)]
        for a, b in itertools.product(regions, repeat=2):
            assert overlap(a, b, shape) == bool(elements(a) & elements(b))

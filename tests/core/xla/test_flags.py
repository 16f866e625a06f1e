"""Flags that few programs change: calls follow them though C++ compares two entries for all of them."""

import concurrent.futures

import pellucid as pl
from pellucid._machine.base.config import config

offset = config.option("random_seed_offset")
gumbel = config.option("high_dynamic_range_gumbel")


def reader(traced):
    @pl.jit
    def read(x):
        traced.append(None)
        return x + 10 * offset.value + gumbel.value

    return lambda: int(read(0))


def test_blocks_that_overlap():
    read = reader([])
    first, second = offset(1), gumbel(True)
    seen = [read()]
    for step in (first.__enter__, second.__enter__):
        step()
        seen.append(read())
    for block in (first, second):
        block.__exit__(None, None, None)
        seen.append(read())
    assert seen == [0, 10, 11, 1, 0]


def test_a_thread_follows_the_global_values_that_it_does_not_override():
    read = reader([])
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        block = offset(1)
        thread.submit(block.__enter__).result()
        seen = [read(), thread.submit(read).result()]
        gumbel.set(True)
        try:
            seen += [read(), thread.submit(read).result()]
        finally:
            gumbel.set(False)
        seen += [read(), thread.submit(read).result()]
        thread.submit(block.__exit__, None, None, None).result()
        seen.append(thread.submit(read).result())
    assert seen == [0, 10, 1, 11, 0, 10, 0]


def test_a_value_that_changes_nothing_traces_nothing():
    traced = []
    read = reader(traced)
    read()
    with offset(0):
        read()
    with offset(2):
        read()
        offset.set(3)
        try:
            read()
        finally:
            offset.set(0)
    read()
    assert len(traced) == 2

"""Caches are bounded, counted, seen and cleared alike."""

import gc
import re

import numpy as np

import pellucid as pl
from pellucid._machine.base.caching import cache_uses, cached, clear_caches


def test_the_least_recently_used_entry_goes_first():
    calls = []
    remembered = cached(2)(lambda x: calls.append(x))
    for x in (1, 2, 1, 3, 1, 2):
        remembered(x)
    assert calls == [1, 2, 3, 2]
    assert cache_uses()[-1][1:] == (2, 2, 2, 4)


def test_weak_entries_go_with_their_first_argument():
    remembered = cached(8, weakly=True)(lambda owner, x: [x])
    owner, other = (lambda: 1), (lambda: 2)
    first = remembered(owner, 3)
    assert remembered(owner, 3) is first
    assert remembered(other, 3) is not first
    del owner
    gc.collect()
    assert cache_uses()[-1].entries == 1


def test_every_cache_is_cleared_and_shown(capsys):
    def body(c):
        return c * 2

    pl.jit(lambda x: pl.lax.while_loop(lambda c: c < 9, body, x))(np.float32(2))
    used = {use.name: use for use in cache_uses()}
    assert used["pellucid._machine.higher_order.bodies._traced_bodies"].entries > 0
    assert all(use.entries <= use.size for use in used.values())
    pl.explain_misses(1, caches=True)
    shown = re.findall(
        r"^  (\S+): \d+ of \d+, \d+ hits, \d+ misses$", capsys.readouterr().out, re.MULTILINE
    )
    assert sorted(shown) == sorted(name.removeprefix("pellucid.") for name in used)
    clear_caches()
    assert {use.entries for use in cache_uses()} == {0}

"""Transformed programs are no larger than the reference's, and keep no more; benchmarks/07_programs.py shows the sizes."""

from corpus import sizes

import pellucid


def test_programs_are_no_larger_than_the_reference(oracle):
    ours, theirs = sizes.sizes(pellucid), oracle.call(sizes.sizes)
    unmeasured = {name for name, pair in ours.items() if not all(isinstance(n, int) for n in pair)}
    assert unmeasured == {"rematerialized_layers"}, "it computes with its arguments in NumPy"
    larger = sizes.larger(ours, theirs)
    assert {name: (ours[name], theirs[name]) for name in larger - {*sizes.REASONS}} == {}
    assert larger >= {*sizes.REASONS}, "a reason is no longer needed"

"""Sample values of arrays."""

from __future__ import annotations

from pellucid.introspect.schema import ArrayPartColumns, ArrayValuesRecord

WHOLE = ArrayPartColumns(device=[0], index=["0:2, 0:3"], low=[-1.0], high=[2.5], nan_count=[1])


def plane() -> ArrayValuesRecord:
    """A small array with a NaN, an infinity and a zero."""
    return ArrayValuesRecord(
        type="f32[2,3]", dtype="float32", shape=[2, 3], is_absolute=False,
        nan_count=1, infinite_count=1, zero_count=1, low=-1.0, high=2.5, mean=0.5,
        bins=[1, 0, 1, 2], sample_count=6, index=[], steps=[1, 1], cells=[[-1.0, 0.0, None], [2.5, 0.5, None]],
        parts=WHOLE, numbers="Array([[-1., 0., nan],\n       [2.5, 0.5, inf]], dtype=float32)", note="",
    )  # fmt: skip


def with_parts() -> ArrayValuesRecord:
    """Absolute values of an array on two devices, of which a sample is counted, at a slice."""
    return ArrayValuesRecord(
        type="c64[4,100,200] as P('x',) on 2 devices", dtype="complex64", shape=[4, 100, 200],
        is_absolute=True, nan_count=0, infinite_count=0, zero_count=0, low=0.5, high=2.0, mean=1.0,
        bins=[3, 3, 3], sample_count=9, index=[3], steps=[1, 2], cells=[[1.0] * 64] * 50, numbers="Array([...])", note="",
        parts=ArrayPartColumns(
            device=[0, 1], index=["0:2, 0:100, 0:200", "2:4, 0:100, 0:200"],
            low=[0.5, 0.75], high=[2.0, 1.5], nan_count=[0, 0],
        ),
    )  # fmt: skip


def deleted() -> ArrayValuesRecord:
    """An array that has no values any more."""
    return ArrayValuesRecord(
        type="f32[8], deleted", dtype="float32", shape=[8], is_absolute=False, nan_count=0,
        infinite_count=0, zero_count=0, low=None, high=None, mean=None, bins=[], sample_count=0,
        index=[], steps=[1], cells=[], numbers="", note="The array was deleted or donated: it has no values any more.",
        parts=ArrayPartColumns(device=[], index=[], low=[], high=[], nan_count=[]),
    )  # fmt: skip

"""Rows for the Fourier transform."""

import numpy as np

from tests.laws.sample import Sample, array

NUMPY = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}


def fft(kind, shape, lengths, dtype=None, **options):
    """A transform along the last axes."""
    axes = tuple(range(-len(lengths), 0))
    dtype = dtype or ("float32" if kind == "RFFT" else "complex64")
    reference = lambda x: NUMPY[kind](x, lengths, axes)
    options = {"agrees": "close", "same_text": False} | options
    return Sample(
        f"lax.fft(x, lax.FftType.{kind}, {lengths})", (array(shape, dtype),), reference, **options
    )


samples = [
    *(
        fft(kind, (2, 3, 6), lengths)
        for kind in ("FFT", "IFFT", "RFFT")
        for lengths in ((6,), (3, 6), (2, 3, 6))
    ),
    *(fft(kind, (2, 5), (5,)) for kind in ("FFT", "IFFT", "RFFT")),
    *(fft(kind, (4,), (4,), "complex128") for kind in ("FFT", "IFFT", "IRFFT") if kind != "IRFFT"),
    fft("RFFT", (4,), (4,), "float64"),
    *(
        fft("IRFFT", (2, 3, n // 2 + 1), lengths)
        for n in (6, 7, 1, 2)
        for lengths in ((n,), (3, n))
    ),
    fft("IRFFT", (3,), (4,), "complex128"),
    fft("RFFT", (3, 1), (1,)),
    fft("RFFT", (3, 2), (2,)),
    Sample(
        "lax.fft(x, 'fft', (3,))", (array((2, 3)),), np.fft.fft, agrees="close", same_text=False
    ),
    Sample(
        "lax.fft(x, 'irfft', (4,))", (array((2, 3)),), np.fft.irfft, agrees="close", same_text=False
    ),
    Sample("lax.fft(x, 'RFFT', (3,))", (array((2, 3), "int32"),), np.fft.rfft, agrees="no"),
    Sample(
        "lax.fft(x, 'FFT', (3,))", (array((0, 3), "complex64"),), agrees="close", same_text=False
    ),
    Sample("lax.fft(x, 'FFT', ())", (array((3,), "complex64"),), same_text=False),
]

"""`pellucid.scipy.fft`: discrete cosine transforms."""

from pellucid.scipy.fft.cosine_transforms import (
    dct as dct,
    dctn as dctn,
    idct as idct,
    idctn as idctn,
)

__all__ = ["dct", "dctn", "idct", "idctn"]

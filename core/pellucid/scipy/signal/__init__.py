"""`pellucid.scipy.signal`: convolutions, trends and spectra of signals."""

from pellucid.scipy.signal import convolutions, spectra, trends
from pellucid.scipy.signal.convolutions import *
from pellucid.scipy.signal.spectra import *
from pellucid.scipy.signal.trends import *

__all__ = sorted([*convolutions.__all__, *spectra.__all__, *trends.__all__])  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]

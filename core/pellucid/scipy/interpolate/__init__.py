"""`pellucid.scipy.interpolate`: interpolation on grids."""

from pellucid.scipy.interpolate.regular_grid import (
    RegularGridInterpolator as RegularGridInterpolator,
)

__all__ = ["RegularGridInterpolator"]

"""`pellucid.scipy.optimize`: minima of functions of several variables."""

from pellucid.scipy.optimize.minimization import (
    OptimizeResults as OptimizeResults,
    minimize as minimize,
)

__all__ = ["OptimizeResults", "minimize"]

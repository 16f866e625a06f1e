"""`pellucid.scipy`: the SciPy API on arrays that are traced, transformed, compiled and sharded."""

from pellucid.scipy import linalg as linalg

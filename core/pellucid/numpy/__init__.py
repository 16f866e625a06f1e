"""`pellucid.numpy`: the NumPy API on arrays that are traced, transformed, compiled and sharded."""

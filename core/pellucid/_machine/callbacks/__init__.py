"""Python functions called from programs: for results, for side effects, for debugging."""

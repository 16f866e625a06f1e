"""Primitives whose params contain programs: jit, control flow, custom derivatives."""

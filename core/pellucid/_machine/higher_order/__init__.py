"""Primitives whose params hold programs: jit, control flow, custom derivatives."""

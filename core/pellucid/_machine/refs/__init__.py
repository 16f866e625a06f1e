"""Mutable references to arrays, and the primitives with which programs read and write them."""

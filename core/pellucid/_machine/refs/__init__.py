"""Mutable references: cells that hold an array, and how programs read and write them."""

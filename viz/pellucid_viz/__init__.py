"""Notebook figures of programs, arrays and shardings."""

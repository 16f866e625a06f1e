"""Compilation of modules to executables."""

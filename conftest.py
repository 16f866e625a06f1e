"""Settings that every test and doctest needs before the first client is created."""

import os

# Meshes and shardings are tested on eight virtual devices of the CPU.
os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", "8")

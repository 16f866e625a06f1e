"""Programs and options of IFRT's plugins, under the names of `jax.extend.ifrt_programs`."""

from pellucid._machine.xla.client import ifrt_programs as ifrt_programs

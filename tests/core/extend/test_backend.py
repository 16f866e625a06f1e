"""Clients and options of the compiler, as libraries ask for them."""

import subprocess
import sys

import pellucid as pl
from pellucid.extend import backend, sharding
from pellucid.sharding import NamedSharding, PartitionSpec as P


def test_options_that_xla_takes() -> None:
    options = backend.get_compile_options(1, 2, [[1, 3]], {"xla_cpu_enable_fast_math": True})
    assert (options.num_replicas, options.num_partitions) == (1, 2)
    assert dict(options.env_option_overrides) == {"xla_cpu_enable_fast_math": True}


def test_shardings_as_bytes() -> None:
    mesh = pl.make_mesh((2,), ("a",))
    hlo = NamedSharding(mesh, P("a"))._to_xla_hlo_sharding(1)
    data = sharding.get_serialized_proto_from_hlo_sharding(hlo)
    assert sharding.get_hlo_sharding_from_serialized_proto(data) == hlo
    assert sharding.get_op_sharding_from_serialized_proto(data).SerializeToString() == data


PROGRAM = """
import functools, numpy as np, pellucid as pl
from pellucid.extend import backend
made = []
calls = functools.lru_cache(lambda: made.append(2))
backend.register_backend_cache(calls, "calls")
calls(); calls()
first = backend.get_backend()
backend.clear_backends()
calls()
print(made, backend.get_backend() is first, pl.jit(lambda x: x + 1)(np.float32(1)), sorted(backend.backends()))
"""


def test_clients_are_started_anew() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "[2, 2] False 2.0 ['cpu']", run.stderr

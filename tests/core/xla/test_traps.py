"""Traps of jaxlib that end or change a process; each is closed and has a test here.

Whatever could end the process, or changes it for good, runs in a process of its own.
"""

import os
import subprocess
import sys
import textwrap

import pytest


def run(code, *, devices=1, timeout=120, **environment):
    """The output of `code` in a fresh process, which must end well."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PJRT_NPROC", "NPROC")}
    chosen = {k: str(v) for k, v in environment.items()}
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**inherited, "PELLUCID_NUM_CPU_DEVICES": str(devices), **chosen},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout.strip()


# Other programs' `jax` --------------------------------------------------------------------------------


def test_jax_imported_first_is_told_apart():
    code = """
        import sys, types
        sys.modules["jax"] = types.ModuleType("jax")
        try:
            import pellucid
        except ImportError as error:
            print(type(error).__name__, error)
    """
    assert run(code).startswith("SharedProcessError pellucid and jax can't share one process")


def test_jax_imported_afterwards_is_refused_and_found(tmp_path):
    (tmp_path / "jax.py").write_text("raise SystemExit('jax was run')")
    code = """
        import importlib.util
        import pellucid
        print(importlib.util.find_spec("jax").origin)
        for name in ("jax", "jax.numpy"):
            try:
                __import__(name)
            except ImportError as error:
                print(type(error).__name__)
    """
    output = run(code, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert output.splitlines() == [
        str(tmp_path / "jax.py"),
        "SharedProcessError",
        "SharedProcessError",
    ]


@pytest.mark.parametrize("devices", [1, 4])
def test_cpp_never_imports_jax(devices):
    code = """
        import sys
        import numpy as np
        import pellucid
        from pellucid._machine.runtime import platforms
        from pellucid._machine.runtime.interchange import from_dlpack
        from pellucid._machine.runtime.transfer import device_put
        from pellucid.sharding import Mesh, NamedSharding, PartitionSpec
        devices = platforms.devices()
        mesh = Mesh(np.array(devices), ("x",))
        for spec in (PartitionSpec("x"), PartitionSpec()):
            x = device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, spec))
            print([str(s.aval) for s in x._arrays][:1])
        print(x._fully_replicated_shard().aval, from_dlpack(np.arange(2, dtype=np.int32)).aval)
        print("jax" in sys.modules, "jax._src" in sys.modules)
    """
    part = 8 // devices
    assert run(code, devices=devices).splitlines() == [
        f"['float32[{part}]']", "['float32[8]']", "float32[8] int32[2]", "False False"
    ]  # fmt: skip


def test_the_weak_cache_module_is_loaded_before_it_is_needed():
    code = """
        import pellucid
        from jaxlib import _jax
        class Typed: pass
        _jax.set_typed_ndarray_type(Typed)
        print("alive")
    """
    assert run(code) == "alive"


# Memory -------------------------------------------------------------------------------------------------

_ALIGNED = """
    import numpy as np
    import pellucid
    from pellucid._machine.higher_order.jitted import jit
    from pellucid._machine.primitives.arithmetic import add, mul
    from pellucid._machine.runtime.transfer import device_put, from_host

    def aligned(n):
        "A NumPy array whose memory begins at a multiple of 64 bytes, where jaxlib would use it as it is."
        raw = np.zeros(4 * n + 64, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start : start + 4 * n].view(np.float32)
"""


def test_later_writes_to_a_host_array_do_not_show():
    code = (
        _ALIGNED
        + """
    identity = jit(lambda x: x)
    donating = jit(lambda x: add(x, x), donate_argnums=0)
    donating(aligned(1024)), identity(aligned(1024))
    for make in (device_put, from_host, identity, donating):
        x = aligned(1024)
        y = make(x)
        x[:] = 7
        print(np.unique(np.asarray(y)), np.unique(x))
    """
    )
    assert run(code).splitlines() == ["[0.] [7.]"] * 4


def test_a_running_program_does_not_see_later_writes_to_its_argument():
    code = (
        _ALIGNED
        + """
    half = np.full(1 << 20, 0.5, np.float32)
    def slow(x):
        for _ in range(40):
            x = add(mul(x, half), mul(half, half))
        return x
    function = jit(slow)
    x = aligned(1 << 20)
    x[:] = 0.5
    expected = np.asarray(function(x)).copy()
    wrong = 0
    for _ in range(10):
        x[:] = 0.5
        y = function(x)
        x[:] = np.nan
        wrong += not np.array_equal(np.asarray(y), expected)
    print(wrong)
    """
    )
    assert run(code) == "0"


def test_donating_to_another_device_leaves_no_poison():
    code = """
        import numpy as np
        import pellucid
        from pellucid._machine.runtime import platforms
        from pellucid._machine.runtime.transfer import device_put
        x = device_put(np.arange(4, dtype=np.float32))
        y = device_put(x, platforms.devices()[1], donate=True)
        print(x.is_deleted(), y)
        x.delete()
        try:
            np.asarray(x)
        except RuntimeError as error:
            print(type(error).__name__)
    """
    assert run(code, devices=2).splitlines() == ["True [0. 1. 2. 3.]", "DeletedArrayError"]


# Threads ------------------------------------------------------------------------------------------------

_ALL_REDUCE = """
    import os
    import numpy as np
    import pellucid
    from pellucid._machine.ir.avals import shaped_array
    from pellucid._machine.runtime import platforms
    from pellucid._machine.runtime.transfer import device_put
    from pellucid.sharding import Mesh, NamedSharding, PartitionSpec
    from pellucid._machine.xla import compile as xla, mlir

    devices = platforms.devices()
    n = len(devices)
    text = f'''
    module @m attributes {{mhlo.num_partitions = {n} : i32, mhlo.num_replicas = 1 : i32}} {{
      sdy.mesh @mesh = <["x"={n}]>
      func.func @main(%a: tensor<{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
          -> (tensor<{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) {{
        %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}]>]
            out_shardings=[<@mesh, [{{"x"}}]>] manual_axes={{"x"}} (%s: tensor<1xf32>) {{
          %t = "stablehlo.all_reduce"(%s) <{{
              replica_groups = dense<{[list(range(n))]}> : tensor<1x{n}xi64>,
              channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids
          }}> ({{
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %z = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %z : tensor<f32>
          }}) : (tensor<1xf32>) -> tensor<1xf32>
          sdy.return %t : tensor<1xf32>
        }} : (tensor<{n}xf32>) -> tensor<{n}xf32>
        return %r : tensor<{n}xf32>
      }}
    }}'''
    context = mlir.new_context()
    with context:
        module = mlir.ir.Module.parse(text)
    options = xla.compile_options(devices, is_partitioned=n > 1)
    program = xla.compile_module(platforms.client(), module, devices, options, [])
    sharding = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x"))
    x = device_put(np.ones(n, np.float32), sharding)
    handler = xla.result_handler(x.aval, sharding, True)
    def step(x):
        return program.execute_sharded([x]).consume_with_handlers([handler])[0]
"""


def test_collectives_of_many_devices_do_not_starve_each_other():
    devices = 4 * (os.cpu_count() or 1)
    code = (
        _ALL_REDUCE
        + """
    results = [step(x) for _ in range(200)]
    print({float(np.asarray(y)[0]) for y in results})
    """
    )
    assert run(code, devices=devices) == f"{{{float(devices)}}}"


def test_a_number_of_threads_that_the_user_chose_is_kept():
    code = """
        import os
        from jaxlib import _jax
        from pellucid._machine.xla import client
        def make(**options):
            print(os.environ.get("PJRT_NPROC"), os.environ.get("NPROC"))
        _jax.get_tfrt_cpu_client = make
        client.make_cpu_client(100)
        print(os.environ.get("PJRT_NPROC"))
    """
    assert run(code).splitlines() == ["200 None", "None"]
    assert run(code, PJRT_NPROC=7).splitlines() == ["7 None", "7"]
    assert run(code, NPROC=5).splitlines() == ["None 5", "None"]


# Programs -----------------------------------------------------------------------------------------------


def test_operations_outlive_the_module_they_came_from():
    code = """
        import gc
        import numpy as np
        import pellucid
        from pellucid._machine.higher_order.jitted import jit
        from pellucid._machine.primitives.arithmetic import add
        def operations():
            lowered = jit(lambda x: add(x, x)).lower(np.ones(3, np.float32))
            [main] = lowered.compiler_ir().body.operations
            return main, list(main.regions[0].blocks[0].operations)
        kept = [operations() for _ in range(50)]
        gc.collect()
        for main, inner in kept:
            text = str(main), [str(op) for op in inner], inner[0].results[0].type
        print(text[1][0].split(" : ")[0], text[2])
    """
    assert run(code) == "%0 = stablehlo.add %arg0, %arg0 tensor<3xf32>"


def test_an_executable_outlives_what_made_it():
    code = """
        import gc
        import numpy as np
        import pellucid
        from pellucid._machine.higher_order.jitted import jit
        from pellucid._machine.primitives.arithmetic import add
        big = np.ones(1000, np.float32)
        compiled = jit(lambda x: add(x, big)).lower(np.ones(1000, np.float32)).compile()
        del big
        gc.collect()
        print(np.unique(np.asarray(compiled(np.ones(1000, np.float32)))))
    """
    assert run(code) == "[2.]"

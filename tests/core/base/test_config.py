"""Options: each changes something that a user can see, or refuses to be changed."""

import collections
import doctest
import gc
import itertools
import json
import logging
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from corpus.library_programs import option_names

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax, random
from pellucid._machine.base.config import config
from pellucid._machine.base.errors import ConfigError
from pellucid._machine.base.tracebacks import is_filtered
from pellucid._machine.base.unused_options import UNUSED_OPTIONS
from pellucid._machine.compilation import disk_cache
from pellucid._machine.compilation.options import error_for
from pellucid._machine.runtime import guards, platforms
from pellucid._machine.xla import compile as xla_compile, plugins

ROOT = Path(__file__).parents[3]
ROWS = {}
"""By option: another value than the default, and a function that makes a program. What programs return is what the user
sees; they run under the default, under the other value and again under the default."""
JOBS = {
    "agreement_on_programs": "tests/multi_process/test_order.py",
    "peer_timeout_seconds": "tests/multi_process/order.py",
}
"""Options of jobs of several processes, and where they are tested."""
OF_PROCESS = {
    "cpu_collectives_implementation", "cpu_enable_async_dispatch", "enable_preemption_service", "num_cpu_devices",
    "platforms",
}  # fmt: skip
"""Options that are tested in a process of its own, where platforms start and a job of one process is formed."""
ONE_VALUE = {
    "enable_recoverability", "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp", "use_shardy_partitioner",
}  # fmt: skip
X = np.array([1.0, 2.0, 3.0], np.float32)
FRESH = itertools.count()
LEAKS = []


def row(name, value):
    """Put the decorated maker of a program into `ROWS`."""

    def add(make):
        ROWS[name] = value, make
        return make

    return add


@pl.custom_vjp
def summed(x):
    """A sum whose backward rule gives a cotangent of another shape."""
    return x.sum()


summed.defvjp(lambda x: (x.sum(), None), lambda _, ct: (ct,))


def of_call(name, value, function, *args):
    """A row of a function that is compiled once, in the caches of which its option has to be a key."""

    def make(tmp_path, monkeypatch):
        jitted = pl.jit(function)
        return lambda: outcome(lambda: jitted(*args))

    ROWS[name] = value, make


def outcome(call):
    """Text of the result of a call, or the class and first line of what it raises."""
    try:
        return str(call())
    except Exception as error:  # any: it is compared
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def logged(logger, call):
    """The records that a logger got during a call, without seconds."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage().split(" in ")[0])
    logging.getLogger(logger).addHandler(handler)
    try:
        call()
    finally:
        logging.getLogger(logger).removeHandler(handler)
    return len(records)


def compile_another():
    """Compile and run a function that was never seen."""
    number = next(FRESH) + 0.5
    return pl.jit(lambda x: x * number)(X)


of_call("numpy_dtype_promotion", "strict", lambda x: x + np.int32([1, 2, 3]), X)
of_call("numpy_rank_promotion", "raise", lambda x: x + jnp.ones((2, 3)), X)
of_call("check_tracer_leaks", True, lambda x: LEAKS.append(x) or 1.0, X)
of_call("debug_nans", True, jnp.log, -X)
of_call("debug_infs", True, jnp.log, 0 * X)
of_call("disable_bwd_checks", True, lambda x: pl.grad(summed)(x), X)
of_call("debug_key_reuse", True, lambda k: (random.bits(k), random.bits(k)), random.key(1))
of_call("platform_name", "gpu", jnp.sin, X)
of_call("default_device", "gpu", jnp.sin, X)
of_call("no_execution", True, jnp.sin, X)
of_call("allow_f16_reductions", False, lambda x: lax.reduce_sum(x.astype("float16"), (0,)), X)
of_call("random_seed_offset", 5, lambda: random.bits(random.key(1)))


of_call("exact_arithmetic", True, lambda x: x / jnp.sqrt(x) * x - 1, X)
of_call("masked_gradients", True, pl.grad(lambda x: jnp.where(x > 1, jnp.sqrt(x - 1), 0).sum()), X)


@row("call_repeated_layers", False)
def _(tmp_path, monkeypatch):
    def layers(x):
        for _ in range(5):
            x = (
                jnp.sin(x)
                + jnp.cos(x) * jnp.tan(x) / jnp.exp(x)
                - jnp.tanh(x) * jnp.log(jnp.abs(x))
            )
        return x

    return lambda: pl.jit(layers).lower(X).as_text().count("call @")


of_call("threefry_partitionable", False, lambda: random.bits(random.key(1), (3,)))
of_call("default_prng_impl", "rbg", lambda: random.key_data(random.key(1)))
of_call("enable_custom_prng", True, lambda: random.PRNGKey(1))
of_call(
    "pallas_enable_debug_checks", True, lambda: pl.experimental.pallas.debug_check(False, "never")
)
pallas = pl.experimental.pallas
of_call(
    "simulated_kernels", pallas.tpu.InterpretParams(),
    lambda: pallas.pallas_call(lambda x_ref, o_ref: o_ref.set(x_ref[pallas.ds(x_ref[1], 2)]), X[:2].astype(np.int32))(
        np.array([0, 1], np.int32)
    ),
)  # fmt: skip
of_call("legacy_prng_key", "error", random.bits, np.array([1, 2], np.uint32))
of_call("high_dynamic_range_gumbel", True, lambda: random.gumbel(random.key(1), (2,)))


@row("enable_x64", True)
def default_dtype(tmp_path, monkeypatch):
    return lambda: str(jnp.arange(2).dtype)


@row("disable_jit", True)
def value_inside(tmp_path, monkeypatch):
    seen = []
    jitted = pl.jit(lambda x: seen.append(isinstance(x, pl.core.Tracer)) or x * next(FRESH))

    def program():
        jitted.clear_cache()
        jitted(X)
        return seen[-1]

    return program


@row("default_matmul_precision", "float32")
def stated_precision(tmp_path, monkeypatch):
    jitted = pl.jit(jnp.dot)
    return lambda: "HIGHEST" in jitted.lower(X, X).as_text()


@row("enable_checks", True)
def ill_typed_program(tmp_path, monkeypatch):
    [loop] = pl.make_jaxpr(lambda xs: lax.map(lax.erf_inv, xs))(X).eqns
    body = loop.params["jaxpr"]
    equations = [body.eqns[0].replace(primitive=lax.is_finite_p)]
    params = loop.params | {"jaxpr": body.replace(jaxpr=body.jaxpr.replace(eqns=equations))}
    return lambda: outcome(lambda: pl.jit(lambda x: loop.primitive.bind(x, **params))(X))


@row("log_compiles", True)
def log_of_compilations(tmp_path, monkeypatch):
    return lambda: logged("pellucid", compile_another) > 0


@row("explain_cache_misses", True)
def log_of_misses(tmp_path, monkeypatch):
    return lambda: logged("pellucid", compile_another) > 0


@row("cuda_visible_devices", "0,2")
def devices_of_the_client(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "make_cuda_client", lambda options: options)
    return lambda: platforms._make_cuda().get("visible_devices")


def entries_of_cache(tmp_path, monkeypatch):
    """A program that counts the files that a compilation puts into a folder; it sets what isn't being tested."""
    config.update("compilation_cache_dir", str(tmp_path))
    config.update("persistent_cache_min_compile_time_secs", 0)

    def program():
        before = len(list(tmp_path.iterdir()))
        compile_another()
        return len(list(tmp_path.iterdir())) > before

    return program


row("enable_compilation_cache", False)(entries_of_cache)
row("compilation_cache_dir", None)(entries_of_cache)
row("compilation_cache_max_size", 10)(entries_of_cache)
row("persistent_cache_min_compile_time_secs", 1e6)(entries_of_cache)
row("persistent_cache_min_entry_size_bytes", 1 << 30)(entries_of_cache)


@row("compilation_cache_session", "first.ipynb")
def list_of_a_session(tmp_path, monkeypatch):
    compiles = entries_of_cache(tmp_path, monkeypatch)
    return lambda: compiles() and [path.unlink() for path in tmp_path.glob("*.session")]


@row("traceback_filtering", "off")
def frames_of_pellucid(tmp_path, monkeypatch):
    def program():
        try:
            pl.jit(lambda x: {}[x.shape])(X)
        except KeyError as error:
            return is_filtered(error)
        return None

    return program


@row("transfer_guard_host_to_device", "disallow")
@row("transfer_guard", "disallow")
def transfer_to_device(tmp_path, monkeypatch):
    jitted = pl.jit(lambda x: x + 1)
    return lambda: outcome(lambda: jitted(X))


@row("transfer_guard_device_to_device", "disallow")
def transfer_between_devices(tmp_path, monkeypatch):
    committed, elsewhere = pl.device_put(X, pl.devices()[1]), jnp.asarray(X)

    def program():
        number = next(FRESH) + 0.5
        return outcome(lambda: pl.jit(lambda a, b: a + b * number)(elsewhere, committed).shape)

    return program


@row("transfer_guard_device_to_host", "disallow")
def transfer_to_host(tmp_path, monkeypatch):
    # Reading a CPU's memory is no transfer; this is what arrays on other platforms do first.
    def program():
        with guards.guard_transfer("device_to_host", pl.typeof(X), "the host", explicit=False):
            return True

    return lambda: outcome(program)


@row("array_garbage_collection_guard", "log")
def arrays_in_cycles(tmp_path, monkeypatch):
    capture = monkeypatch.capture

    def program():
        holder = {"array": pl.device_put(X)}
        holder["itself"] = holder
        del holder
        gc.collect()
        return "deleted by the Python garbage collector" in capture.readouterr().err

    return program


@row("thread_guard", True)
def guard_of_another_thread(tmp_path, monkeypatch):
    def program():
        outcomes = []

        def guard():
            with config.option("thread_guard")(True):
                pass

        thread = threading.Thread(target=lambda: outcomes.append(outcome(guard)))
        thread.start()
        thread.join()
        return outcomes

    return program


@row("no_tracing", True)
def tracing(tmp_path, monkeypatch):
    return lambda: outcome(lambda: compile_another().shape)


@row("auto_pcast", False)
def varying_operands(tmp_path, monkeypatch):
    mesh = pl.make_mesh((2,), ("x",), (pl.sharding.AxisType.Auto,))
    jitted = pl.jit(
        pl.shard_map(lambda x: x + jnp.ones(1), mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))
    )
    return lambda: outcome(lambda: jitted(X[:2]))


def stated_efforts(tmp_path, monkeypatch):
    """A program that reads the efforts and flags which XLA gets."""
    requests = []
    compile_module = xla_compile.compile_module

    def noting(client, module, devices, options, callbacks):
        build = options.executable_build_options
        names = ("exec_time_optimization_effort", "memory_fitting_effort")
        efforts = [getattr(build, name, None) for name in names]  # jaxlib 0.12 has none
        requests.append((*efforts, dict(options.env_option_overrides)))
        return compile_module(client, module, devices, options, callbacks)

    monkeypatch.setattr(xla_compile, "compile_module", noting)
    return lambda: outcome(lambda: compile_another() is not None and requests[-1])


row("disable_most_optimizations", True)(stated_efforts)
row("optimization_level", "O1")(stated_efforts)
row("exec_time_optimization_effort", 0.5)(stated_efforts)
row("memory_fitting_effort", -0.5)(stated_efforts)


@row("dump_ir_to", "dumps")
def dumped_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def program():
        before = {*tmp_path.rglob("*.mlir")}
        compile_another()
        return [
            "stablehlo.multiply" in file.read_text()
            for file in {*tmp_path.rglob("*.mlir")} - before
        ]

    return program


@row("dump_ir_modes", "stablehlo,jaxpr")
def forms_of_dumps(tmp_path, monkeypatch):
    config.update("dump_ir_to", str(tmp_path))

    def program():
        before = len(list(tmp_path.iterdir()))
        compile_another()
        return len(list(tmp_path.iterdir())) - before

    return program


@row("captured_constants_warn_bytes", 1000)
def warnings_of_constants(tmp_path, monkeypatch):
    def program():
        large = jnp.arange(next(FRESH) + 1000)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pl.jit(lambda x: x + large)(1)
        return ["closes over" in str(w.message) for w in caught]

    return program


@row("raise_persistent_cache_errors", True)
def unusable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    config.update("compilation_cache_dir", str(tmp_path / "file"))

    def program():
        disk_cache.reset_cache()
        return outcome(lambda: compile_another().shape)

    return program


@row("compilation_cache_include_metadata_in_key", True)
def entries_by_name(tmp_path, monkeypatch):
    config.update("compilation_cache_dir", str(tmp_path))
    config.update("persistent_cache_min_compile_time_secs", 0)

    def program():
        number = next(FRESH) + 0.5
        before = len(list(tmp_path.iterdir()))
        for name in ("one", "other"):
            function = lambda x: x * number
            function.__name__ = "f"
            with pl.named_scope(name):
                pl.jit(lambda x: pl.named_call(function, name=name)(x))(X)  # noqa: B023
            pl.clear_caches()
        return len(list(tmp_path.iterdir())) - before

    return program


@row("check_static_indices", True)
def index_out_of_bounds(tmp_path, monkeypatch):
    return lambda: outcome(lambda: (jnp.arange(3)[5], pl.jit(lambda x: x[5])(jnp.arange(3))))


@row("explicit_x64_dtypes", "error")
def wide_dtype(tmp_path, monkeypatch):
    def program():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return outcome(lambda: jnp.zeros(2, "float64").dtype)

    return program


@row("logging_level", "ERROR")
def log_at_a_level(tmp_path, monkeypatch):
    return lambda: logged("pellucid", lambda: logging.getLogger("pellucid").warning("a fault"))


@row("pjrt_client_create_options", "memory_fraction:0.5")
def options_of_clients(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "make_cuda_client", lambda options: options)
    return lambda: platforms._make_cuda().get("memory_fraction")


def test_every_option_has_a_test():
    tables = [ROWS.keys(), JOBS.keys(), OF_PROCESS, ONE_VALUE]
    counts = collections.Counter(itertools.chain.from_iterable(tables))
    assert counts == dict.fromkeys(config.options(), 1)
    for name, file in JOBS.items():
        assert name in (ROOT / file).read_text().lower(), file


@pytest.mark.parametrize("name", ROWS)
def test_each_changes_what_a_user_sees(name, tmp_path, monkeypatch, capfd):
    value, make = ROWS[name]
    monkeypatch.capture = capfd
    before = config.options()
    try:
        program = make(tmp_path, monkeypatch)
        default = program()
        with config.option(name)(value):
            assert program() != default
        assert program() == default
    finally:
        for changed in before.items() - config.options().items():
            config.update(*changed)


JOB = """
import json, socket, pellucid as pl
from pellucid.experimental import multihost_utils

def note(call):
    try:
        noted.append(call())
    except Exception as error:
        noted.append(str(error).splitlines()[0])

noted = []
pl.config.update("platforms", "abacus")
note(pl.device_count)
pl.config.update("platforms", "cpu")
pl.config.update("num_cpu_devices", 3)
pl.config.update("cpu_collectives_implementation", "mpi")
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
pl.distributed.initialize(f"127.0.0.1:{port}", 1, 0)
note(pl.device_count)
pl.config.update("cpu_collectives_implementation", None)
note(pl.device_count)
pl.config.update("enable_preemption_service", False)
note(lambda: multihost_utils.reached_preemption_sync_point(0))
pl.config.update("enable_preemption_service", True)
note(lambda: multihost_utils.reached_preemption_sync_point(0))
print(json.dumps(noted))
"""


def test_a_process_starts_as_options_say():
    run = subprocess.run(
        [sys.executable, "-c", JOB], capture_output=True, text=True, check=False, timeout=120,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == [
        "there is no platform 'abacus'.",
        "collectives over MPI need MPItrampoline.",
        3,
        "reached_preemption_sync_point: no process watches for SIGTERM.",
        False,
    ]


@pytest.mark.parametrize("name", sorted(ONE_VALUE))
def test_options_with_one_value_refuse_others(name):
    default = config.option(name).default
    config.update(f"jax_{name}", str(default).lower())
    with pytest.raises(ConfigError, match=rf"option '{name}' does not take [^$]*only {default} is"):
        config.update(f"jax_{name}", not default)


# Options of the reference that change nothing, its environment variables and flags -------------------


def test_options_without_effect_are_accepted_and_warned_about():
    assert not UNUSED_OPTIONS.keys() & config.options().keys()
    assert config.jax_use_magma == config.values["jax_use_magma"] == "auto"
    config.update("jax_use_magma", "auto")
    try:
        with pytest.warns(UserWarning, match="'jax_use_magma' changes nothing"):
            config.update("jax_use_magma", "on")
        assert config.read("jax_use_magma") == "on"
    finally:
        config.update("jax_use_magma", "auto")


def test_all_options_of_the_reference_are_known(oracle):
    names = {*UNUSED_OPTIONS, *config.options()}
    assert {*oracle.call(option_names)} - names == UNKNOWN


@pytest.mark.parametrize(
    "name", [name for name in config.options() if ">>>" in config.option(name).__doc__]
)
def test_examples_run(name, doctest_namespace):
    parser, names = doctest.DocTestParser(), dict(doctest_namespace)
    example = parser.get_doctest(config.option(name).__doc__, names, name, None, 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert not doctest.DocTestRunner(optionflags=flags).run(example).failed


def test_errors_describe_an_option_without_its_example():
    with pytest.raises(ConfigError, match=r"they become 32-bit\.$"):
        config.update("enable_x64", "maybe")


UNKNOWN = {"memory_fitting_level"}
"""Options that are refused: the compiler options of a call take what they would."""


def test_the_guide_lists_options_without_effect():
    page = (ROOT / "docs/options.md").read_text()
    assert {*re.findall(r"`jax_(\w+)`", page)} == {*config.options(), *UNUSED_OPTIONS} - OURS
    assert {*re.findall(r"^\| `((?!jax_)\w+)`", page, re.MULTILINE)} == OURS


OURS = {
    "agreement_on_programs", "call_repeated_layers", "compilation_cache_session", "exact_arithmetic", "masked_gradients",
    "peer_timeout_seconds", "simulated_kernels",
}  # fmt: skip

ENVIRONMENT = """
import sys, warnings
sys.argv = ["program", "--jax_enable_x64=true", "--mine=3"]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import pellucid as pl
    pl.config
print([str(w.message) for w in caught])
pl.config.parse_flags_with_absl()
print(pl.config.x64_enabled, pl.config.jax_logging_level)
x = pl.numpy.ones((1000, 1000))
pl.block_until_ready(x @ x)
print((x @ x @ x @ x).is_ready())
"""


def test_variables_and_flags():
    run = subprocess.run(
        [sys.executable, "-c", ENVIRONMENT], capture_output=True, text=True, check=False, timeout=120,
        env={
            "PYTHONPATH": ":".join(sys.path), "JAX_LOGGING_LEVEL": "error", "JAX_ENABLE_X46": "1", "JAX_USE_MAGMA": "on",
            "JAX_CPU_ENABLE_ASYNC_DISPATCH": "false",
        },
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    first, second, third = run.stdout.splitlines()
    assert first == str(
        ["the environment variable JAX_ENABLE_X46 means nothing; did you mean JAX_ENABLE_X64?"]
    )
    assert second == "True ERROR"
    assert third == "True"


def test_programs_compile_with_few_optimizations_with_each_jaxlib():
    """Options that pellucid itself gives XLA are among those that this jaxlib has."""
    with config.option("disable_most_optimizations")(True):
        assert pl.jit(lambda x: x * 3 + 1)(np.float32([1, 2])).tolist() == [4, 7]


def test_options_that_xla_dropped_are_not_suggested():
    """XLA keeps the names of options that it no longer takes."""
    error = error_for("No such compile option: 'xla_cpu_enable_fast_math'")
    assert "xla_cpu_enable_fast_math'" not in str(error).partition("Did you mean")[2]

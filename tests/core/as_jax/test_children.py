"""Processes that a process starts whose `import jax` pellucid answers have the same answer."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

POOLS = """
import multiprocessing, subprocess, sys
import cloudpickle
import jax, jax.numpy as jnp

scaled = jax.jit(lambda x: 2 * x)

def answer(x):
    return hasattr(jax, "__pellucid__"), float(scaled(jnp.sin(x)))

@jax.jit
def jitted(x):
    return scaled(x) + 1

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.map(answer, [0.0]) == [(True, 0.0)], method
            assert pool.apply(jitted, (1.0,)) == 3 and pool.apply(jnp.sin, (0.0,)) == 0
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"
    functions = answer, jitted, jax.vmap(lambda x: jax.grad(jnp.tanh)(x))
    task = lambda: [functions[0](0.0), float(functions[1](1.0)), float(functions[2](jnp.zeros(2)).sum())]
    done = subprocess.run([sys.executable, "-c", program], input=cloudpickle.dumps(task), capture_output=True)
    assert done.stdout.decode().strip() == "[(True, 0.0), 3.0, 2.0]", done.stderr.decode()
    print("done")
"""

CLUSTERS = {
    "ipyparallel": """
    import ipyparallel
    with ipyparallel.Cluster(n=1, log_level=50) as client:
        engines = client[:]
        engines.use_cloudpickle()
        answers = engines.apply_sync(who, x) + engines.apply_sync(lambda y: who(jnp.cos(y)), x)
""",
    "distributed": """
    import distributed
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            answers = [client.submit(who, x).result(), client.submit(lambda y: who(jnp.cos(y)), x).result()]
""",
    "ray": """
    import ray  # whose node gives up if its agent takes over 15 seconds to start, as on a busy machine
    alone = {"include_dashboard": False, "log_to_driver": False, "_node_ip_address": "127.0.0.1"}
    ray.init(num_cpus=1, object_store_memory=2**27, **alone)
    answers = [ray.get(ray.remote(who).remote(x)), ray.get(ray.remote(lambda y: who(jnp.cos(y))).remote(x))]
    ray.shutdown()
""",
    "joblib": """
    import joblib
    with joblib.parallel_config("loky", n_jobs=2):
        answers = joblib.Parallel()(joblib.delayed(f)(x) for f in (who, lambda y: who(jnp.cos(y))))
""",
}
"""Workers of libraries, which get functions of `__main__` by cloudpickle."""

TO_WORKERS = """
import jax, jax.numpy as jnp

scaled = jax.jit(lambda x: 2 * jnp.sin(x))
slopes = jax.vmap(lambda x: jax.grad(jnp.tanh)(x))

def who(x):
    return hasattr(jax, "__pellucid__"), scaled(x), slopes(x)

if __name__ == "__main__":
    x = jnp.zeros(2)
    {cluster}
    for is_answered, values, derivatives in answers:
        assert is_answered and isinstance(values, jax.Array) and isinstance(derivatives, jax.Array)
    assert (answers[0][2] == 1).all() and (answers[1][1] == scaled(jnp.ones(2))).all()
    print("done")
"""

TESTS = """
import importlib.metadata
import jax, jax.numpy as jnp

def test_workers_have_it():
    assert hasattr(jax, "__pellucid__") and importlib.metadata.version("jax") == jax.__version__
"""

BEFORE = """
import sys
assert not any(name.partition(".")[0] in ("pellucid", "jaxlib") for name in sys.modules)
import importlib.metadata
assert importlib.metadata.version("jax") == "0.11.0"
import jax
assert jax.__version__ == "0.11.0" and hasattr(jax, "__pellucid__")
"""

PELLUCID_FIRST = """
import pellucid.numpy, jax
assert jax.numpy is pellucid.numpy
"""

BOTH = """
import pellucid.as_jax, types, sys
sys.modules["jax"] = types.ModuleType("jax")
pellucid.as_jax.install()
"""


NOTEBOOK = """
import nbclient, nbformat
cell = "import jax, jax.numpy as jnp; print(hasattr(jax, '__pellucid__'), jax.jit(jnp.cos)(0.0))"
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
nbclient.NotebookClient(notebook, kernel_name="python3", timeout=200).execute()
print(notebook.cells[0].outputs[0].text)
"""

FINDS = """
import importlib.metadata
try:
    import jax
except ModuleNotFoundError as error:
    assert str(error) == "No module named 'jax'"
    try:
        importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        print("neither module nor distribution")
else:
    print(hasattr(jax, "__pellucid__"), importlib.metadata.version("jax") == jax.__version__)
"""


def run(
    python: Path, *arguments: str, cwd: str | Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], env={**os.environ, "JAX_PLATFORMS": "cpu", **more}, cwd=cwd,
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


@pytest.mark.oracle
def test_the_two_environments_differ_by_the_reference(interpreters):
    answers = {name: run(python, "-c", FINDS).stdout for name, python in interpreters.items()}
    assert answers == {
        "both installed": "False True\n",
        "pellucid alone": "neither module nor distribution\n",
    }


def test_modules_and_distribution_are_answered(interpreter):
    process = run(interpreter, "-c", FINDS, PELLUCID_AS_JAX="1")
    assert process.stdout == "True True\n", process.stderr


def test_workers_of_all_kinds_are_answered(interpreter, tmp_path):
    script = tmp_path / "pools.py"
    script.write_text(POOLS, encoding="utf-8")
    process = run(interpreter, "-m", "pellucid.as_jax", str(script))
    assert process.stdout == "done\n", process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("library", CLUSTERS)
def test_workers_of_libraries_are_answered(interpreter, tmp_path, library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} isn't installed")
    script = tmp_path / "workers.py"
    script.write_text(TO_WORKERS.replace("{cluster}", CLUSTERS[library].strip()), encoding="utf-8")
    folders = {"IPYTHONDIR": str(tmp_path), "DASK_TEMPORARY_DIRECTORY": str(tmp_path)}
    process = run(interpreter, "-m", "pellucid.as_jax", str(script), cwd=tmp_path, **folders)
    assert process.stdout.endswith("done\n"), process.stdout + process.stderr


@pytest.mark.slow
def test_kernels_of_executed_notebooks_are_answered(interpreter, tmp_path):
    script = tmp_path / "notebook.py"
    script.write_text(NOTEBOOK, encoding="utf-8")
    folders = {
        "IPYTHONDIR": str(tmp_path),
        "JUPYTER_PATH": "",
        "JUPYTER_RUNTIME_DIR": str(tmp_path),
    }
    process = run(interpreter, "-m", "pellucid.as_jax", str(script), cwd=tmp_path, **folders)
    assert process.stdout.strip() == "True 1.0", process.stdout + process.stderr


def test_workers_of_pytest_are_answered(interpreter, tmp_path):
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    command = "-m", "pellucid.as_jax", "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider"
    process = run(interpreter, *command, cwd=tmp_path)
    assert "1 passed" in process.stdout, process.stdout + process.stderr


@pytest.mark.parametrize("program", [BEFORE, PELLUCID_FIRST], ids=["jax", "pellucid"])
def test_a_variable_answers_from_the_start(interpreter, program):
    options = {"PELLUCID_AS_JAX": "1", "PELLUCID_AS_JAX_VERSION": "0.11.0"}
    process = run(interpreter, "-c", program, **options)
    assert process.returncode == 0, process.stderr


def test_without_the_variable_nothing_is_answered(interpreter):
    program = "import sys; print('pellucid_start' in sys.modules)"
    assert run(interpreter, "-c", program).stdout == "False\n"
    assert run(interpreter, "-c", program, PELLUCID_AS_JAX="0").stdout == "False\n"


def test_importing_the_module_alone_answers_nothing(interpreter):
    program = "import sys; before = list(sys.meta_path); import pellucid_start; print(sys.meta_path == before)"
    assert run(interpreter, "-c", program).stdout == "True\n"


def test_a_process_that_has_both_says_so_once(interpreter):
    process = run(interpreter, "-c", BOTH)
    assert process.stderr.count("Error:") == 1, process.stderr
    assert "SharedProcessError: pellucid can't answer for jax" in process.stderr

"""Kernels keep executables on disk, and show those of other kernels under their own lines."""

import pathlib

import pytest
from running_kernel import kernel, run

from pellucid_kernel.__main__ import cache_options

CELL = """
import pellucid as pl, pellucid.numpy as jnp
from pellucid._machine.base.events import CompilationFinished, counting

@pl.jit
def chain(x):
    for _ in range(3):
        x = jnp.sin(x @ x)
    return x

with counting(CompilationFinished) as compilations:
    chain(jnp.ones((30, 30)))
print([each.cache for each in compilations.events if each.name == "chain"])
with pl.profiler.profile() as p:
    chain(jnp.ones((30, 30))).block_until_ready()
places = {place for program in p.wait().programs.values() for place in program.places()}
print(sorted({place.line for place in places if place.function.endswith("chain")}))
"""


def test_a_kernel_finds_what_another_one_compiled(tmp_path):
    outputs = []
    for moved in ("", "\n\n"):
        with kernel(cache_home=str(tmp_path)) as (_, client):
            run(
                client,
                "import pellucid; pellucid.config.update('persistent_cache_min_compile_time_secs', 0)",
            )
            outputs.append(run(client, moved + CELL)["stdout"].splitlines())
    assert [lines[0] for lines in outputs] == ["['miss']", "['disk']"]
    assert outputs[0][1] == "[8]"
    assert outputs[1][1] == "[10]"
    assert [*pathlib.Path(tmp_path, "pellucid").glob("*.executable")]


def test_the_user_decides_where_and_how_much():
    assert cache_options({}).keys() == {
        "PELLUCID_COMPILATION_CACHE_DIR", "PELLUCID_COMPILATION_CACHE_MAX_SIZE",
        "PELLUCID_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    }  # fmt: skip
    assert "PELLUCID_COMPILATION_CACHE_MAX_SIZE" not in cache_options(
        {"JAX_COMPILATION_CACHE_MAX_SIZE": "5"}
    )


@pytest.mark.parametrize("name", ["PELLUCID_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"])
@pytest.mark.parametrize("path", ["", "/somewhere"])
def test_a_folder_of_the_user_stays(name, path):
    assert cache_options({name: path}) == {}


def test_the_server_names_the_session(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "work/first.ipynb")
    with kernel() as (_, client):
        output = run(client, "import pellucid; print(pellucid.config.compilation_cache_session)")
    assert output["stdout"] == "work/first.ipynb\n"

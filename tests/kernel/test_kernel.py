"""The kernel as a front end meets it: through its kernelspec and the messaging protocol."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from running_kernel import SECONDS, kernel, run

from pellucid_kernel.install import install, main


@pytest.fixture(scope="module")
def client() -> Iterator[BlockingKernelClient]:
    with kernel() as (_, client):
        yield client


def test_a_cell_gives_its_value(client: BlockingKernelClient) -> None:
    assert run(client, "1 + 1")["result"] == "2"


def test_kernel_says_who_it_is(client: BlockingKernelClient) -> None:
    reply = client.kernel_info(reply=True, timeout=SECONDS)["content"]
    assert reply["implementation"] == "pellucid"
    assert reply["language_info"]["name"] == "python"
    assert reply["banner"].startswith("Pellucid ")


def test_debugger_is_offered_without_a_warning(client: BlockingKernelClient) -> None:
    # debugpy warns on stderr at each start if the interpreter has frozen modules.
    assert run(client, "import sys; sys._xoptions['frozen_modules']")["result"] == "'off'"
    reply = client.kernel_info(reply=True, timeout=SECONDS)["content"]
    assert "debugger" in reply["supported_features"]


ASK_FOR_DEVICES = "import os; print(os.environ['PELLUCID_NUM_CPU_DEVICES'])"


def test_kernel_has_eight_devices(client: BlockingKernelClient) -> None:
    assert run(client, ASK_FOR_DEVICES)["stdout"] == "8\n"


def test_kernel_has_the_devices_that_the_user_asked_for() -> None:
    with kernel(devices="3") as (_, client):
        assert run(client, ASK_FOR_DEVICES)["stdout"] == "3\n"


def test_empty_lines_at_the_top_of_a_cell_count(client: BlockingKernelClient) -> None:
    code = "\n\n\nimport sys\nsys._getframe().f_lineno"
    assert run(client, code)["result"] == "5"


def test_what_compiled_code_prints_is_shown(client: BlockingKernelClient) -> None:
    outputs = run(
        client,
        "import pellucid as pl, pellucid.numpy as jnp\n"
        "def f(x):\n"
        "    y = x @ x\n"
        "    pl.debug.print('mean {}', y.mean(), ordered=True)\n"
        "    return pl.vmap(lambda v: pl.debug.print('row {}', v[0]))(y[:2])\n"
        "pl.jit(f)(jnp.ones((300, 300)))\n"
        "pl.effects_barrier()\n",
    )
    assert sorted(outputs["stdout"].splitlines()) == ["mean 300.0", "row 300.0", "row 300.0"]


def test_a_failure_in_python_that_a_program_calls_leaves_the_kernel_alive(
    client: BlockingKernelClient,
) -> None:
    code = (
        "import pellucid as pl, numpy as np\n"
        "def fail(x):\n"
        "    raise KeyError('no')\n"
        "pl.jit(lambda x: pl.pure_callback(fail, pl.ShapeDtypeStruct((), np.float32), x))(1.0)\n"
    )
    assert run(client, code)["error"] == "CallbackError"
    assert run(client, "1 + 1")["result"] == "2"


def test_a_kernelspec_with_another_number_of_devices(tmp_path) -> None:
    place = install(16, prefix=str(tmp_path))
    spec = json.loads((Path(place) / "kernel.json").read_text())
    assert spec["display_name"] == "Pellucid (16 devices)"
    assert spec["env"] == {"PELLUCID_NUM_CPU_DEVICES": "16"}
    with pytest.raises(SystemExit):
        main(["--devices", "0"])


def test_a_kernel_starts_without_the_core() -> None:
    # The core takes as long to load as the rest of the kernel; the first cell that names it loads it.
    loaded = (
        "import sys; [m for m in ('numpy', 'jaxlib', 'pelluc' + 'id.wiring') if m in sys.modules]"
    )
    with kernel() as (_, fresh):
        assert run(fresh, loaded)["result"] == "[]"
        assert run(fresh, "import pellucid.numpy as jnp; jnp.ones(3).shape")["result"] == "(3,)"
        assert "wiring" in run(fresh, loaded)["result"]


def test_a_kernel_whose_jax_is_pellucid(monkeypatch):
    monkeypatch.setenv("PELLUCID_AS_JAX", "1")
    with kernel() as (_, client):
        outputs = run(
            client, "import jax, jax.numpy as jnp, pellucid\nprint(jax.numpy is pellucid.numpy)"
        )
        assert outputs == {"stdout": "True\n"}
        assert run(client, "float(jax.jit(jnp.sin)(0.0))")["result"] == "0.0"
        outputs = run(
            client, "import importlib.metadata as m\nprint(m.version('jax') == jax.__version__)"
        )
        assert outputs == {"stdout": "True\n"}


LOOP = """
import pellucid as pl, pellucid.numpy as jnp, numpy as np
def make(eps):
    @pl.jit
    def f(x):
        for i in range({size}):
            x = jnp.sin(x) * eps + i
        return x
    return f
for value in {values}:
    make(value)(np.float32(1))
"""


def test_a_cell_that_is_run_again_gives_no_note_on_compilations(
    client: BlockingKernelClient,
) -> None:
    """A loop that compiles for each value does; functions that another run of the cell defines again are nobody's fault."""
    same = LOOP.format(values="[0.5]", size=2)
    assert ["shown" in run(client, same) for _ in range(3)] == [False] * 3
    values = "[0.02, 0.024, 0.028, 0.032, 0.036]"  # enough of them to take long on a quick machine
    note = run(client, LOOP.format(values=values, size=300))["shown"]
    assert "`eps` in the closure: was 0.0" in note

"""A session of the kernel: cells, errors, tooltips, magics and the line to panels."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from pellucid_viz.render import html

SECONDS = 120
IMPORT = "import pellucid as pl, pellucid.numpy as jnp"


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager, client = start_new_kernel(kernel_name="pellucid", startup_timeout=SECONDS)
    run(client, IMPORT)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def client(started) -> BlockingKernelClient:
    return started[1]


def run(client: BlockingKernelClient, code: str, **more: Any) -> dict[str, Any]:
    """The contents of a cell's outputs, by message type; the last one of each."""
    outputs: dict[str, Any] = {}
    client.execute_interactive(
        code,
        output_hook=lambda message: outputs.update({message["msg_type"]: message["content"]}),
        timeout=SECONDS,
        **more,
    )
    return outputs


def value(client: BlockingKernelClient, code: str) -> str:
    return run(client, code)["execute_result"]["data"]["text/plain"]


def test_an_equation_knows_its_cell(client):
    code = "r = pl.analysis.program(lambda x: jnp.sin(x), 1.0)\n[s.name for s in r.sources]"
    outputs = run(client, code)["execute_result"]
    assert outputs["data"]["text/plain"] == f"['In[{outputs['execution_count']}]']"


def test_an_error_shows_the_users_lines_only(client):
    outputs = run(client, "def f(a):\n    return a @ jnp.ones((4, 5))\n\nf(jnp.ones((2, 3)))")
    text = outputs["display_data"]["data"]["text/plain"]
    assert text.startswith("ShapeError: jnp.matmul needs contracted dimensions of one size")
    assert "-->    2     return a @ jnp.ones((4, 5))" in text
    assert "products.py" not in text
    assert outputs["display_data"]["metadata"] == {"pellucid": {"stands_for_error": True}}
    assert outputs["error"]["ename"] == "ShapeError"
    assert len(outputs["error"]["traceback"]) == 2
    whole = "".join(run(client, "%pellucid traceback")["error"]["traceback"])
    assert "products.py" in whole


def test_an_error_is_drawn_once(client):
    drawn = []
    client.execute_interactive(
        "jnp.ones(3) @ jnp.ones(4)", output_hook=lambda message: drawn.append(message["msg_type"]),
        timeout=SECONDS,
    )  # fmt: skip
    assert [each for each in drawn if each in ("display_data", "error")] == [
        "display_data",
        "error",
    ]


def test_a_failed_cell_keeps_no_arrays(client):
    run(client, "def g(a):\n    return a @ jnp.ones((4, 5))\n\ng(jnp.ones((123, 321)))")
    count = "sum(x.shape == (123, 321) for x in pl.live_arrays())"
    assert value(client, "1") == "1"
    assert value(client, count) == "0"


def test_other_errors_look_as_ever(client):
    error = run(client, "1 / 0")["error"]
    assert error["ename"] == "ZeroDivisionError"
    assert any("1 / " in line or "ZeroDivision" in line for line in error["traceback"])


def test_completion_and_tooltip_say_type_and_placement(client):
    run(client, "images = jnp.ones((8, 128))")
    reply = client.complete("imag", reply=True, timeout=SECONDS)["content"]
    types = {
        each["text"]: each["type"] for each in reply["metadata"]["_jupyter_types_experimental"]
    }
    assert types["images"] == "f32[8,128]"
    data = client.inspect("images", 3, reply=True, timeout=SECONDS)["content"]["data"]
    assert "f32[8,128]" in data["text/plain"]
    assert "on device 0" in data["text/plain"]


def test_completion_and_tooltip_say_how_an_array_is_divided(client):
    run(
        client,
        "import numpy as np\nmesh = pl.sharding.Mesh(np.array(pl.devices()), ('data',))\n"
        "divided = pl.device_put(jnp.ones((8, 128)), pl.NamedSharding(mesh, pl.P('data')))",
    )
    reply = client.complete("divid", reply=True, timeout=SECONDS)["content"]
    [hint] = [
        each["type"]
        for each in reply["metadata"]["_jupyter_types_experimental"]
        if each["text"] == "divided"
    ]
    assert "f32[8,128]" in hint
    assert "P('data',) on 8 devices" in hint
    data = client.inspect("divided", 3, reply=True, timeout=SECONDS)["content"]["data"]
    assert "[1, 128] on each" in data["text/plain"]


def test_the_number_of_devices_is_fixed_once_they_are_used(client):
    run(client, "pl.devices()")
    outputs = run(client, "%pellucid devices 3")
    assert "can't become 3" in outputs["error"]["evalue"]
    assert value(client, "%pellucid devices") == "8"


def test_jax_is_answered_by_pellucid(client):
    run(client, "%pellucid as_jax")
    run(client, "import jax")
    assert value(client, "jax.numpy is pl.numpy") == "True"


def test_wrong_magics_are_refused(client):
    assert "takes a whole number" in str(run(client, "%pellucid devices many"))
    assert "knows no 'nonsense'" in str(run(client, "%pellucid nonsense"))


BUSY = {
    "running": "while True: (jnp.ones((64, 64)) @ jnp.ones((64, 64))).block_until_ready()",
    "tracing": "def endless(x):\n    while True: x = x + 1\n\npl.make_jaxpr(endless)(1.0)",
    # Each body is another constant, so that XLA has a long program to work on.
    "compiling": """
def long(x):
    for i in range(200):
        x = pl.lax.cond(x.sum() > i, lambda y: jnp.sort(y) @ y * i, lambda y: jnp.sort(-y) @ y, x) + x
    return x
lowered = pl.jit(long).lower(jnp.ones((8, 8)))
print("begun", flush=True)
lowered.compile()""",
    "waiting": """
endless = pl.jit(lambda x: pl.lax.while_loop(lambda y: True, lambda y: jnp.sin(y @ y), x))
y = endless(jnp.ones((200, 200)))
print("begun", flush=True)
print(y)""",
}


@pytest.mark.parametrize("work", ["running", "tracing", "compiling"])
def test_work_is_interrupted(started, work):
    expect_interrupted(*started, busy=BUSY[work])


def test_waiting_for_a_program_that_never_ends_is_interrupted():
    # XLA goes on with it, so the kernel is one of its own.
    manager, client = start_new_kernel(kernel_name="pellucid", startup_timeout=SECONDS)
    try:
        run(client, IMPORT)
        expect_interrupted(manager, client, busy=BUSY["waiting"])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def expect_interrupted(manager: KernelManager, client: BlockingKernelClient, *, busy: str) -> None:
    """Run `busy`, interrupt it a second after it said that it has begun, or was sent; the kernel continues."""
    # Without this the kernel drops what is sent right after a failure.
    identity = client.execute(busy, stop_on_error=False)
    while "begun" in busy:
        message = client.get_iopub_msg(timeout=SECONDS)
        if message["msg_type"] == "stream" and "begun" in message["content"]["text"]:
            break
    time.sleep(1.0)
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=30)
    assert reply["parent_header"]["msg_id"] == identity
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert value(client, "1 + 1") == "2"


class Panel:
    """A comm from the front end's side."""

    def __init__(self, client: BlockingKernelClient, target: str = "pellucid.session") -> None:
        self.client = client
        self.id = f"panel-{time.monotonic_ns()}"
        self.send("comm_open", {"target_name": target, "data": {}})

    def send(self, kind: str, content: dict[str, Any]) -> None:
        message = self.client.session.msg(kind, {"comm_id": self.id, **content})
        self.client.shell_channel.send(message)

    def ask(self, **request: Any) -> None:
        self.send("comm_msg", {"data": request})

    def follow(self, *panels: str) -> None:
        """Ask for the states of these panels from now on."""
        self.ask(kind="follow", panels=panels)

    def states_until_now(self) -> list[str]:
        """Panels whose states come before the answer to a request that is sent now."""
        self.ask(kind="nonsense", request=0)
        actual = []
        while (message := self.next("state", "answer"))["kind"] != "answer":
            actual.append(message["panel"])
        return actual

    def next(self, *kinds: str) -> dict[str, Any]:
        """The next message of one of some kinds from the kernel."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            message = self.client.get_iopub_msg(timeout=20)
            content = message["content"]
            if message["msg_type"] == "comm_msg" and content["comm_id"] == self.id and (
                content["data"]["kind"] in kinds
            ):  # fmt: skip
                return content["data"]
        raise AssertionError(kinds)


def test_a_panel_is_told_what_is_compiled_now(client):
    panel = Panel(client)
    assert panel.next("progress")["function"] is None
    message = client.session.msg("execute_request", {"code": UNROLLED, "silent": False})
    message["metadata"]["cellId"] = "some-cell"
    client.shell_channel.send(message)
    while (record := panel.next("progress"))["function"] != "told":
        pass
    assert (record["function"], record["stage"], record["cell_id"]) == (
        "told",
        "trace",
        "some-cell",
    )
    assert 0.3 <= record["elapsed_seconds"] < 5
    assert record["place"]["line"] == 8
    assert (record["loop"]["place"]["line"], record["loop"]["iterations"]) == (4, 40)
    assert record["equation_count"] == 40
    while record["function"] is not None:
        assert record["function"] == "told"
        record = panel.next("progress")


def test_a_panel_is_told_what_is_waited_for_and_what_goes_on_after_an_interrupt():
    # XLA goes on with the program, so the kernel is one of its own.
    manager, client = start_new_kernel(kernel_name="pellucid", startup_timeout=SECONDS)
    try:
        run(client, IMPORT)
        panel = Panel(client)
        message = client.session.msg("execute_request", {"code": WAITING, "stop_on_error": False})
        message["metadata"]["cellId"] = "some-cell"
        client.shell_channel.send(message)
        while (record := panel.next("progress"))["stage"] != "wait":
            pass
        assert (record["function"], record["devices"]) == ("f32[200,200]", "cpu 0")
        assert (record["place"]["line"], record["cell_id"]) == (3, "some-cell")
        assert record["elapsed_seconds"] >= 0.3
        manager.interrupt_kernel()
        while (record := panel.next("progress"))["stage"] != "left":
            pass
        assert (record["function"], record["devices"]) == ("f32[200,200]", "cpu 0")
        assert record["cell_id"] == "some-cell"
        reply = client.get_shell_msg(timeout=SECONDS)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert value(client, "1 + 1") == "2"
        # The rest of the session says it, too, and what else waits.
        client.shell_channel.send(client.session.msg("execute_request", {"code": "float(y[0, 0])"}))
        while (record := panel.next("progress"))["stage"] != "wait":
            pass
        assert (record["function"], record["place"]["line"]) == ("f32[]", 1)
        manager.interrupt_kernel()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_an_interrupt_that_code_of_c_ignores_is_answered_by_what_runs():
    manager, client = start_new_kernel(kernel_name="pellucid", startup_timeout=SECONDS)
    try:
        run(client, IMPORT + "\nimport hashlib")
        panel = Panel(client)
        asked = client.execute(IN_C)
        while (record := panel.next("progress"))["stage"] != "busy":
            pass
        assert (record["function"], record["devices"]) == ("f32[200,200]", "cpu 0")
        assert record["place"]["line"] == 3
        manager.interrupt_kernel()
        while (message := client.get_iopub_msg(timeout=SECONDS))["msg_type"] != "stream":
            pass
        assert message["parent_header"]["msg_id"] == asked
        assert message["content"]["name"] == "stderr"
        text = message["content"]["text"]
        assert "line 3 runs code of C" in text
        assert "cpu 0 still computes f32[200,200]" in text
        assert client.get_shell_msg(timeout=SECONDS)["content"]["ename"] == "KeyboardInterrupt"
        # An interrupt that ends a cell at once needs no words.
        asked = client.execute("import time\nprint('begun', flush=True)\ntime.sleep(60)")
        while (message := client.get_iopub_msg(timeout=SECONDS))["msg_type"] != "stream":
            pass
        manager.interrupt_kernel()
        while (message := client.get_iopub_msg(timeout=SECONDS))["msg_type"] != "status":
            assert message["msg_type"] != "stream"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# What runs in C takes some seconds, and lets other threads run.
IN_C = """endless = pl.jit(lambda x: pl.lax.while_loop(lambda y: True, lambda y: jnp.sin(y @ y), x))
y = endless(jnp.ones((200, 200)))
hashlib.pbkdf2_hmac("sha256", b"", b"", 8_000_000)"""

WAITING = """endless = pl.jit(lambda x: pl.lax.while_loop(lambda y: True, lambda y: jnp.sin(y @ y), x))
y = endless(jnp.ones((200, 200)))
y.block_until_ready()"""

UNROLLED = """import time
@pl.jit
def told(x):
    for i in range(40):
        x = jnp.cos(x)
    time.sleep(0.6)
    return x
held = told(jnp.ones(7))"""


def test_a_cell_says_once_which_function_compiled_again_and_why(client):
    run(client, "@pl.jit\ndef again(x):\n    return x * 3\n\nheld = again(jnp.ones(3))")
    notes = []
    client.execute_interactive(
        "for n in (3, 4, 5, 6): held = again(jnp.ones(n))",
        output_hook=lambda message: notes.append((message["msg_type"], message["content"])),
        timeout=SECONDS,
    )
    shown = [(kind, content) for kind, content in notes if "data" in content]
    assert [kind for kind, _ in shown] == ["display_data", "update_display_data"]
    texts = [content["data"]["text/plain"] for _, content in shown]
    assert texts[0].endswith("x: was f32[3], is f32[4]. Pad to a fixed shape, or batch the calls.")
    assert texts[1].startswith("`again` compiled again 3 times, the last time (")


def test_what_views_compile_is_not_the_users(client):
    run(client, "@pl.jit\ndef viewed(x):\n    return x * 3\n")
    outputs = run(client, "for n in (3, 4): pl.viz.lens(viewed)(jnp.ones(n))")
    assert "display_data" not in outputs
    names = "[each.name for each in pl.introspect.functions().functions]"
    assert "viewed" not in value(client, names)
    assert "viewed" not in value(client, "pl.viz.misses(100)")
    assert "display_data" not in run(client, "held = viewed(jnp.ones(3))")
    assert "viewed" in value(client, names)
    assert "display_data" in run(client, "held = viewed(jnp.ones(4))")


def test_a_panel_is_told_the_meshes_of_the_user(client):
    run(
        client,
        "import numpy as np\nplane = pl.sharding.Mesh(np.array(pl.devices()).reshape(2, 4), ('a', 'b'))",
    )
    panel = Panel(client)
    panel.follow("devices")
    meshes = {each["name"]: each["mesh"] for each in panel.next("state")["meshes"]}
    assert meshes["plane"]["axis_sizes"] == [2, 4]


def record_in(outputs: dict[str, Any]) -> dict[str, Any]:
    """The record of the figure that is a cell's result."""
    return html.record_of(outputs["execute_result"]["data"]["text/html"])


def test_slices_and_parts_of_a_drawn_array_are_asked_for(client):
    run(client, "cube = jnp.arange(512.0).reshape(8, 8, 8)")
    drawn = record_in(run(client, "cube"))
    panel = Panel(client)
    panel.ask(
        kind="show_array_slice", request=1, array=drawn["array"], index=[3, 0, 2], dims=[2, 1]
    )
    answer = panel.next("answer")["shown"]
    assert answer["cells"][1][:2] == [193.0, 201.0]
    run(client, "import numpy as np\nline = pl.sharding.Mesh(np.array(pl.devices()), ('i',))")
    outputs = run(client, "split = pl.device_put(cube, pl.NamedSharding(line, pl.P('i')))\nsplit")
    drawn = record_in(outputs)
    panel.ask(kind="show_array", request=2, array=drawn["array"], device=None)
    answer = panel.next("answer")["shown"]
    assert len(answer["parts"]["device"]) == 8
    panel.ask(kind="show_array", request=3, array=answer["array"], device=2)
    answer = panel.next("answer")["shown"]
    assert (answer["low"], answer["high"], answer["shape"]) == (128.0, 191.0, [1, 8, 8])
    key = eval(value(client, "pl.introspect.array_key(jnp.ones(3))"))
    panel.ask(kind="show_array", request=4, array=key, device=None)
    assert "gone" in panel.next("answer")["error"]


def test_other_placements_of_a_figure_are_asked_for(client):
    run(client, "def total(x):\n    return x.sum()")
    run(client, "figure = pl.viz.what_if(total)(pl.ShapeDtypeStruct((64, 32), 'float32'))")
    drawn = record_in(run(client, "figure.change({'data': 4})"))
    panel = Panel(client)

    def ask(request, shown, size, under=None, kind="show_placement"):
        panel.ask(
            kind=kind, request=request, figure=shown["figure"], axis_names=["data"], axis_sizes=[size],
            dim_axes=[[["data"], []]], search_under=under,
        )  # fmt: skip
        return panel.next("answer")

    answer = ask(1, drawn, 16)["shown"]
    assert answer["placement"]["axis_sizes"] == [16]
    assert answer["arguments"][0]["device_bytes"] == 64 * 32 * 4 // 16
    # An answer is asked for the next one, and a request may come from the first record still.
    answer = ask(2, answer, 8, under=10**6)["shown"]
    assert answer["best"]
    refused = ask(3, drawn, 128)["shown"]
    assert "can't be split evenly into 128 parts" in refused["refusal"]
    assert refused["placement"]["axis_sizes"] == [4]
    assert "gone" in ask(4, {"figure": "none"}, 8)["error"]


def test_a_jitted_function_is_a_card(client):
    run(client, "@pl.jit\ndef card(x, n=2):\n    return x**n\n\nheld = card(jnp.ones(3))")
    outputs = run(client, "card")
    data, record = outputs["execute_result"]["data"], record_in(outputs)
    assert record["signature"] == "(x, n=2)"
    assert [entry["arguments"] for entry in record["entries"]] == [["x: f32[3]"]]
    assert "(x: f32[3]): 1 equation, compiled for 1 placement" in data["text/plain"]
    assert "<table>" in data["text/html"]
    assert (
        "not called yet"
        in run(client, "pl.jit(lambda x: x)")["execute_result"]["data"]["text/plain"]
    )
    assert set(run(client, "jnp.einsum")["execute_result"]["data"]) == {"text/plain"}


def test_figures_hold_the_viewer_where_no_extension_can_be(client):
    show = "pl.viz.program(lambda x: x + 1)(1.0)"
    run(client, "%pellucid figures interactive")
    data = run(client, show)["execute_result"]["data"]
    assert set(data) == {"text/html", "text/plain"}
    assert "<script" in data["text/html"]
    run(client, "%pellucid figures auto")
    data = run(client, show)["execute_result"]["data"]
    assert "application/vnd.pellucid.program.v1+json" in data
    assert 'type="module"' not in run(client, show)["execute_result"]["data"]["text/html"]
    assert "takes one of" in str(run(client, "%pellucid figures never"))


def test_states_of_panels_in_sight_come_after_each_cell_and_no_others(client):
    panel = Panel(client)
    for followed, expected in [
        (["programs", "no such panel"], ["programs"]),
        (["programs", "devices"], ["devices", "programs"]),
        ([], []),
    ]:
        panel.follow(*followed)
        assert sorted(panel.states_until_now()) == expected
        client.execute("1 + 1")
        assert sorted(panel.states_until_now()) == expected


def test_a_panel_gets_the_state_and_programs(client):
    run(client, "@pl.jit\ndef seen(x):\n    return x * 3\n\ny = seen(jnp.ones(5))")
    panel = Panel(client)
    panel.follow("programs")
    functions = panel.next("state")["functions"]["functions"]
    [entry] = next(f for f in functions if f["name"] == "seen")["entries"]
    assert entry["arguments"] == ["x: f32[5]"]
    panel.follow("devices")
    memory = panel.next("state")["memory"]
    assert len(memory["devices"]) == 8
    panel.ask(kind="show_program", request=7, entry=entry["id"], view="jaxpr")
    answer = panel.next("answer")
    assert (answer["request"], answer["error"]) == (7, None)
    assert answer["shown"]["name"] == "seen"
    panel.ask(kind="show_program", request=8, entry=1, view="hlo")
    assert "gone" in panel.next("answer")["error"]
    [y] = [a for a in memory["arrays"] if "y" in a["owners"]]
    panel.ask(kind="free_array", request=9, array=y["id"])
    left = panel.next("state")["memory"]["arrays"]
    assert y["id"] not in {a["id"] for a in left}
    assert panel.next("answer")["error"] is None
    assert value(client, "y.is_deleted()") == "True"
    panel.ask(kind="nonsense", request=10)
    assert "knows no request" in panel.next("answer")["error"]
    panel.send("comm_close", {"data": {}})
    assert value(client, "2 + 2") == "4"

"""Figures: what a user types, and all the forms in which it shows."""

import dataclasses
import gc
import html
import html.parser
import json
import re
import sys
import types

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import introspect
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid.introspect.errors import ArgumentTypeError, ArgumentValueError
from pellucid_viz import formatters
from pellucid_viz.figure import Figure, carries_viewer, mime_type
from pellucid_viz.placements import placement_record
from pellucid_viz.render.html import record_of
from pellucid_viz.render.picture import tiles_picture
from tests.introspect import sample_runs


def f(x):
    return jnp.tanh(x) * 2.0


@pl.jit
def jitted(x):
    return f(x).sum()


X = np.ones((4, 8), np.float32)


def sharded():
    mesh = pl.sharding.Mesh(np.array(pl.devices()).reshape(2, 4), ("data", "model"))
    return pl.device_put(X, pl.NamedSharding(mesh, pl.P("data", "model")))


def failure() -> Figure:
    with pytest.raises(TypeError) as raised:
        jnp.ones((2, 3)) @ jnp.ones((4, 5))
    return Figure(pl.introspect.error(raised.value))


def scaled_at_once(x):
    """A kernel over all of an array."""

    def scaled(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    return pallas_call(scaled, x)(x)


def stuck(x):
    """A kernel that waits for a signal that nobody gives."""

    def stops(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...]
        pallas.semaphore_wait(sem)

    return pallas_call(stops, x, scratch_shapes=[tpu.SemaphoreType.REGULAR])(x)


def racing(x):
    """A kernel whose parallel programs write one block, which is refused."""

    def scaled(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    rows = BlockSpec((2, 8), lambda i: (i // 2, 0))
    params = tpu.CompilerParams(dimension_semantics=("parallel",))
    call = pallas_call(scaled, x, grid=4, in_specs=[rows], out_specs=rows, compiler_params=params)
    return call(x)


FIGURES = {
    "program": (lambda: pl.viz.program(f)(X), "tanh"),
    "lens": (lambda: pl.viz.lens(jitted)(X), "stablehlo.tanh"),
    "ladder": (lambda: pl.viz.ladder(f, ["jvp", "transpose"])(X), "# transpose"),
    "diff": (lambda: pl.viz.diff(f, jnp.sin)(X), "+++ sin"),
    "compiled": (lambda: pl.viz.compiled(jitted)(X), "arguments: 128 B"),
    "memory": (lambda: pl.viz.memory(), "cpu 0"),
    "misses": (lambda: (jitted(X), pl.viz.misses())[1], "was traced"),
    "sharding": (lambda: pl.viz.sharding(sharded()), "devices 5: [2:4, 2:4]"),
    "function_sharding": (lambda: pl.viz.sharding(jitted)(sharded()), "all-reduce over model"),
    "what_if": (
        lambda: pl.viz.what_if(jitted)(sharded()).change({"model": 8}).search(),
        "model=8 (8 devices)",
    ),
    "error": (failure, "b: f32[4,5]"),
    "kernel_timelines": (lambda: pl.viz.timeline(stuck)(X), "! a deadlock in the kernel `stops`"),
    "kernel_memories": (lambda: pl.viz.kernel_memory(scaled_at_once)(X), "VMEM    x_ref"),
    "kernel_grids": (lambda: pl.viz.grid(racing)(X), "! pallas_call of `scaled`: programs along"),
}


def test_what_if_takes_arguments_in_a_second_call():
    with pytest.raises(TypeError, match=r"Write pl.viz.what_if\(f\)\(x\)"):
        pl.viz.what_if(jitted, sharded())
    with pytest.raises(TypeError, match="what_if needs a function"):
        pl.viz.what_if(sharded())


class Balance(html.parser.HTMLParser):
    """Checks that each element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        assert tag != "script" or ("type", "application/json") in attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", FIGURES)
def test_a_figure_shows_in_all_forms(kind):
    make, expected = FIGURES[kind]
    figure = make()
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {mime_type(kind), "text/html", "text/plain"}
    assert bundle[mime_type(kind)]["kind"] == kind
    assert record_of(bundle["text/html"]) == json.loads(json.dumps(figure.record.to_dict()))
    assert expected in bundle["text/plain"]
    balance = Balance()
    balance.feed(bundle["text/html"])
    assert balance.open == []


def test_names_in_static_html_are_texts():
    mesh = pl.sharding.AbstractMesh((2,), ("<b>x</b>",))
    bundle = pl.viz.sharding(pl.NamedSharding(mesh, pl.P("<b>x</b>")), (4,)).bundle()
    assert "<b>" not in bundle["text/html"].replace("&lt;b&gt;", "")


@pytest.mark.parametrize("view", ["compiled", "lens", "memory", "program", "sharding"])
def test_names_of_functions_are_texts(view):
    def f(x):
        return x + 1

    f.__name__ = f.__qualname__ = "<i>f</i>"
    f = pl.jit(f)
    x = f(np.float32(1))
    figure = getattr(pl.viz, view)(f)(x)
    html = figure.bundle()["text/html"]
    assert "&lt;i&gt;f" in html or "\\u003ci\\u003ef" in html
    assert "<i>f" not in html


def test_a_figure_is_saved_as_a_page(tmp_path):
    path = pl.viz.program(f)(X).save(tmp_path / "page.html")
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_jaxprs_and_stages_are_shown_at_once():
    lowered = jitted.lower(X)
    assert "stablehlo" in repr(pl.viz.program(lowered))
    assert "tanh" in repr(pl.viz.program(pl.make_jaxpr(f)(X)))
    assert pl.viz.compiled(lowered.compile()).record.kind == "compiled"


def test_memory_of_a_function_is_that_of_its_executable():
    assert pl.viz.memory(jitted)(X).record.memory.argument_bytes == X.nbytes


def test_a_grid_says_in_red_what_is_wrong_and_lists_its_operands():
    figure = pl.viz.grid(racing)(X)
    assert '<p class="pl-removed">pallas_call of `scaled`' in figure.static
    assert figure.static.count("<tr") == 3
    assert "no kernel is called" in repr(pl.viz.grid(f)(X))


def test_a_timeline_says_in_red_what_failed_and_draws_the_run():
    figure = pl.viz.timeline(stuck)(X)
    assert '<pre class="pl-removed">a deadlock' in figure.static
    # Its block comes, for which it waits, and then it waits forever; the legend names these three.
    assert figure.static.count("<path") == figure.static.count("<rect") == 3
    for name in ("waits", "waits forever", "copy into fast memory"):
        assert f">{name}</text>" in figure.static
    assert "steps up to the error" in repr(figure)
    assert "line of yours" not in repr(figure)
    assert "no kernel ran" in repr(pl.viz.timeline(f)(X))
    assert "no kernel ran" in pl.viz.timeline([]).static


def test_a_timeline_in_text_says_what_its_characters_are_too_coarse_for():
    text = repr(Figure(sample_runs.long_ring()))
    assert "#" not in text
    assert "no character (16.07 steps) is mostly that: computes, a copy in flight" in text


def test_a_timeline_draws_each_stretch_where_it_is():
    record = sample_runs.long_ring()
    paths = re.findall(r'<path d="([^"]*)" style="fill:var\(--pl-(\w+)', Figure(record).static)
    sends = [path for path, color in paths if color == "collective"]
    assert len(sends) == 8
    [run] = record.kernels
    begins = [float(begin) for begin in re.findall(r"M([\d.]+) ", sends[0])]
    # A copy of two steps and one more, then a computation of one.
    assert len(begins) == 256
    step = 640 / run.steps
    np.testing.assert_allclose(np.diff(begins), 4 * step, atol=0.11)


def test_a_timeline_says_how_many_cores_it_leaves_out():
    record = sample_runs.blocks()
    [run] = record.kernels
    run = dataclasses.replace(run, device_count=18, cores=run.cores * 18)
    figure = Figure(dataclasses.replace(record, kernels=[run]))
    assert "and 2 more cores" in repr(figure)
    assert "and 2 more cores" in figure.static


def test_what_is_no_function_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"Write pl.viz.lens\(f\)\(x\)"):
        pl.viz.lens(3)


def test_an_array_on_one_device_stays_text():
    assert formatters.array_bundle(jnp.ones(3)) is None
    bundle = formatters.array_bundle(sharded())
    assert bundle is not None
    assert bundle["text/plain"].startswith("Array([[1., 1.")
    assert "<svg" in bundle["text/html"]


def test_the_package_lists_its_public_names_alone():
    assert dir(pl.viz) == sorted(pl.viz.__all__)
    assert not any(name.startswith("_") for name in dir(pl.viz))


def test_unknown_names_of_the_package_are_refused():
    with pytest.raises(AttributeError, match="no_such_figure"):
        pl.viz.no_such_figure  # noqa: B018


@pytest.mark.parametrize(
    ("environment", "module"),
    [
        ({"VSCODE_PID": "7"}, None),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, None),
        ({"DATABRICKS_RUNTIME_VERSION": "15.4"}, None),
        ({}, "google.colab"),
        ({}, "marimo"),
    ],
)
def test_the_html_holds_the_viewer_where_no_extension_can_be(monkeypatch, environment, module):
    monkeypatch.delenv("VSCODE_PID", raising=False)
    figure = pl.viz.program(f)(X)
    assert mime_type("program") in figure.displayed()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if module is not None:
        monkeypatch.setitem(sys.modules, module, None)
    assert set(figure.displayed()) == {"text/html", "text/plain"}
    monkeypatch.setattr(Figure, "has_scripts", False)
    assert mime_type("program") in figure.displayed()


def test_one_cell_of_a_notebook_holds_the_viewer(monkeypatch):
    shell = types.SimpleNamespace(kernel=object(), execution_count=0)

    def is_shown_with_viewer(cell):
        shell.execution_count += 1
        shell.get_parent = lambda: {"metadata": {"cellId": cell}}
        return carries_viewer()

    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("pellucid_viz.figure._carrier", None)
    assert [is_shown_with_viewer(cell) for cell in "abaab"] == [True, False, True, True, False]
    assert not carries_viewer()
    shell.kernel = None
    assert not is_shown_with_viewer("a")


def test_the_text_of_a_long_program_is_cut_in_a_notebook():
    def long(x):
        for _ in range(300):
            x = jnp.sin(x)
        return x

    figure = pl.viz.program(long)(1.0)
    assert len(repr(figure).splitlines()) > 300
    lines = figure.bundle()["text/plain"].splitlines()
    assert len(lines) == 201
    assert "print() shows all" in lines[-1]


def test_static_html_of_a_long_program_is_short_and_has_its_groups():
    def model(x):
        for number in range(40):
            with pl.named_scope(f"layer{number}"):
                x = jnp.tanh(x) * 2.0 + x
        hidden = jnp.sin(x) - 1.0
        return pl.lax.scan(lambda c, _: (jnp.exp(c), c), hidden, length=5)

    static = pl.viz.program(model)(X).static
    assert "layer0 … layer39</b> × 40" in static
    assert static.count("tanh") == 1
    assert "hidden:f32[4,8] = " in static
    assert "jaxpr × 5" in static
    assert static.count("<svg") == 1


def test_static_html_is_cut_after_200_lines():
    def model(x):
        for number in range(500):
            x = jnp.sin(x) if number * number % 7 > 2 else jnp.tanh(x)
        return x

    static = pl.viz.program(model)(X).static
    assert static.count("<pre>") <= 220
    assert "of 500 equations are written here" in static


def test_differences_are_coloured_in_static_html():
    static = pl.viz.diff(f, lambda x: jnp.sinh(x) * 2.0)(X).static
    assert re.search('class="pl-removed">−.*tanh', static)
    assert re.search('class="pl-added">[+].*sinh', static)
    assert "They are the same program" in pl.viz.diff(f, f)(X).static


def test_notebooks_observe_what_is_selected_in_a_widget():
    widget = pl.viz.program(f)(X).widget()
    selections = []
    widget.observe(lambda change: selections.append(change["new"]), "selection")
    widget.selected = [1, 0, 99]
    assert [each["primitive"] for each in selections[-1]] == ["mul", "tanh"]
    assert selections[-1][0]["source"].endswith("test_figures.py")
    widget.record = pl.viz.memory().record.to_dict()
    assert widget.selection == []


def test_a_mesh_that_is_set_in_the_widget_of_what_if_is_shown():
    figure = pl.viz.what_if(jitted)(pl.ShapeDtypeStruct((64, 8), "float32")).change({"data": 8})
    widget = figure.widget()
    widget.mesh = {"data": 4, "model": 2}
    assert widget.record["placement"]["axis_sizes"] == [4, 2]
    with pytest.raises(ValueError, match="devices"):
        widget.mesh = {"data": 100_000}
    assert widget.mesh == {"data": 4, "model": 2}


def test_a_widget_has_the_record_and_takes_another():
    widget = pl.viz.program(f)(X).widget(height=300)
    assert (widget.height, widget.record["kind"], widget.selected) == (300, "program", [])
    widget.record = pl.viz.program(jnp.sin)(X).record.to_dict()
    assert "tanh" in widget.text


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        (lambda: pl.tree.map(max, {"w": 1, "b": (2, 3)}, {"w": 1, "b": (2, 3, 4)}),
         ('rest[0]["b"]', "got", "tuple of 3", "expected", "tuple of 2")),
        (lambda: pl.lax.cond(True, lambda: {"a": X[:2]}, lambda: {"a": X[:3]}),
         ("result['a']", "false_fun gives", "f32[3,8]", "true_fun gives", "f32[2,8]")),
        (lambda: pl.lax.scan(lambda c, x: (c.astype(int), x), jnp.ones(2), X),
         ("carry", "taken", "f32[2]", "returned", "i32[2]")),
    ],
    ids=["structures", "branches", "carries"],
)  # fmt: skip
def test_an_error_tells_apart_what_stands_on_either_side(fails, expected):
    with pytest.raises(pl.introspect.errors.PellucidError) as raised:
        fails()
    [difference] = pl.introspect.error(raised.value).differences
    assert dataclasses.astuple(difference) == expected


def placed_over_processes(spec, processes):
    """The record of a 4x4 array over a 2x2 mesh whose devices belong to `processes`."""
    mesh = pl.sharding.Mesh(np.array(pl.devices()[:4]).reshape(2, 2), ("data", "model"))
    record = introspect.sharding(pl.NamedSharding(mesh, spec), shape=(4, 4))
    return dataclasses.replace(
        record, mesh=dataclasses.replace(record.mesh, process_indices=processes)
    )


@pytest.mark.parametrize(
    ("spec", "processes", "boundaries"),
    [
        (pl.P("data", "model"), [0, 0, 1, 1], ["process 0 | process 1"] * 2),  # one above the other
        (pl.P("data", "model"), [0, 1, 0, 1], ["process 0 | process 1"] * 2),  # side by side
        (pl.P("data"), [0, 0, 1, 1], ["process 0 | process 1"]),
        (pl.P("model"), [0, 0, 1, 1], []),  # each part lies in both
        (pl.P("data", "model"), [0, 0, 0, 0], []),
    ],
)
def test_lines_between_processes(spec, processes, boundaries):
    picture = tiles_picture(placed_over_processes(spec, processes))
    lines = re.findall(r"<line ([^>]*)><title>([^<]*)</title>", picture)
    assert [title for _, title in lines] == boundaries
    for attributes, _ in lines:
        x1, y1, x2, y2 = (
            float(re.search(rf'\b{n}="([\d.]+)"', attributes)[1]) for n in ("x1", "y1", "x2", "y2")
        )
        assert (x1 == x2) != (y1 == y2)


def test_the_text_names_the_processes_of_each_part():
    text = repr(Figure(placed_over_processes(pl.P("data"), [0, 1, 2, 2])))
    assert "devices 0, 1 of process 0, 1: [0:2, 0:4]" in text
    assert "devices 2, 3 of process 2: [2:4, 0:4]" in text


def test_a_mesh_is_its_devices_in_rows():
    mesh = pl.sharding.AbstractMesh((2, 3), ("data", "model"))
    figure = pl.viz.sharding(mesh)
    assert repr(figure).splitlines() == [
        "mesh data=2, model=3 of 6 abstract devices; along model:",
        "  data=0: 0 1 2",
        "  data=1: 3 4 5",
    ]
    assert "mesh data=2, model=3" in re.sub("<.*?>", "", figure.bundle()["text/html"])


def test_a_function_tells_of_its_calls_and_meshes():
    mesh = pl.sharding.Mesh(np.array(pl.devices()).reshape(2, 4), ("data", "model"))
    line = pl.NamedSharding(pl.sharding.Mesh(mesh.devices.reshape(8), ("line",)), pl.P("line"))
    block = pl.jit(lambda a: jnp.exp(jnp.tanh(a)) * jnp.cos(jnp.sin(a)))

    def program(x):
        y = pl.lax.with_sharding_constraint(block(block(x).T), line)
        return pl.lax.scan(lambda c, _: (c * 2, None), y, None, length=3)[0]

    x = pl.device_put(np.ones((8, 8)), pl.NamedSharding(mesh, pl.P("data", "model")))
    figure = pl.viz.sharding(program)(x)
    bundle = figure.bundle()
    for text in (bundle["text/plain"], bundle["text/html"]):
        assert "on mesh data=2, model=4 and line=8" in re.sub("<.*?>", "", text)
        assert re.search(r"jit of <lambda>, .*\(call 1 of 2\)", html.unescape(text))
        assert "(call 2 of 2)" in text
        assert "(mesh line=8)" in text
        assert "scan of" in text


def test_a_function_on_one_device_says_so():
    text = pl.viz.sharding(f)(X).bundle()["text/plain"]
    assert text.startswith("f on one device\n  nothing is divided or exchanged; peak")


def test_the_widget_of_what_if_answers_requests_and_says_what_cannot_be():
    figure = pl.viz.what_if(jitted)(pl.ShapeDtypeStruct((64, 8), "float32")).change({"data": 8})
    widget = figure.widget()

    def ask(size, dims, under=None):
        widget.request = {
            "axes": [["data", size]], "dims": dims, "searchUnder": under,
            "number": widget.answered + 1,
        }  # fmt: skip
        return widget.record

    assert ask(16, [[["data"], []]])["placement"]["argument_bytes"] == 64 * 8 * 4 // 16
    assert widget.mesh == {"data": 16}
    refused = ask(128, [[["data"], []]])
    assert "can't be split evenly into 128 parts" in refused["refusal"]
    assert refused["placement"]["axis_sizes"] == [16]
    actual = ask(8, [[["data"], []]], under=1000)
    assert (actual["refusal"], actual["memory_limit_bytes"]) == ("", 1000)
    assert all(each["peak_bytes"] <= 1000 for each in actual["best"])
    assert widget.answered == 3


def test_what_lies_as_today_has_one_column():
    figure = pl.viz.what_if(jitted)(pl.ShapeDtypeStruct((64, 8), "float32"))
    lines = repr(figure).splitlines()
    assert lines[1].split() == ["today"]
    assert "figure.change(mesh, specs) shows another placement" in repr(figure)
    assert "what if" not in figure.static
    assert repr(figure.change({"data": 8})).splitlines()[1].split() == ["today", "what", "if"]


def test_answers_to_a_view_are_gone_with_the_figure_that_it_shows() -> None:
    figure = pl.viz.what_if(lambda x: x.sum())(pl.ShapeDtypeStruct((64, 32), "float32"))
    record = figure.record
    for size in (2, 4):  # each is asked by the key of the one before
        record = placement_record(record.figure, {"data": size}, [[["data"], []]], None)
        assert record.placement.axis_sizes == [size]
    gc.disable()
    try:
        del figure
        with pytest.raises(ArgumentValueError, match="this figure is gone"):
            placement_record(record.figure, {"data": 8}, [[["data"], []]], None)
    finally:
        gc.enable()

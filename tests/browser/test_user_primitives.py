"""Primitives and native functions of a user, in the graph and under the debugger."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.test_debugger import Debugger

pytestmark = pytest.mark.browser
expect.set_options(timeout=20_000)

DEFINE = '''import ctypes, pathlib, subprocess, tempfile
import numpy as np, pellucid as pl, pellucid.numpy as jnp
from pellucid import ffi
from pellucid.extend.core import Primitive
from pellucid.interpreters import ad, mlir

scaled_p = Primitive("scaled")
scaled_p.def_impl(lambda x, *, factor: x * factor)
scaled_p.def_abstract_eval(lambda x, *, factor: x)
ad.defjvp(scaled_p, lambda t, x, *, factor: scaled_p.bind(t, factor=factor))
ad.primitive_transposes[scaled_p] = lambda ct, x, *, factor: [scaled_p.bind(ct, factor=factor)]
mlir.register_lowering(scaled_p, mlir.lower_fun(lambda x, *, factor: x * factor, multiple_results=False))

source = r"""
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Add(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (int64_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + by;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(AddHandler, Add,
    ffi::Ffi::Bind().Attr<float>("by").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "add.cc").write_text(source)
command = ["g++", "-w", "-std=c++17", "-fPIC", "-shared", "-I", ffi.include_dir()]
subprocess.run([*command, folder / "add.cc", "-o", folder / "add.so"], check=True)
library = ctypes.CDLL(str(folder / "add.so"))
ffi.register_ffi_target("add_native", ffi.pycapsule(library.AddHandler), platform="cpu")

def add_native(x, by):
    call = ffi.ffi_call("add_native", pl.ShapeDtypeStruct(x.shape, x.dtype))
    return call(x, by=np.float32(by))

@pl.jit
def layer(x):
    y = scaled_p.bind(x, factor=3.0)
    z = add_native(y, by=0.5)
    return jnp.tanh(z).sum()

x = jnp.arange(8.0).reshape(2, 4) / 8'''
SCALED, NATIVE, RETURN = (
    DEFINE.splitlines().index(line) + 1
    for line in (
        "    y = scaled_p.bind(x, factor=3.0)",
        "    z = add_native(y, by=0.5)",
        "    return jnp.tanh(z).sum()",
    )
)
SHOW = "pl.make_jaxpr(layer)(x)"


def test_they_are_drawn_and_stepped_over(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1600, "height": 1000})
    lab.open_notebook("user_primitives.ipynb", [DEFINE, "print(layer(x).tolist())", SHOW])
    undebugged = lab.output_of(1).inner_text()
    output = lab.output_of(2)
    expect(output).to_contain_class("pellucid-program")
    expect(output).to_contain_text("ffi_call")
    expect(output.locator("canvas").first).to_be_visible()
    output.scroll_into_view_if_needed()
    lab.screenshots("user_primitives_graph")
    debugger = Debugger(lab)
    debugger.begin()
    debugger.break_at(SCALED)
    debugger.run()
    debugger.at(SCALED)
    debugger.stack(re.compile("layer"))
    expect(debugger.variables).to_contain_text("f32[2,4] in [0, 0.875]")
    debugger.press("step-over")
    debugger.at(NATIVE)
    expect(debugger.variables).to_contain_text("f32[2,4] in [0, 2.625]")
    figure = debugger.draw("y")
    expect(figure.get_by_role("img", name="Heat map")).to_be_visible()
    lab.screenshots("user_primitives_stopped")
    debugger.press("step-over")
    debugger.at(RETURN)
    expect(debugger.variables).to_contain_text("f32[2,4] in [0.5, 3.125]")
    lab.screenshots("user_primitives_native")
    debugger.press("pellucid:step-back")
    debugger.at(NATIVE)
    debugger.press("continue")
    expect(lab.output_of(1)).to_have_text(undebugged)

"""import-linter's graph, with imports by string."""

import graphlib

import grimp

from tools.string_imports import add_string_imports, string_imports


def test_calls_and_origins_are_imports_and_other_texts_are_none():
    source = "f = importlib.import_module('a.b')\ng(import_module(name), 'a.c')\ntable = {'x': 'a.d:attribute'}\n"
    assert list(string_imports(source)) == [("a.b", 1), ("a.d", 3)]


def test_wiring_reaches_into_higher_layers_and_nothing_reaches_wiring_but_the_package():
    graph = add_string_imports(grimp.build_graph("pellucid"))
    assert "pellucid._machine.compilation.eager" in graph.find_modules_directly_imported_by(
        "pellucid.wiring"
    )
    assert graph.find_modules_that_directly_import("pellucid.wiring") == {"pellucid"}


def test_no_modules_of_the_core_import_each_other_in_a_circle():
    graph = add_string_imports(grimp.build_graph("pellucid", exclude_type_checking_imports=True))
    imports = {m: graph.find_modules_directly_imported_by(m) - {m} for m in graph.modules}
    assert graphlib.TopologicalSorter(imports).prepare() is None  # raises CycleError

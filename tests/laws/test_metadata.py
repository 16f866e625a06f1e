"""Law *Metadata*: public names say of themselves what the reference's say.

Their parameters are compared by tools/missing_api.py.
"""

import importlib

import pytest
from corpus import metadata

EXCEPTIONS = {
    "jax.numpy.ndarray": "the class is `jax.Array`",
    "jax.P": "the class is called PartitionSpec, as its repr has it",
    "jax.experimental.multihost_utils.P": "the same",
    "jax.core.Effects": "an alias of types",
    "jax.extend.core.Effects": "an alias of types",
    "jax.interpreters.mlir.ConstantHandler": "an alias of types",
    "jax.interpreters.pxla.Index": "an alias of types",
    "jax.lax.PrecisionLike": "an alias of types",
    "jax.stages.CompilerOptions": "an alias of types",
    "jax.experimental.EArray": "arrays of extended dtypes are one class here",
    "jax.experimental.checkify.JaxRuntimeError": "two classes of one name would be mistaken for each other",
    "jax.experimental.hijax.TransformedRef": "views of references are one class here",
    "jax.extend.core.set_current_trace": "the same object as in the core, which libraries compare",
    "jax.extend.lowering.JaxIrContext": "MLIR's own class",
    "jax.extend.lowering.LoweringRuleContext": "one context lowers modules and rules here",
    "jax.interpreters.mlir.LoweringRuleContext": "the same",
    "jax.interpreters.mlir.ModuleContext": "the same",
    "jax.interpreters.ad.UndefinedPrimal": "linear operands are one class here",
    "jax.interpreters.partial_eval.DynamicJaxprTracer": "tracers of staging are one class here",
}
"""Names whose `__name__` is another, with the reason."""

REFERENCE = metadata.reference_facts()
OURS = {name: facts for name, facts in metadata.all_facts("pellucid").items() if name in REFERENCE}


def differing(holds):
    """The names for which `holds(reference's facts, our facts)` is false."""
    return [".".join(name) for name, ours in OURS.items() if not holds(REFERENCE[name], ours)]


def test_what_was_recorded_is_read():
    lines = metadata.REFERENCE.read_text(encoding="utf-8").splitlines(keepends=True)
    assert metadata.text_of(REFERENCE) == "".join(line for line in lines if line[0] != "#")
    assert len(OURS) > 1500


def test_names_are_those_that_functions_are_called_by():
    others = [
        ".".join(name)
        for name, ours in OURS.items()
        if ours.name not in (name[1], REFERENCE[name].name)
    ]
    assert sorted(others) == sorted(EXCEPTIONS)


def test_what_the_reference_documents_has_a_docstring():
    assert differing(lambda theirs, ours: ours.is_documented or not theirs.is_documented) == []


def test_what_the_reference_jits_has_stages():
    assert differing(lambda theirs, ours: ours.has_stages or not theirs.has_stages) == []


def test_errors_are_caught_by_the_classes_that_catch_the_references():
    assert differing(lambda theirs, ours: theirs.bases <= ours.bases) == []


def test_public_modules_that_names_state_have_them():
    for (owner, name), ours in OURS.items():
        if ours.module is not None:
            module = importlib.import_module("pellucid" + ours.module.removeprefix("jax"))
            x = getattr(importlib.import_module("pellucid" + owner.removeprefix("jax")), name)
            assert getattr(module, str(ours.name)) is x or name in ("callback", "print"), (
                owner,
                name,
            )


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("    documented, here: f", metadata.Facts("f", "jax", True)),
        ("    bare, called g, jitted: f", metadata.Facts("g", None, False, True)),
        (
            "    bare, of jax.errors, is TypeError jax.errors.E: E",
            metadata.Facts(
                "E", "jax.errors", bases=frozenset(("builtins.TypeError", "jax.errors.E"))
            ),
        ),
    ],
)
def test_a_line_states_facts(line, facts):
    kind, _, name = line.strip().partition(": ")
    assert metadata._facts(kind, name, "jax") == facts

"""API pages: a directive for each public name, with its docstring as Markdown."""

import types

from tools import api_pages


def test_doctests_stand_in_code_blocks() -> None:
    text = "The sum.\n>>> 1 + 1\n2\n>>> 2 + 2\n4\n\nMore, `x >>> y`."
    fenced = "The sum.\n\n```pycon\n>>> 1 + 1\n2\n>>> 2 + 2\n4\n```\n\nMore, `x >>> y`."
    assert api_pages.fenced_examples(text) == fenced


def test_a_page_documents_each_object_once() -> None:
    def total(x, axis=None):
        """The sum of `x`.

        >>> total([1])
        1
        """

    total.__module__ = "pellucid.sample"
    module = types.ModuleType("pellucid.sample", "Sums. And more.")
    vars(module).update(total=total, summed=total, LIMIT=3, __all__=["total", "summed", "LIMIT"])
    text = api_pages.page(module)
    assert "::::{py:function} pellucid.sample.summed(x, axis=None)" in text
    assert "::::{py:data} pellucid.sample.total\n\nAnother name of `summed`." in text
    assert text.count(">>> total([1])") == 1
    assert "Constants, types and primitives: `LIMIT`." in text


def test_stale_pages_are_removed(tmp_path) -> None:
    stale = tmp_path / "pellucid.gone.md"
    stale.write_text("gone")
    pages = {path.stem for path in api_pages.write_pages(tmp_path)}
    assert not stale.exists()
    assert {"index", "pellucid.numpy", "pellucid.numpy.fft", "pellucid.viz"} <= pages

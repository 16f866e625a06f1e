"""Views as HTML: complete, inert until their own script runs, and safe to embed."""

import base64
import gzip
import html.parser
import json
import re
from pathlib import Path

import pytest

from pellucid_viz.render import colors, html as render
from pellucid_viz.render.markup import markup_of
from tests.introspect import sample_records
from tests.introspect.sample_programs import HOSTILE


class Elements(html.parser.HTMLParser):
    """Start tags of a document, with the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def parsed(fragment: str) -> Elements:
    elements = Elements()
    elements.feed(fragment)
    elements.close()
    return elements


@pytest.fixture
def viewer(tmp_path, monkeypatch):
    """A stand-in for the built viewer, with what could end its script element too early."""
    path = tmp_path / "viewer.js"
    path.write_text('const a = "</script><!--"; const b = /<\\/script>/;', encoding="utf-8")
    monkeypatch.setattr(render, "VIEWER", path)
    for each in (render.viewer_script, render.compressed_viewer):
        each.cache_clear()
    yield path
    for each in (render.viewer_script, render.compressed_viewer):
        each.cache_clear()


def sample(name):
    return sample_records.SAMPLES[name]().to_dict()


def test_a_small_record_travels_as_it_is():
    record = sample("empty")
    assert json.loads(parsed(render.view_html(record, "text")).scripts[0]) == record


def test_a_large_record_travels_compressed(viewer):
    record = sample("transformer")
    elements = parsed(render.view_html(record, "text"))
    packed = elements.scripts[0]
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == record
    assert len(packed) < len(json.dumps(record)) / 2
    assert render.view_html(record, "text") == render.view_html(record, "text")


def test_hostile_texts_stay_texts():
    record = sample_records.SAMPLES["hostile"]()
    fragment = render.view_html(record.to_dict(), markup_of(record, "\n".join(HOSTILE)))
    elements = parsed(fragment)
    assert [tag for tag, _ in elements.tags].count("script") == 1
    assert {"img", "iframe", "a"}.isdisjoint(tag for tag, _ in elements.tags)
    assert render.record_of(fragment) == record.to_dict()


def test_the_record_in_html_is_the_one_that_was_put_there():
    assert render.record_of(render.view_html(sample("transformer"), "text")) == sample(
        "transformer"
    )
    with pytest.raises(ValueError, match="no record"):
        render.record_of("<p>a table</p>")


def test_colours_of_static_html_are_those_of_the_live_view():
    theme = (Path(__file__).parents[2] / "lab-extension/src/components/theme.ts").read_text()
    light, dark = theme.split("const DARK")
    for tokens, source in ((colors.LIGHT, light), (colors.DARK, dark)):
        actual = dict(re.findall(r"'?([\w-]+)'?: '(#[0-9a-f]{6})'", source))
        assert {name: actual[name] for name in tokens} == tokens


def test_the_viewer_cannot_end_its_own_script(viewer):
    fragment = render.view_html({"kind": "program"}, "text", viewer=render.plain_viewer())
    elements = parsed(fragment)
    assert len(elements.scripts) == 2
    assert elements.scripts[1] == 'const a = "<\\/script><\\!--"; const b = /<\\/script>/;'
    assert fragment.count("</script>") == 2


def test_a_value_that_json_cannot_hold_is_refused(viewer):
    with pytest.raises(ValueError, match="JSON"):
        render.view_html({"kind": "program", "value": float("nan")}, "text")


def test_without_a_built_viewer_the_text_remains(viewer):
    viewer.unlink()
    fragment = render.view_page(sample("mlp"), "<pre>{ lambda &lt;x&gt; }</pre>", title="loss")
    elements = parsed(fragment)
    assert len(elements.scripts) == 1
    assert "{ lambda <x> }" in elements.text
    assert "not built" in elements.text


def test_a_page_fills_the_window_and_names_itself(viewer):
    page = render.view_page(sample("mlp"), "text", title="<b>loss</b>")
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>&lt;b&gt;loss&lt;/b&gt;</title>" in page
    assert re.search(r'class="pellucid-place" style="height: 100vh"', page)


def test_nothing_is_loaded_from_elsewhere(viewer):
    page = render.view_page(sample("mlp"), "text", title="loss")
    for _, attributes in parsed(page).tags:
        assert not {"src", "href"} & set(attributes)

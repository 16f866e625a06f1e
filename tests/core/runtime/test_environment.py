"""The machine's part of a problem report."""

import pellucid as pl


def test_versions_devices_and_settings_are_told(monkeypatch, capsys):
    monkeypatch.setenv("XLA_FLAGS", "--a=1")
    text = pl.print_environment_info(return_string=True)
    assert f"pellucid:  {pl.__version__}" in text
    assert f"devices:   {pl.device_count()} of kind cpu" in text
    assert text.endswith("XLA_FLAGS=--a=1")
    assert pl.print_environment_info() is None
    assert capsys.readouterr().out == text + "\n"

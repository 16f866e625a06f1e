"""Options: each changes something, or refuses to be changed."""

from pathlib import Path

import pytest

import pellucid as pl
from pellucid.base.config import config
from pellucid.base.errors import ConfigError

CORE = Path(pl.__file__).parent
FLAGS_OF_CPP = {"transfer_guard", "array_garbage_collection_guard", "thread_guard"}
"""C++ reads them; `tests/core/runtime/test_guards.py` tests what they do."""
OTHER_VALUES = (True, False, "rbg", "unsafe_rbg")


@pytest.fixture(scope="module")
def sources():
    files = [f for f in CORE.rglob("*.py") if f.name != "__init__.py"]
    files.remove(CORE / "base" / "config.py")
    return "\n".join(f.read_text() for f in files)


@pytest.mark.parametrize("name", sorted(config.options().keys() - FLAGS_OF_CPP))
def test_every_option_is_read_or_keeps_its_value(name, sources):
    if f"config.{name}." in sources or f'"{name}"' in sources:
        return
    accepted = config.option(name).default
    for value in OTHER_VALUES:
        if value != accepted:
            with pytest.raises(ConfigError, match=rf"option '{name}' does not take"):
                config.update(f"jax_{name}", value)
    config.update(name, accepted)


@pytest.mark.parametrize("text", ["0", "false"])
def test_options_with_one_value_are_parsed_as_others(text):
    config.update("jax_enable_recoverability", text)
    with pytest.raises(ConfigError, match="only True is supported"):
        config.update("jax_use_shardy_partitioner", text)

"""What pellucid changes in an IPython shell."""

from IPython.core.inputtransformer2 import leading_empty_lines
from IPython.core.interactiveshell import InteractiveShell

from pellucid_viz import formatters


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Prepare `shell` for pellucid; IPython calls this for `%load_ext pellucid_kernel`.

    IPython drops empty lines at the top of a cell before it compiles it. Source lines of a program would
    then differ from the lines that a notebook shows, so they are kept. Programs show as figures.
    """
    formatters.register(shell)
    transforms = shell.input_transformer_manager.cleanup_transforms
    if leading_empty_lines in transforms:
        transforms.remove(leading_empty_lines)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Undo `load_ipython_extension`; IPython calls this for `%unload_ext pellucid_kernel`."""
    formatters.unregister(shell)
    transforms = shell.input_transformer_manager.cleanup_transforms
    if leading_empty_lines not in transforms:
        transforms.insert(0, leading_empty_lines)

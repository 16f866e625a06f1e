"""Tokens that count, and files that are compared."""

from tools import count_tokens


def test_comments_docstrings_and_layout_do_not_count() -> None:
    text = '''"""A module."""
X = 1  # a comment
"""What X is."""

def f(x):
    """Twice."""

    return (x +
            "text")
'''
    assert count_tokens.count_tokens(text) == len(
        ["X", "=", "1", "def", "f", "(", "x", ")", ":", "return", "(", "x", "+", "text", ")"]
    )


def test_every_folder_of_ours_is_compared_once() -> None:
    compared = [folder for scope in count_tokens.SCOPES for folder in scope.ours]
    assert sorted(compared) == sorted(set(compared))
    for folder in compared:
        assert (count_tokens.ROOT / "core/pellucid" / folder).is_dir()


def test_every_file_of_the_reference_is_compared_once() -> None:
    names = [name for scope in count_tokens.SCOPES for name in scope.theirs]
    assert sorted(names) == sorted(set(names))

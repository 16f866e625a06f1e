"""Values of the user that are part of every key."""

import threading

from message_checks import check_message

import pellucid as pl


def test_a_jitted_function_has_a_program_for_each_value():
    context = pl.make_user_context("a")
    traced = []

    @pl.jit
    def function(x):
        traced.append(context.value)
        return x

    for value in ("a", "b", "a", "b"):
        with context(value):
            function(1.0)
    function(1.0)
    assert traced == ["a", "b"]


def test_a_block_is_about_its_thread():
    context = pl.make_user_context()
    seen = []
    with context(1):
        thread = threading.Thread(target=lambda: seen.append(context.value))
        thread.start()
        thread.join()
    assert seen == [None]


def test_values_must_be_hashable():
    context = pl.make_user_context()
    for use in (lambda: pl.make_user_context([]), lambda: context([]).__enter__()):
        check_message(use, TypeError, "it must be hashable", "got list")

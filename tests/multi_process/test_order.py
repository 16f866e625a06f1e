"""Processes that don't do the same in the same order: an error in each, and no wrong number in any."""

import pytest
from launcher import check, launch, results

pytestmark = pytest.mark.multi_process

EVERY_RUN = {"PELLUCID_AGREEMENT_ON_PROGRAMS": "every_run"}
APART = "not at the same point of their programs"


def texts(ends):
    """The errors of all processes by name, each as one text."""
    return [
        {name: f"{seen[0]}: {seen[1]}" for name, seen in actual.items() if isinstance(seen, list)}
        for actual in results(ends)
    ]


def test_programs_out_of_order_are_errors_everywhere_and_all_can_go_on():
    ends = launch("out_of_order", 2, module="order", environment=EVERY_RUN)
    assert results(ends)[0]["interrupted"]
    for process, actual in enumerate(texts(ends)):
        check(
            actual["swapped"],
            "AgreementError: the program over several processes: the processes don't agree",
            "process 0: total(f32[4]), program ",
            "process 1: largest(f32[4]), program ",
            "in the same order",
        )
        check(actual["sizes"], "process 0: rows(f32[4,50000])", "process 1: total(f32[4])")
        check(
            actual["one fewer"], APART, "process 0: the program over several processes, total(f32[4])",
            "process 1: assert_equal, ",
        )  # fmt: skip
        check(actual["host values"], "process 0: <lambda>(f32[4], f32[])", "arguments of its own")
        late = (
            "the others waited 1 s for this process",
            "process 1 did not come within 1 s.\n  process 1: last agreed on the program",
        )
        check(actual["late"], "DistributedTimeoutError", late[1 - process])


def test_who_runs_a_program_more_than_the_others_is_told_so():
    ends = launch("ends_early", 2, module="order")
    assert ends[1].exit_code == 0
    check(ends[1].errors, APART)
    [kind, text, seconds] = ends[0].result
    assert kind == "AgreementError"
    check(text, APART, "process 0: the program over", "process 1: distributed.shutdown")
    assert seconds < 10


def test_programs_in_another_order_than_before_are_compared_while_they_run():
    for how, text, _ in results(launch("in_another_order", 2, module="order")):
        assert how == "AgreementError"
        check(
            text,
            "have launched different programs",
            "total(f32[4])",
            "largest(f32[4])",
            "every_run",
        )


def test_waits_end_when_a_difference_is_known_though_the_exchange_does_not():
    ends = launch("in_an_exchange_that_nothing_ends", 2, module="order", doomed=[1])
    assert ends[0].exit_code == 0, ends[0].errors
    how, text, _ = ends[0].result
    assert how == "AgreementError"
    check(text, "have launched different programs", "total(f32[4])", "largest(f32[4])")


@pytest.mark.rotates
def test_groups_that_wait_for_each_other_are_told():
    for process, (values, seen) in enumerate(results(launch("in_a_circle", 3, module="order"))):
        assert values == [4, 6][process // 2 :]
        assert seen[0] == "AgreementError"
        check(seen[1], "don't agree", "process 0: total(f32[4])", "total(f32[6])")


def test_programs_in_the_order_of_before_start_without_python():
    for reported, calls_per_step, error, values in results(
        launch("on_the_cpp_road", 2, module="order")
    ):
        assert reported == [20, 0]
        assert calls_per_step < 15
        check(
            f"{error[0]}: {error[1]}",
            "AgreementError",
            "don't agree",
            "process 0: <lambda>(f32[4])",
        )
        assert values == [0.25]

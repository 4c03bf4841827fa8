from __future__ import annotations

from remote.failures import Failure
from remote.run.retries import Budgets, Signs
from remote.schema import Retry

POLICY = Retry(transient=2, start_line=10.0, progress_line=20.0)


def failure(kind: str, cause: str = "c", budget: int | None = None) -> Failure:
    return Failure(kind=kind, cause=cause, budget=budget)


def allowed(budgets: Budgets, what: Failure, times: int) -> list[bool]:
    return [budgets.allows(what) for _ in range(times)]


def test_transient_causes_have_the_policys_budget_each() -> None:
    budgets = Budgets(POLICY)
    assert allowed(budgets, failure("transient", "a"), 3) == [True, True, False]
    assert allowed(budgets, failure("transient", "b"), 3) == [True, True, False]


def test_progress_gives_the_budget_back() -> None:
    budgets = Budgets(POLICY)
    assert allowed(budgets, failure("transient"), 3)[-1] is False
    budgets.progressed()
    assert budgets.allows(failure("transient"))


def test_fatal_is_never_tried_again_unknown_once_and_a_rows_budget_only_lowers() -> None:
    budgets = Budgets(POLICY)
    assert allowed(budgets, failure("fatal", "f"), 2) == [False, False]
    assert allowed(budgets, failure("node-fatal", "n"), 1) == [False]
    assert allowed(budgets, failure("unknown", "u"), 2) == [True, False]
    assert allowed(budgets, failure("transient", "one", 1), 2) == [True, False]
    assert allowed(budgets, failure("transient", "many", 9), 3) == [True, True, False]


def test_a_policy_without_retries_allows_none() -> None:
    budgets = Budgets(Retry(transient=0))
    assert not budgets.allows(failure("transient"))
    assert not budgets.allows(failure("unknown"))


def test_silence_after_the_start_is_a_hang() -> None:
    signs = Signs(100.0)
    assert signs.hangs(109.9, POLICY) is None
    assert "nothing was said" in (signs.hangs(110.1, POLICY) or "")


def test_log_lines_are_signs_of_life_until_samples_come() -> None:
    signs = Signs(0.0)
    signs.said(9.0)
    signs.said(28.0)
    assert signs.hangs(47.0, POLICY) is None
    assert "no line of log" in (signs.hangs(48.1, POLICY) or "")


def test_chatter_without_progress_is_a_hang_while_extracting() -> None:
    signs = Signs(0.0)
    signs.progressed(1.0)
    for moment in range(2, 22):
        signs.said(float(moment))
    assert "no progress" in (signs.hangs(22.0, POLICY) or "")
    signs.progressed(22.0)
    assert signs.hangs(23.0, POLICY) is None


def test_a_cause_that_comes_back_can_mean_a_bad_host_and_progress_does_not_forget_it() -> None:
    budgets = Budgets(POLICY)
    ecc = Failure(kind="transient", cause="gpu-ecc", budget=1, then="node-fatal")
    assert budgets.settled(ecc) == ecc
    assert budgets.allows(ecc)
    budgets.progressed()
    second = budgets.settled(ecc)
    assert (second.kind, second.then) == ("node-fatal", None)
    assert not budgets.allows(second)


def test_a_cause_that_is_fatal_the_second_time_is_forgotten_by_progress() -> None:
    budgets = Budgets(POLICY)
    damaged = Failure(kind="transient", cause="damaged-file", budget=1, then="fatal")
    assert budgets.allows(budgets.settled(damaged))
    budgets.progressed()
    assert budgets.allows(budgets.settled(damaged))
    assert budgets.settled(damaged).kind == "fatal"


def test_what_was_mended_costs_nothing() -> None:
    budgets = Budgets(Retry(transient=0))
    assert budgets.allows(Failure(kind="transient", cause="c", mended=True))
    assert budgets.spent == {}

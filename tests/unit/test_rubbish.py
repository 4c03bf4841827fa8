from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.errors import UsageError
from local.tasks import cleaning
from remote.run.rubbish import DAY, RECENT, Seen, SeenBundle, SeenRun, SeenVerdict, decide

IDS = st.sampled_from("abcdefgh")
AGES = st.sampled_from([0.0, RECENT - 1, RECENT, DAY, 90 * DAY])
RUNS = st.lists(
    st.builds(
        SeenRun, name=st.integers(0, 99).map(lambda n: f"run-{n:02d}"), age=AGES, bundle=IDS, fingerprint=IDS,
        busy=st.sampled_from([None, None, "it goes on"]),
    ),
    max_size=12, unique_by=lambda run: run.name,
)  # fmt: skip
BUNDLES = st.lists(
    st.builds(SeenBundle, name=IDS, age=AGES, busy=st.booleans()), max_size=8, unique_by=lambda b: b.name
)
VERDICTS = st.lists(
    st.builds(
        SeenVerdict, name=IDS, age=AGES, fingerprint=IDS, job=st.sampled_from(["one", "two"]), bundle=IDS,
        passed=st.booleans(),
    ),
    max_size=8, unique_by=lambda verdict: verdict.name,
)  # fmt: skip


@given(RUNS, BUNDLES, VERDICTS, st.integers(0, 6))
def test_nothing_that_stays_loses_what_it_stands_on(
    runs: list[SeenRun], bundles: list[SeenBundle], verdicts: list[SeenVerdict], keep: int
) -> None:
    gone: dict[str, set[str]] = {"run": set(), "bundle": set(), "verdict": set()}
    for item in decide(Seen(runs=runs, bundles=bundles, verdicts=verdicts), keep=keep):
        gone[item.kind].add(item.name)
    staying = [run for run in runs if run.name not in gone["run"]]
    assert not [run for run in runs if run.busy and run.name in gone["run"]]
    ended = sorted((run.name for run in runs if run.busy is None), reverse=True)
    assert sorted(gone["run"], reverse=True) == ended[keep:]
    assert not [bundle for bundle in bundles if bundle.name in gone["bundle"] and (bundle.busy or bundle.age < RECENT)]
    assert not {run.bundle for run in staying} & gone["bundle"]
    assert not [
        one for one in verdicts if one.name in gone["verdict"] and one.fingerprint in {r.fingerprint for r in staying}
    ]
    for job in ("one", "two"):
        own = sorted((verdict for verdict in verdicts if verdict.job == job), key=lambda verdict: verdict.age)
        if own:
            youngest = [verdict for verdict in own if verdict.age == own[0].age]
            assert any(verdict.name not in gone["verdict"] for verdict in youngest)
    kept = [verdict for verdict in verdicts if verdict.name not in gone["verdict"]]
    assert not {verdict.bundle for verdict in kept} & gone["bundle"]


@given(RUNS, BUNDLES, VERDICTS)
def test_a_second_look_finds_nothing_more(
    runs: list[SeenRun], bundles: list[SeenBundle], verdicts: list[SeenVerdict]
) -> None:
    gone = {(item.kind, item.name) for item in decide(Seen(runs=runs, bundles=bundles, verdicts=verdicts), keep=2)}
    left = Seen(
        runs=[run for run in runs if ("run", run.name) not in gone],
        bundles=[bundle for bundle in bundles if ("bundle", bundle.name) not in gone],
        verdicts=[verdict for verdict in verdicts if ("verdict", verdict.name) not in gone],
    )
    assert decide(left, keep=2) == ()


@pytest.mark.parametrize("keep", ["", "-1", "x", "1.5", "9" * 5000, "²"])
def test_a_number_to_keep_that_is_none_is_refused(keep: str) -> None:
    with pytest.raises(UsageError, match="expected a whole number"):
        cleaning.number(keep)

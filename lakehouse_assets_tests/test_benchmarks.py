"""The harness of the benchmarks: what is run in which order, and what is made of the times. No Spark."""

import importlib
import io
import json
import os
import pkgutil
import sys

import pytest

import benchmarks
from benchmarks import costs, drift_peers, rules
from benchmarks.harness import Result, Sample, Side, median_steps, run_pairs, run_rounds, timed
from benchmarks.lab import own_instance
from benchmarks.memory import PeakMemory, _by_proc
from benchmarks.peers.drift_environments import ask
from benchmarks.peers.drift_peer_server import PeerAnswer
from benchmarks.peers.environments import Peer
from benchmarks.peers.peer_client import PeerFailed, PeerRequest
from benchmarks.report import as_json, draw


@pytest.mark.parametrize("name", sorted(each.name for each in pkgutil.iter_modules(benchmarks.__path__)))
def test_every_benchmark_finds_what_it_imports(name):
    importlib.import_module(f"benchmarks.{name}")


def side(label: str, log: list[str], seconds: list[float] | None = None) -> Side:
    left = list(seconds or [])

    def run() -> Sample:
        log.append(label)
        return Sample(left.pop(0) if left else 1.0)

    return Side(label, run, lambda: log.append(f"prepare {label}"))


def result(**changes) -> Result:
    a = tuple(Sample(s, {"staged": s / 2}, cpu=2 * s) for s in (3.0, 8.0, 6.0))
    b = tuple(Sample(s, cpu=s) for s in (2.0, 4.0, 5.0))
    return Result(**{"name": "gate", "a": "A", "a_samples": a, "b": "B", "b_samples": b, "limit": 1.5, **changes})


def test_each_pair_turns_the_order_round_and_the_first_only_warms_up():
    log: list[str] = []
    a, b = run_pairs(side("a", log, [100, 1, 2, 3]), side("b", log, [100, 4, 5, 6]), 3)
    assert log == [x for name in "abbaabba" for x in (f"prepare {name}", name)]
    assert ([s.seconds for s in a], [s.seconds for s in b]) == ([1, 2, 3], [4, 5, 6])


def test_progress_is_reported():
    messages: list[str] = []
    run_pairs(side("a", []), side("b", []), 1, messages.append)
    assert messages == ["warm-up: a", "warm-up: b", "pair 1 of 1: b", "pair 1 of 1: a"]


def test_the_ratio_is_the_median_of_the_pairs_and_not_the_ratio_of_the_medians():
    assert result().ratios == [1.5, 2.0, 1.2]
    assert result().ratio == 1.5
    assert result(a_samples=(Sample(1), Sample(9), Sample(9)), b_samples=(Sample(1), Sample(1), Sample(9))).ratio == 1


@pytest.mark.parametrize(("limit", "reached"), [(1.5, True), (1.49, False), (None, None)])
def test_a_limit_is_reached_when_it_is_not_exceeded(limit, reached):
    assert result(limit=limit).reached is reached


def test_processor_seconds_have_a_ratio_of_their_own():
    assert result().cpu_ratio == 3.0
    assert result(b_samples=(Sample(2), Sample(4), Sample(5))).cpu_ratio is None


def test_unpaired_runs_have_no_ratio():
    alone = result(b=None, b_samples=(), limit=None, figures={"peak_memory_mb": 900})
    assert (alone.ratios, alone.ratio, alone.reached) == ([], None, None)
    assert alone.as_dict()["b"] is None


def test_sides_of_unequal_length_are_a_mistake():
    with pytest.raises(ValueError, match="shorter"):
        _ = result(b_samples=(Sample(1),)).ratios


def test_steps_are_timed_one_after_the_other_and_the_rest_at_the_end():
    sample = timed(lambda step: [step("staged"), step("measured"), step("staged")], iter([5.0, 7.5]).__next__)()
    assert list(sample.steps) == ["staged", "measured", "rest"]
    assert sum(sample.steps.values()) == pytest.approx(sample.seconds)
    assert sample.cpu == 2.5
    assert timed(lambda step: None)().steps == {}


def test_a_step_that_a_run_did_not_have_took_no_time_there():
    assert median_steps([Sample(1, {"x": 1.0}), Sample(1), Sample(1, {"x": 3.0, "y": 2.0})]) == {"x": 1.0, "y": 0.0}


def test_the_json_holds_every_sample_and_can_be_written():
    document = json.loads(json.dumps(as_json({"cores": 2}, {"pairs": 3}, [result(sizes={"rows": 10}, settings={"k": "v"})])))
    assert (document["machine"], document["options"]) == ({"cores": 2}, {"pairs": 3})
    (one,) = document["results"]
    assert one["pairs"] == 3
    assert one["ratio"] == 1.5
    assert one["ratios"] == [1.5, 2.0, 1.2]
    assert one["reached"] is True
    assert one["a"] == {
        "label": "A",
        "median_seconds": 6.0,
        "seconds": [3.0, 8.0, 6.0],
        "cpu_seconds": [6.0, 16.0, 12.0],
        "median_steps": {"staged": 3.0},
    }
    assert (one["sizes"], one["settings"]) == ({"rows": 10}, {"k": "v"})


def test_the_table_shows_sizes_ratio_limit_and_result():
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    draw(console, {"cores": 2}, [result(limit=1.2, sizes={"rows": 1234567}), result(name="demo", b=None, b_samples=())])
    text = console.export_text()
    for expected in ("1,234,567 rows", "6.00", "4.00", "1.50", "1.20–2.00", "not reached", "staged 3.00", "cores 2"):
        assert expected in text


def test_an_instance_of_its_own_keeps_nothing_in_the_project(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKEHOUSE_SPARK_CONF", "spark.conf")
    env = own_instance(tmp_path)
    written = (tmp_path / "dagster.yaml").read_text()
    assert f"base_dir: {tmp_path}/dagster" in written
    assert "data/dagster" not in written
    assert "LAKEHOUSE_SPARK_CONF" not in env  # the defaults are what is measured
    assert env["DAGSTER_HOME"] == str(tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_the_memory_of_a_process_is_measured():
    assert _by_proc(os.getpid()) > 10 * 2**20
    with PeakMemory(os.getpid()) as peak:
        peak._stop.wait(0.5)
    assert peak.megabytes is not None
    assert peak.megabytes > 10


def test_more_sides_than_two_turn_round_as_well():
    log: list[str] = []
    rounds = run_rounds([side(name, log) for name in "abc"], 2)
    assert "".join(name for name in log if len(name) == 1) == "abccbaabc"
    assert [len(samples) for samples in rounds] == [2, 2, 2]


def test_a_side_left_out_is_listed_and_not_counted():
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    left_out = result(name="rules, DQX", a_samples=(), b_samples=(), note="left out: no environment")
    assert left_out.as_dict()["a"]["median_seconds"] is None
    draw(console, {}, [left_out])
    assert "left out: no environment" in console.export_text()


def failing_rows_of_all() -> dict[str, dict[str, int]]:
    key = rules.UNIQUE
    hand = {"r": 3, key: 2, f"rows of {key}": 5}
    return {"ours": {"r": 3, key: 2}, "by hand": hand, "Deequ": {"r": 3, key: 5}, "DQX": {"r": 3, key: 5}}


def test_sides_that_find_the_same_rows_agree():
    rules.agree(failing_rows_of_all(), ["r", rules.UNIQUE])


@pytest.mark.parametrize(("who", "rule"), [("ours", "r"), ("DQX", "r"), ("ours", rules.UNIQUE), ("Deequ", rules.UNIQUE)])
def test_sides_that_find_other_rows_stop_the_benchmark(who, rule):
    failing_rows = failing_rows_of_all()
    failing_rows[who] = {**failing_rows[who], rule: 4}
    with pytest.raises(ValueError, match=rf"(?s)differ.*{rule}.*{who} 4"):
        rules.agree(failing_rows, ["r", rules.UNIQUE])


def test_a_peer_that_ends_is_reported_with_its_last_output(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nread job\necho no such jar >&2\n")
    python.chmod(0o755)
    peer = Peer(str(tmp_path), "Deequ", "deequ", (), 1)  # an absolute name is its folder
    with PeerRequest(peer, {"path": "x"}, tmp_path / "log") as client, pytest.raises(PeerFailed, match="no such jar"):
        client.measure()


def test_ten_rules_of_a_hundred_are_of_every_kind():
    few = rules.many_rules(10)[::11]
    assert (len(rules.many_rules(10)), len(few), len(rules.many_conditions(10))) == (100, 10, 100)
    assert {check.check for check in few} == {"not_null", "in_range", "length", "matches", "in_set", "expression"}


@pytest.mark.parametrize(("clean", "exceeding"), [(19, 0), (20, 0), (39, 1), (60, 2), (99, 4), (100, 4)])
def test_clean_scores_exceed_a_threshold_in_five_percent_at_most(clean, exceeding):
    scores = [float(i) for i in range(clean)]
    limit = drift_peers.threshold(scores[::-1], 0.05)
    assert sum(score > limit for score in scores) == exceeding
    assert (exceeding + 1) / (clean + 1) <= 0.05  # the place of one more clean score among these is any with the same chance


def test_too_few_clean_scores_have_no_threshold():
    assert drift_peers.threshold([1.0] * 18, 0.05) == float("inf")


def answers_of(clean: float, faulty: float, alarms: bool) -> dict[str, PeerAnswer]:
    kinds = {drift_peers.THRESHOLD: [i / 20 for i in range(20)], drift_peers.CLEAN: [clean] * 4}
    kinds |= {kind: [0.0] * 5 + [faulty] * 5 for kind in drift_peers.FAULTS} | dict.fromkeys(drift_peers.DEPENDENT, [9.0] * 4)
    return {kind: PeerAnswer(scores, [alarms] * len(scores)) for kind, scores in kinds.items()}


def test_our_power_must_reach_the_best_peer_at_equal_false_alarms():
    judged = {
        drift_peers.OURS: answers_of(0.5, 2.0, False),
        "good": answers_of(0.5, 2.0, True),
        "blind": answers_of(2.0, 0.5, True),
    }
    rates = drift_peers.at_threshold(judged)
    fault = "variance times 1.2"
    assert [rates[drift_peers.CLEAN, method].share for method in judged] == [0.0, 0.0, 1.0]
    assert [rates[fault, method].share for method in judged] == [0.5, 0.5, 0.0]
    assert (rates[fault, "ours"].least, rates[fault, "ours"].reached, rates[fault, "good"].reached) == (0.48, True, None)
    judged["better"] = answers_of(0.5, 2.0, True) | {fault: PeerAnswer([2.0] * 10, [True] * 10)}
    assert drift_peers.at_threshold(judged)[fault, "ours"].reached is False


def test_a_side_that_has_no_score_is_judged_by_its_own_decisions_alone():
    bare = {kind: PeerAnswer([], answer.alarms) for kind, answer in answers_of(0.5, 2.0, True).items()}
    judged = {drift_peers.OURS: answers_of(0.5, 2.0, False), "bare": bare}
    assert not [method for _, method in drift_peers.at_threshold(judged) if method == "bare"]
    own = drift_peers.at_defaults(judged)
    assert own[drift_peers.CLEAN, "bare"].hits == 24  # those of the threshold are counted as well
    assert {rate.share for (_, method), rate in own.items() if method == drift_peers.OURS} == {0.0}


def test_answers_are_gathered_by_the_kind_of_batch_over_all_baselines():
    drawn_cases = drift_peers.cases(2, 20, 3, 1)
    answers = []
    for case in drawn_cases:
        numbers = [float(i) for i in range(len(case.kinds))]
        answers.append(
            (case.name, {"peer": PeerAnswer(numbers, [True] * len(numbers)), "bare": PeerAnswer([], [False] * len(numbers))})
        )
    gathered = drift_peers.gather(drawn_cases, answers)
    counts = {kind: len(answer.alarms) for kind, answer in gathered["peer"].items()}
    every = dict.fromkeys(drift_peers.FAULTS, 2) | {drift_peers.THRESHOLD: 20, drift_peers.CLEAN: 4}
    assert counts == every | dict.fromkeys(drift_peers.DEPENDENT, 4)
    assert gathered["peer"][next(iter(drift_peers.FAULTS))].scores == [0.0, 0.0]
    assert not any(answer.scores for answer in gathered["bare"].values())


def test_a_drift_peer_that_ends_is_reported_after_its_answers(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    answer = json.dumps({"case": "correlated-0", "said": {"KS": [[0.5], [True]]}})
    python.write_text(f"#!/bin/sh\necho '{answer}'\necho no such module >&2\nexit 3\n")
    python.chmod(0o755)
    answers = ask(Peer(str(tmp_path), "Evidently", "drift_evidently", (), 1), tmp_path, tmp_path / "log")
    assert next(answers) == ("correlated-0", {"KS": PeerAnswer([0.5], [True])})
    with pytest.raises(PeerFailed, match=r"(?s)Evidently ended with 3.*no such module"):
        next(answers)


def test_the_cost_model_gives_back_what_runs_were_made_of():
    terms = {name: 0.1 + index for index, name in enumerate(costs.SIZES_TO_FIT[0].terms)}
    model = costs.fit(costs.SIZES_TO_FIT, [costs.predict(terms, size) for size in costs.SIZES_TO_FIT])
    assert model == pytest.approx(terms, rel=1e-6)
    # A run that is slower than its size says leaves no term below zero.
    seconds = [costs.predict(terms, size) + (9 if size.rows == 100 else 0) for size in costs.SIZES_TO_FIT]
    assert min(costs.fit(costs.SIZES_TO_FIT, seconds).values()) >= 0


def test_what_is_shown_was_not_fitted():
    assert not set(costs.SIZES_TO_PREDICT) & set(costs.SIZES_TO_FIT)

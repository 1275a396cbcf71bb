"""The sensor's polls of guarded tables whose newest version a catalog names. No JVM.

Belongs here: what a tick does with an answer, without one, and with an error. Does not: when the catalog is asked
(guards/test_catalog_poll), or the other ticks (test_guards).
"""

import json

import dagster as dg

from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.errors import SourceError
from lakehouse_assets.orchestration.healing import guard_sensor
from lakehouse_assets.sources.base import AnswerPending
from lakehouse_assets_tests.orchestration.test_guards import GUARD, project, tick


def test_a_catalog_that_has_not_answered_or_cannot_be_asked_holds_up_no_other_guard(tmp_path, monkeypatch):
    of_catalog = GUARD.replace("path: {path}", "table: {path}\n  format: iceberg")
    names = {name: of_catalog.format(name=name, path=f"ice.db.{name}", more="") for name in ("waits", "fails", "gone", "good")}
    settings = project(tmp_path, monkeypatch, **names)
    good = tmp_path / "m1.metadata.json"
    snapshot = {
        "snapshot-id": 5,
        "sequence-number": 1,
        "timestamp-ms": 0,
        "summary": {"operation": "append", "added-records": "1"},
    }
    metadata = {"format-version": 2, "table-uuid": "u", "snapshots": [snapshot], "current-snapshot-id": 5}
    metadata |= {"current-schema-id": 0, "schemas": [{"schema-id": 0, "fields": []}]}
    good.write_text(json.dumps(metadata))
    forgotten = []

    def answer(spec, *_):
        if spec.name == "waits":
            raise AnswerPending("Spark is asked")
        if spec.name == "fails":
            raise SourceError("fails: table: ice.db.fails: the catalog cannot be asked: refused")
        return spec.model_copy(update={"path": str(good if spec.name == "good" else tmp_path / "m2.metadata.json")})

    monkeypatch.setattr(guard_sensor, "located_for_poll", answer)
    monkeypatch.setattr(guard_sensor, "forget_answer", lambda spec, _: forgotten.append(spec.name))
    definitions = build_definitions(settings)
    with dg.instance_for_test() as instance:
        first = tick(definitions, instance)
        assert [request.job_name for request in first.run_requests] == ["guard_good_job"]
        texts = sorted(event.description for event in first.asset_events)
        assert texts == [
            "fails: table: ice.db.fails: the catalog cannot be asked: refused",
            "gone: the table ice.db.gone: the metadata file that the catalog named is gone",
        ]
        assert forgotten == ["gone"]
        assert not tick(definitions, instance, first.cursor).asset_events, "it is told once"

"""Control files beside a window's data: found, read, and part of its fingerprint.

Belongs here: the reader on a real folder. Does not: what may stand in one (checks), or the gate (layers).
"""

from pathlib import Path

from lakehouse_assets.sources import FilesReader
from lakehouse_assets_tests.sources.source_files import csv_source, day, land

SOURCE = csv_source(control="c/{window:%Y-%m-%d}.json")
DAYS = [day(1), day(2), day(3)]


def test_a_control_file_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    def prints() -> dict[int, str]:
        return {w.start.day: text for w, text in FilesReader(SOURCE, str(tmp_path)).fingerprints(DAYS).items()}

    land(tmp_path, "t/2024-03-01.csv", "a\n1\n")
    plain = prints()
    assert plain == {w.start.day: text for w, text in FilesReader(csv_source(), str(tmp_path)).fingerprints(DAYS).items()}
    land(tmp_path, "c/2024-03-01.json", '{"rows": 1}')
    with_control = prints()
    land(tmp_path, "c/2024-03-01.json", '{"rows": 12}')
    changed = prints()
    assert len({plain[1], with_control[1], changed[1]}) == 3
    # What the source says of a window that has no data does not make it arrive.
    land(tmp_path, "c/2024-03-02.json", '{"rows": 0}')
    assert prints() == changed


def test_control_files_give_totals(spark, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    for window in DAYS:
        land(landing, f"t/{window.key}.csv", "a\n1\n")
    land(landing, "c/2024-03-01.json", '{"rows": 1}')
    secret = land(tmp_path, "secret.json", '{"rows": 1}')
    (landing / "c" / "2024-03-03.json").symlink_to(secret)
    totals = FilesReader(SOURCE, str(landing)).read(spark, DAYS).control
    assert [(dict(totals[w].figures), totals[w].problem) for w in DAYS] == [
        ({"rows": 1.0}, ""),
        ({}, "there is no c/2024-03-02.json"),
        ({}, "unreadable control file c/2024-03-03.json: it is a link that leads out of the landing folder"),
    ]
    assert FilesReader(csv_source(), str(landing)).read(spark, DAYS).control == {}

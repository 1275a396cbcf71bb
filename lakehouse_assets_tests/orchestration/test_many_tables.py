"""A thousand tables in one `defs.yaml`: read, validated and turned into assets in a time that grows with their number alone.

Belongs here: the growth. Does not: what a table's YAML may say.
"""

import time

import pytest

from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration import validate
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.sources.landing import Landing

TABLE = """\
type: lakehouse_assets.LakehouseTable
attributes:
  name: t{number}
  source: {{kind: files, path: "t{number}/{{window:%Y-%m-%d}}.csv", format: csv}}
  extraction: {{cadence: daily, start: 2024-01-01, mode: upsert}}
  key: [sensor]
  columns: {{sensor: string, value: double}}
  checks:
    - {{check: in_range, column: value, min: 0, max: 10}}
    - {{check: foreign_key, columns: [sensor], table: t0}}
"""


@pytest.mark.exhaustive(seconds=40)
def test_a_thousand_tables_cost_what_their_number_costs(tmp_path, monkeypatch, settings):
    monkeypatch.syspath_prepend(tmp_path)
    seconds = {}
    for count in (250, 1000):
        package = f"many_{count}"
        folder = tmp_path / package / "tables" / "all"
        folder.mkdir(parents=True)
        first, *others = [TABLE.format(number=number) for number in range(count)]
        alone = "\n".join(line for line in first.splitlines() if "foreign_key" not in line)
        (folder / "defs.yaml").write_text("\n---\n".join([alone, *others]))
        start = time.process_time()
        tables = load_tables(folder.parent)
        build_definitions(settings, tables).get_repository_def()
        seconds[count] = time.process_time() - start
        assert len({table.spec.name for table in tables}) == count
    # Four times as many: sixteen times as long would be quadratic.
    assert seconds[1000] < 8 * seconds[250], seconds


def test_a_folder_of_many_tables_is_listed_once(tmp_path, monkeypatch, settings):
    monkeypatch.syspath_prepend(tmp_path)
    folder, landing = tmp_path / "shared_folder" / "tables" / "all", tmp_path / "shared_landing"
    for path in (folder, landing):
        path.mkdir(parents=True)
    texts = [TABLE.format(number=number).replace("/{window", "-{window").splitlines() for number in range(3)]
    (folder / "defs.yaml").write_text("\n---\n".join("\n".join(x for x in lines if "foreign_key" not in x) for lines in texts))
    for number in range(3):
        (landing / f"t{number}-2024-01-01.csv").touch()
    listed = []
    monkeypatch.setattr(
        Landing, "file_names", lambda self, name, names=Landing.file_names: listed.append(name) or names(self, name)
    )
    tables, at = load_tables(folder.parent), settings.model_copy(update={"landing": str(landing)})
    assert (validate._unclaimed_notes(tables, tables, at), listed) == ([], [""])
    (landing / "t9-2024-01-01.csv").touch()
    assert len(validate._unclaimed_notes(tables, tables, at)) == 1

"""Columns that a query over `batch` names and that nothing has: what is certainly wrong is found, and nothing else.

Belongs here: SQL over a whole batch, as text. Does not: running it (spec), or where the mistake is reported (orchestration).
"""

import pytest

from lakehouse_assets.checks.kinds.sql import Sql

COLUMNS = ["sensor", "hour", "value"]


def unknown(sql, columns=COLUMNS):
    check = Sql(check="sql", name="x", sql=sql)
    assert check.scope == "batch"
    return check.unknown_columns(columns)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select valeu from batch group by valeu having count(*) > 1", ["valeu"]),
        ("select sensor from batch group by sensor having max(valeu) > min(huor)", ["huor", "valeu"]),
        ("select b.valeu from batch b join batch c on b.sensor = c.sensor", ["valeu"]),
        ("select b.value from batch b join batch c on b.sensor = c.sensr", ["sensr"]),
        ("select batch.valeu, 1 from batch", ["valeu"]),
        ("select c.value, 1 from batch b", ["c.value"]),
        ("with means as (select sensor, avg(valeu) as mean from batch group by sensor) select * from means", ["valeu"]),
        ("with means as (select sensor, avg(value) as mean from batch group by sensor) select maen from means", ["maen"]),
        ("select * from (select sensor s from batch) t where t.z > 1", ["z"]),
        ("select * from batch where value > (select avg(valeu) from batch)", ["valeu"]),
        ("select * from batch b where exists (select 1 from batch c where c.sensor = b.sensr)", ["sensr"]),
        ("select *, row_number() over (partition by sensr order by hour) as n from batch", ["sensr"]),
        ("select exists(array(value), v -> v > valeu) as e from batch", ["valeu"]),
        ("select * from batch where hour >= :window_end and exists (select 1 from batch where nope = 1)", ["nope"]),
        # An alias of another part does not give the batch a column.
        ("select b.n from batch b join (select count(*) as n from batch) c", ["n"]),
    ],
)
def test_certain_column_mistakes_are_reported(sql, names):
    assert unknown(sql) == names


@pytest.mark.parametrize(
    "sql",
    [
        "select SENSOR, Batch.Value from BATCH group by all",
        "select sensor, count(*) as n from batch group by sensor having n > 1 order by n",
        "select value * 2 as double_value, double_value + 1 as more from batch",
        "select b.sensor from batch b join batch using (sensor, hour)",
        "with a as (select sensor as s from batch), b(x, y) as (select s, 1 from a) select x, b.y from b join a on a.s = b.x",
        "select t.s from (select sensor as s from batch) as t join batch t2 on t2.sensor = t.s",
        "select u, v from (select sensor, value from batch) as t(u, v)",
        "select x from batch as b(x, y, z)",
        "select b.x from batch as b(x, y, z)",
        "select * from batch where (sensor, hour) in (select sensor, max(hour) from batch group by sensor)",
        "select p_extracted_at, extraction_seq, _content_hash from batch group by all",
        "select sensor from batch group by sensor with cube having grouping__id = 1",
        "select filter(array(value), v -> v > hour) as f, aggregate(array(1), 0, (acc, x) -> acc + x) as a from batch",
        "select s.p, s.q.r from (select named_struct('p', 1, 'q', named_struct('r', 2)) as s from batch)",
        "select p from (select s.p from (select named_struct('p', 1) as s from batch))",
        "select s.* from (select named_struct('p', value) as s from batch) where p > 1",
        "select `count(1)` from (select count(1) from batch)",
        "select col from (select explode(array(value)) from batch)",
        "select t.z, sensor from batch lateral view explode(array(value)) t as z",
        "select z from batch, lateral (select value as z) t",
        "select c0 from (select json_tuple(sensor, 'a') from batch)",
        "select pos, col from (select posexplode(array(value)) from batch)",
        "select sum(value) over w as s from batch window w as (partition by sensor order by hour)",
        "select timestampdiff(hour, :window_start, :window_end) as h, extract(day from :window_start) as d from batch",
        "select 1 from batch, batch b",
        "select * from (select sensor from batch union select cast(hour as string) from batch) where sensor is null",
        "select max_by(sensor, value) filter (where hour > 1) as m from batch",
        "select b.value.x from batch b group by all",
    ],
)  # fmt: skip
def test_possibly_correct_columns_are_accepted(sql):
    assert unknown(sql) == []


def test_a_filter_lists_its_unknown_columns():
    check = Sql(check="sql", name="x", sql="select * from batch where valeu > 1")
    assert (check.scope, check.unknown_columns(COLUMNS)) == ("row", ["valeu"])

"""Gold SQL that Spark would refuse, or that would lose a column, is refused when it is loaded, with the line. Pure.

Belongs here: mistakes in a SELECT. Does not: what refuses commands and chance (test_hostile_sql), or deriving gold.
"""

import pytest

from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.errors import ConfigError

SCHEMA = {
    "silver_weather": {
        "origin": "string",
        "id": "bigint",
        "pressure": "double",
        "ts": "timestamp",
        "p_extracted_at": "timestamp",
    },
    "silver_stations": {"origin": "string", "name": "string", "p_extracted_at": "timestamp"},
}


def refused(sql: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_gold(sql, "x.sql", SCHEMA)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sql", "line", "expected"),
    [
        ("select origin\nfrom silver_weather group by origin\nhaving max(nope) > 1", 3, "'nope' could not be resolved"),
        ("select origin, count(*) as n\nfrom silver_weather group by 1 having nope > 1", 2, "'nope' could not be resolved"),
        ("select * except (p_extracted_at,\n nope) from silver_weather", 2, "'nope' could not be resolved"),
        ("select w.* except (\nnope) from silver_weather w", 2, "Unknown column: nope"),
        ("select * except (nope) from (select origin from silver_weather)", 1, "'nope' could not be resolved"),
        ("select\n * replace (1 as nope) from silver_weather", 2, "Spark has no `* replace"),
        ("select origin,\n pressure.nope from silver_weather", 2, "'pressure' is double and has no field 'nope'"),
        ("select origin,\n w.pressure.nope as x from silver_weather w", 2, "has no field 'nope'"),
        ("select origin,\n id,\n pressure as Origin\nfrom silver_weather", 3, "two columns are called 'origin'"),
        ("select origin,\n s.*\nfrom silver_stations s", 2, "two columns are called 'origin'"),
    ],
)
def test_sql_that_sqlglot_accepts_wrongly_is_refused(sql, line, expected):
    message = refused(sql)
    assert message.startswith(f"x.sql:{line}: ")
    assert expected in message


@pytest.mark.parametrize(
    ("sql", "line", "expected"),
    [
        ("select origin,\n to_date(ts) as day,\n pressure,\n ori as x\nfrom silver_weather", 4, "'ori'"),
        ("select origin, avg(pressure) as temp_c\nfrom silver_weather\nwhere id > 1\n and temp > 3 group by 1", 4, "'temp'"),
        ("select origin as nope,\n 1 as y,\n w.nope\nfrom silver_weather w", 3, "Unknown column: nope"),
        ("select s.name,\n w.name as other\nfrom silver_stations s, silver_weather w", 2, "Unknown column: name"),
        ("select w.id,\n origin\nfrom silver_weather w, silver_stations s", 2, "write whose it is, as silver_weather.origin"),
        ("-- silver_nope\nselect origin as silver_nope\nfrom silver_nope", 3, "no such table"),
        ("select origin,\n ts,\n rand() as r\nfrom silver_weather", 3, "another answer"),
        ("select origin,\n current_date as r\nfrom silver_weather", 2, "another answer"),
        ("select origin\nfrom silver_weather\nwhere origin rlike '(a+)+'", 3, "run for ever"),
        ("select origin\nfrom silver_weather\n tablesample (10 percent)", 3, "TABLESAMPLE"),
        ("select origin\nfrom silver_weather\nwhere origin = '${env:HOME}'", 3, "a setting in its place"),
        ("select origin\nfrom silver_weather\nwhere origin = 'it''s'", 3, "two strings side by side"),
    ],
)
def test_a_mistake_names_its_line(sql, line, expected):
    message = refused(sql)
    assert message.startswith(f"x.sql:{line}: ")
    assert expected in message


@pytest.mark.parametrize(
    ("sql", "line", "expected"),
    [
        ("select origin,\n id as _x\nfrom silver_weather", 2, "column '_x': p_extracted_at, extraction_seq and names"),
        ("select\n *\nfrom silver_weather", 2, "or leave it out of the star: `* except (p_extracted_at)`"),
        ("select origin,\n ts as P_Extracted_At\nfrom silver_weather", 2, "are reserved; give it another name"),
        ("select origin,\n id as extraction_seq\nfrom silver_weather", 2, "column 'extraction_seq': p_extracted_at,"),
        ("select origin,\n true as _clean\nfrom silver_weather", 2, "column '_clean'"),
        ("select origin,\n id as `a b`\nfrom silver_weather", 2, "Delta refuses spaces"),
        ("select origin,\n avg(id)\nfrom silver_weather group by 1", 2, "AVG(`silver_weather`.`id`) has no name"),
    ],
)
def test_a_column_that_gold_cannot_keep(sql, line, expected):
    message = refused(sql)
    assert message.startswith(f"x.sql:{line}: ")
    assert expected in message


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (
            "select origin, count(*) as n from silver_weather group by origin having n > 1 and max(pressure) > 1",
            ["origin", "n"],
        ),
        ("select origin, id + 1 as m from silver_weather group by all having M > 1", ["origin", "m"]),
        ("select origin, count(*) as n from silver_weather group by cube (origin) having grouping__id = 0", ["origin", "n"]),
        ("select * except (p_extracted_at, ID, w.ts) from silver_weather w", ["origin", "pressure"]),
        ("select w.* except (p_extracted_at, id), s.name from silver_weather w join silver_stations s using (origin)", None),
        ("select s.p from (select named_struct('p', id) as s from silver_weather)", ["p"]),
        ("select element_at(map('a', id), 'a') as x, map('a', id).a as y from silver_weather", ["x", "y"]),
        ("select origin from silver_weather group by origin having size(filter(array(1), v -> v > 1)) = 0", ["origin"]),
    ],
)
def test_valid_gold_sql_is_accepted(sql, columns):
    names = list(read_gold(sql, "x.sql", SCHEMA).types)
    assert columns is None or names == columns

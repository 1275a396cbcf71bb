"""The jars of a session: a person's beside ours.

Belongs here: names of jars. Does not: what fetches them (the set-up), or a store's (test_object_store).
"""

import doctest

from lakehouse_assets.storage import jars, session


def test_the_examples_of_names_hold():
    assert doctest.testmod(jars).failed == 0


def test_jars_of_a_person_are_added_to_ours():
    ours = "/jars/io.delta_delta-spark_4.1_2.13-4.4.0.jar,/jars/io.delta_delta-storage-4.4.0.jar"
    theirs = "/opt/iceberg-spark-runtime-4.1_2.13-1.12.0.jar, /opt/delta-spark_4.1_2.13-4.4.1.jar"
    assert jars.join_jars(ours, theirs) == [
        "/jars/io.delta_delta-storage-4.4.0.jar",
        "/opt/iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
        "/opt/delta-spark_4.1_2.13-4.4.1.jar",
    ]
    assert jars.join_jars("", "/opt/a-1.0.jar") == ["/opt/a-1.0.jar"]


def test_a_session_has_a_persons_jars_beside_ours(settings, tmp_path, monkeypatch):
    (tmp_path / "io.delta_delta-spark_4.1_2.13-4.4.0.jar").touch()
    monkeypatch.setattr(jars, "JARS", tmp_path)
    conf = tmp_path / "spark.conf"
    conf.write_text("spark.jars /opt/iceberg-spark-runtime-4.1_2.13-1.12.0.jar\n")
    paths = session.spark_properties(settings.model_copy(update={"spark_conf": conf}))["spark.jars"].split(",")
    assert (paths[0], paths[-1]) == (
        str(tmp_path / "io.delta_delta-spark_4.1_2.13-4.4.0.jar"),
        "/opt/iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
    )

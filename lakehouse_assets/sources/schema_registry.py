"""A schema registry by its REST protocol: the schema of an id, which never changes.

Belongs here: requests, credentials, and what an answer means. Does not: messages (avro_messages), or Kafka's own client.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import requests

from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import find_name_problem

SECONDS = 10
UNKNOWN_ID = 40403
PROPERTIES = ("basic.auth.user.info", "bearer.auth.token", "ssl.ca.location")


@dataclass(frozen=True)
class RegisteredSchema:
    """``text``: the schema as JSON, with its columns' ``names``; or ``problem``: why its messages cannot be decoded."""

    text: str = ""
    names: tuple[str, ...] = ()
    problem: str | None = None


# Schemas by registry and id, for as long as the process lives.
_CACHE: dict[tuple[str, int], RegisteredSchema] = {}


def fetch_schemas(url: str, ids: Iterable[int], settings: Settings) -> dict[int, RegisteredSchema]:
    """Return the schema of each id. Raises SourceError if the registry does not answer, or refuses to, so that the window is
    tried again; EnvironmentMissing and ConfigError for wrong properties. No error shows a secret.
    """
    options = _options(settings)
    schemas: dict[int, RegisteredSchema] = {}
    for number in sorted(ids):
        if (url, number) not in _CACHE:
            schema = _fetch(url, number, options)
            if schema.problem is not None and not schema.text:
                schemas[number] = schema  # unknown now: asked for again by the next read
                continue
            _CACHE[url, number] = schema
        schemas[number] = _CACHE[url, number]
    return schemas


def _options(settings: Settings) -> dict[str, object]:
    properties = settings.registry_properties()
    if unknown := sorted(properties.keys() - set(PROPERTIES)):
        accepted = ", ".join(f"schema.registry.{name}" for name in PROPERTIES)
        raise ConfigError(f"{settings.kafka_conf}: schema.registry.{unknown[0]}: a source accepts only {accepted}")
    options: dict[str, object] = {"timeout": SECONDS, "allow_redirects": False}
    if user := properties.get("basic.auth.user.info"):
        name, _, password = user.partition(":")
        options["auth"] = (name, password)
    if token := properties.get("bearer.auth.token"):
        options["headers"] = {"Authorization": f"Bearer {token}"}
    if authority := properties.get("ssl.ca.location"):
        if not Path(authority).is_file():
            raise EnvironmentMissing(f"{settings.kafka_conf}: schema.registry.ssl.ca.location: {authority} is not a file")
        options["verify"] = authority
    return options


def _fetch(url: str, number: int, options: Mapping[str, object]) -> RegisteredSchema:
    try:
        # A session without the environment's own credentials (`.netrc`) for this host.
        with requests.Session() as session:
            session.trust_env = False
            response = session.get(f"{url}/schemas/ids/{number}", **options)  # type: ignore[arg-type]
    except requests.exceptions.RequestException as error:
        raise SourceError(f"the schema registry {url} does not answer ({type(error).__name__}): schema {number}") from None
    try:
        answer = response.json()
    except requests.exceptions.JSONDecodeError:
        answer = None
    if isinstance(answer, dict) and response.status_code == 404 and answer.get("error_code") == UNKNOWN_ID:
        return RegisteredSchema(problem=f"the registry has no schema {number}")
    if response.status_code != 200 or not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise SourceError(f"the schema registry {url} answers {response.status_code} to the question for schema {number}")
    return _parsed(number, answer)


def _parsed(number: int, answer: Mapping[str, object]) -> RegisteredSchema:
    text = str(answer["schema"])
    kind = answer.get("schemaType") or "AVRO"
    problem, names = None, ()
    if kind != "AVRO":
        problem = f"schema {number} is {kind}, and not AVRO"
    elif answer.get("references"):
        problem = f"schema {number} refers to other schemas, which is not supported"
    else:
        names, problem = _columns(text)
        problem = problem and f"schema {number}: {problem}"
    return RegisteredSchema(text, names, problem)


def _columns(text: str) -> tuple[tuple[str, ...], str | None]:
    """Return the names of a record's fields, or why it is no record that bronze can have."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return (), "it is not JSON"
    fields = schema.get("fields") if isinstance(schema, dict) and schema.get("type") == "record" else None
    if not isinstance(fields, list) or not fields or not all(isinstance(field, dict) and "type" in field for field in fields):
        return (), "its values are no records with fields"
    names = tuple(str(field.get("name", "")) for field in fields)
    return names, find_name_problem(names)

"""The kinds of sources: the package's own, then those of extensions.

Belongs here: the union that parses `source:`. Does not: any kind.
"""

import re
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field

from lakehouse_assets.contracts.delta_source import DeltaSource
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.source_kind import SourceKind
from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.extensions import extensions

BUILT_IN: tuple[type[SourceKind], ...] = (FilesSource, JdbcSource, KafkaSource, DeltaSource, SparkTableSource)


@cache
def source_kinds() -> dict[str, type[SourceKind]]:
    """Return ``{kind: model}``. Raises ConfigError for an extension's model that is no whole kind, or whose name is taken."""
    models = {_name_of(model): model for model in BUILT_IN}
    sources = {name: model.__module__ for name, model in models.items()}
    for extension in extensions("sources"):
        own = [(name, member) for member in extension.members if (name := _name_of(member))]
        if not own:
            raise ConfigError(f"{extension.source}: it has no source kind: a class of SourceKind with `kind: Literal[…]`")
        for name, model in own:
            if name in models:
                raise ConfigError(
                    f"two kinds of sources are called {name!r}: in {sources[name]} and {extension.source}; rename one"
                )
            if why := _unfit_reason(name, model):
                raise ConfigError(f"{extension.source}: {model.__name__}: {why}")
            models[name], sources[name] = model, extension.source
    return {str(name): model for name, model in models.items()}


def _name_of(member: Any) -> str | None:
    if not isinstance(member, type) or not issubclass(member, SourceKind):
        return None
    annotation = member.__annotations__.get("kind")
    return get_args(annotation)[0] if get_origin(annotation) is Literal else None


def _unfit_reason(name: str, model: type[SourceKind]) -> str | None:
    """Return why an extension's model is no whole kind; None if it is."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", name):
        return f"kind {name!r}: lower-case letters, digits and _, at most 50"
    if missing := [key for key in ("nulls", "timezone") if key not in model.model_fields]:
        return f"it has no key {' and no '.join(missing)}, which casting needs"
    needed = ("medium", "location", "open_source")
    if missing := [each for each in needed if getattr(model, each, None) is getattr(SourceKind, each)]:
        return f"it defines no {' and no '.join(missing)}"
    return None


AnySource = Annotated[reduce(or_, source_kinds().values()), Field(discriminator="kind")]

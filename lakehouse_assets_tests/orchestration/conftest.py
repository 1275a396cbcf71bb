"""The fixture of the tests of mistakes in a `defs.yaml`."""

import pytest

from lakehouse_assets.orchestration.assets.project_tables import load_tables


@pytest.fixture
def load(tmp_path):
    """Load one table from text."""

    def loaded(text: str | bytes, **files: str):
        folder = tmp_path / "tables" / "readings"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "defs.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        for name, content in files.items():
            (folder / f"{name}.sql").write_text(content)
        return load_tables(folder.parent), folder / "defs.yaml"

    return loaded

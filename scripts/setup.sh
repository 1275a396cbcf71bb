#!/usr/bin/env bash
# Make the environment of this project in the folder given: Python packages from the lock, Delta's jars, DAGSTER_HOME.
# The file .ready in it says that it is whole, and is made last: a set-up that was killed is begun anew by the next one.
set -euo pipefail
venv=$1
here=$(cd "$(dirname "$0")/.." && pwd)

python=""
for candidate in python3.13 python3.12 python3.11 python3; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "Python 3.11, 3.12 or 3.13 is needed (Debian: apt-get install python3 python3-venv)" >&2; exit 3; }

java=${JAVA_HOME:+$JAVA_HOME/bin/java}
[ -n "$java" ] && [ -x "$java" ] || java=$(command -v java || true)
version=$([ -n "$java" ] && "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1 || true)
case "$version" in
  17 | 21) ;;
  *) echo "Java 17 or 21 is needed, found ${version:-none} (Debian: apt-get install openjdk-17-jre-headless; or set JAVA_HOME)" >&2; exit 3 ;;
esac

# One set-up at a time: what a killed one left running (pip, uv) ends before this one begins.
exec 9>"$venv.lock"
"$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
rm -rf "$venv.new"

install() { "$venv/bin/python" -m uv pip install --quiet --python "$venv/bin/python" "$@"; }

echo "setting up $venv ($("$python" --version), Java $version)"
if [ -e "$venv/.ready" ] && "$venv/bin/python" -c 'import pip, uv' 2>/dev/null; then
  # It stays as it is until all that the lock wants has been fetched: without a network nothing is lost.
  install --target "$venv.new" --require-hashes -r "$here/requirements.lock"
  rm -rf "$venv.new" "$venv/.ready"
else
  if [ -d "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(find "$venv/" -type f | head -n 1)" ]; then
    echo "$venv is no Python environment, and is not removed; name another folder, or remove it" >&2
    exit 3
  fi
  [ ! -e "$venv" ] || echo "an earlier set-up of $venv was ended before it was whole: making it anew"
  rm -rf "$venv"
  "$python" -m venv "$venv" || { echo "python3-venv is needed (Debian: apt-get install python3-venv)" >&2; exit 3; }
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
fi
install --require-hashes -r "$here/requirements.lock"
install --no-deps --editable "$here"
export LAKEHOUSE_PROJECT="$here"
echo "fetching Delta's jars"
"$venv/bin/python" -m lakehouse_assets.storage.session 2>/dev/null >/dev/null || "$venv/bin/python" -m lakehouse_assets.storage.session
echo "archiving what Java loads for each run"
"$venv/bin/python" "$here/scripts/archive_classes.py" >/dev/null 2>&1 || echo "no class archive: runs start without it, some seconds later"

# In the activated environment a plain `dagster dev` finds the instance.
grep -q DAGSTER_HOME "$venv/bin/activate" || printf '\nexport DAGSTER_HOME=%q\n' "$here" >>"$venv/bin/activate"
# The mark of a whole environment. Without it the next set-up makes a new one.
touch "$venv/.ready"

#!/usr/bin/env bash
# Make the environment of this project in the folder given: Python packages from the lock, Delta's jars, DAGSTER_HOME.
# A new one is made beside it, and moved into place once it is whole: until then the older one stays as it is.
# The file .ready in it says that it is whole. A set-up that was killed is begun anew by the next one.
set -euo pipefail
case "$1" in /*) venv=$1 ;; *) venv=$PWD/$1 ;; esac
new=$venv.new
replaced=$venv.replaced
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
# One that was killed between its two moves.
if [ ! -e "$venv" ] && [ -e "$replaced" ]; then mv "$replaced" "$venv"; fi
rm -rf "$new" "$replaced"

install() { "$new/bin/python" -m uv pip install --quiet --python "$new/bin/python" "$@"; }

echo "setting up $venv ($("$python" --version), Java $version)"
if [ -e "$venv/.ready" ] && "$venv/bin/python" -c 'import pip, uv' 2>/dev/null; then
  # With what a person installed besides, and the jars.
  mkdir "$new"
  cp -a "$venv/." "$new"
  rm "$new/.ready"
else
  if [ -d "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(find "$venv/" -type f | head -n 1)" ]; then
    echo "$venv is no Python environment, and is not replaced; name another folder, or remove it" >&2
    exit 3
  fi
  [ ! -e "$venv" ] || echo "an earlier set-up of $venv was ended before it was whole: making it anew"
  "$python" -m venv "$new" || { echo "python3-venv is needed (Debian: apt-get install python3-venv)" >&2; exit 3; }
  "$new/bin/python" -m pip install --quiet --disable-pip-version-check uv
fi
# Compiled at once: a first command, or an environment that nobody may write, does not wait for it.
install --compile-bytecode --require-hashes -r "$here/requirements.lock"
install --no-deps --editable "$here"
export LAKEHOUSE_PROJECT="$here"
echo "fetching Delta's jars"
"$new/bin/python" -m lakehouse_assets.storage.session 2>/dev/null >/dev/null || "$new/bin/python" -m lakehouse_assets.storage.session
# In the activated environment a plain `dagster dev` finds the instance: of this project, also in an environment that is a copy.
activate=$(grep -v '^export DAGSTER_HOME=' "$new/bin/activate")
printf '%s\n\nexport DAGSTER_HOME=%q\n' "$activate" "$here" >"$new/bin/activate"

# Its scripts name the folder that they were made in: the new one, or that of a project which was copied with its environment.
"$python" -c '
import os, re, sys
folder, home = map(os.fsencode, sys.argv[1:])
new, place = map(os.path.basename, (folder, home))  # activate has the name alone, for its prompt
found = re.search(rb"VIRTUAL_ENV=[\"\x27]?(/[^\"\x27\n]*)", open(folder + b"/bin/activate", "rb").read())
former = re.compile(rb"(?<![\w./-])" + re.escape(found[1] if found else home) + rb"(?![\w.-])")
for path in [folder + b"/pyvenv.cfg", *(file.path for file in os.scandir(folder + b"/bin") if file.is_file() and not file.is_symlink())]:
    text = open(path, "rb").read()
    own = former.sub(lambda _: home, text.replace(new, place))
    if own != text:
        open(path, "wb").write(own)
' "$new" "$venv"
# Whole, and older than the lock until the last step: make repeats a set-up that was killed before it.
touch -t 200001010000 "$new/.ready"
[ ! -e "$venv" ] || mv "$venv" "$replaced"
mv "$new" "$venv"
rm -rf "$replaced"

# Java looks where the archived classes are from: they are archived in place.
echo "archiving what Java loads for each run"
"$venv/bin/python" "$here/scripts/archive_classes.py" >/dev/null 2>&1 || echo "no class archive: runs start without it, some seconds later"
touch "$venv/.ready"

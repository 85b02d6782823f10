# Shared by the scripts in this folder: a virtual environment, the project in it, a C compiler.
# Source it; it changes to the repository root.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
VENV=.venv
RELAY_VENV=.venv-relay # TVM 0.19, whose package has the same name as the later one in $VENV

die() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

# Whether $1 is a Python that this project supports and that can make a virtual environment.
usable_python() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
    >/dev/null 2>&1
}

# Print the Python to build with: $PYTHON alone when it is set, else the first that fits.
find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    usable_python "$PYTHON" ||
      die "PYTHON=$PYTHON is not a Python 3.10 to 3.13 with the venv module; name another"
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    if usable_python "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "no Python 3.10 to 3.13 with the venv module was found;" \
    "install one (Debian: apt-get install python3 python3-venv) or set PYTHON=/path/to/python"
}

# Make the virtual environment where there is none, or where an earlier attempt was cut short.
ensure_venv() {
  local python
  if [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    return
  fi
  python=$(find_python) || exit 2
  echo "making $VENV with $("$python" --version)"
  "$python" -m venv --clear "$VENV"
}

# install_project EXTRA...: install the project, editable, unless the last installation still holds.
install_project() {
  local extras stamp state
  extras=$(IFS=,; printf '%s' "$*")
  ensure_venv
  stamp="$VENV/installed-$extras"
  state=$(project_state)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
    return
  fi
  echo "installing .[$extras] into $VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]" ||
    die "pip could not install .[$extras]; its message is above"
  printf '%s\n' "$state" >"$stamp"
}

# What an installation depends on: the project file, the folder and the Python.
project_state() {
  "$VENV/bin/python" - <<'PY'
import hashlib, os, sys
digest = hashlib.sha256(open("pyproject.toml", "rb").read()).hexdigest()
print(digest, os.getcwd(), sys.version.split()[0])
PY
}

# Kernels are emitted as C, so compiling a model needs a C compiler.
require_c_compiler() {
  local candidate
  for candidate in ${CC:-cc gcc clang}; do
    if command -v "$candidate" >/dev/null 2>&1; then
      return
    fi
    [ -z "${CC:-}" ] || break # the rest of $CC are options
  done
  die "no C compiler found (looked for: ${CC:-cc gcc clang}); install one" \
    "(Debian: apt-get install gcc libc6-dev) or set CC=/path/to/compiler"
}

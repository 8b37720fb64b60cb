#!/bin/sh
# Gathers in DIR what `benchmarks/accelerator.py` needs on a machine that has a checkout, torch and numpy, but no
# registry: wheels, two tokenizers and a script that runs it.
#
#     benchmarks/accelerator_kit.sh DIR            # here, after `make setup` (and `make tokenizers`)
#     DIR/run.sh [arguments of accelerator.py]     # there, in the root of the checkout
#
# PYTHON_VERSION (3.12) and MACHINE (x86_64) are those of the other machine.
set -eu
cd "$(dirname "$0")/.."
kit=${1:?"usage: benchmarks/accelerator_kit.sh DIR"}
python=${PYTHON:-.venv/bin/python}
machine=${MACHINE:-x86_64}
tokenizers=${GUIDED_TOKENIZERS:-$HOME/.cache/guided/tokenizers}
most=60 # MiB

mkdir -p "$kit"
rm -f "$kit"/*.whl
names=$("$python" - <<'EOF'
from importlib.metadata import requires, version

from packaging.requirements import Requirement

there = {"torch", "numpy"}
found: dict[str, str] = {}


def add(lines: list[str], extras: set[str]) -> None:
    for part in map(Requirement, lines):
        wanted = part.marker is None or any(part.marker.evaluate({"extra": extra}) for extra in extras)
        if wanted and part.name not in there and (part.name not in found or part.extras):
            found[part.name] = version(part.name)
            add(requires(part.name) or [], part.extras or {""})


add(["hypothesis", *(requires("guided-decoding") or [])], {""})  # benchmarks/loop.py takes wire formats from tests
print("\n".join(f"{name}=={number}" for name, number in sorted(found.items())))
EOF
)
platforms="--platform any"
for glibc in 2_17 2_24 2_26 2_27 2_28 2_31 2_34 2_35; do
  platforms="$platforms --platform manylinux_${glibc}_$machine"
done
# xgrammar is measured next to ours; without it its column is left out.
"$python" -m pip download --quiet --no-deps --only-binary=:all: --implementation cp \
  --python-version "${PYTHON_VERSION:-3.12}" $platforms --platform "manylinux2014_$machine" \
  --dest "$kit" $names xgrammar apache-tvm-ffi

parts=
for name in qwen3 smollm2; do
  if [ -f "$tokenizers/$name/tokenizer.json" ]; then parts="$parts $name"; else echo "no tokenizer $name: left out" >&2; fi
done
tar -C "$tokenizers" --exclude '*.gguf' -cJf "$kit/tokenizers.tar.xz" ${parts:---files-from /dev/null}

cat > "$kit/run.sh" <<'EOF'
#!/bin/sh
set -eu
kit=$(cd "$(dirname "$0")" && pwd)
site=${SITE:-$(mktemp -d)}
python3 -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$site" "$kit"/*.whl
mkdir -p "$site/tokenizers"
tar -C "$site/tokenizers" -xJf "$kit/tokenizers.tar.xz"
GUIDED_TOKENIZERS="$site/tokenizers" PYTHONPATH="$site" exec python3 benchmarks/accelerator.py "$@"
EOF
chmod +x "$kit/run.sh"
size=$(du -sm "$kit" | cut -f1)
echo "$kit: $(ls "$kit"/*.whl | wc -l) wheels, $size MiB"
if [ "$size" -gt "$most" ]; then echo "more than $most MiB" >&2; exit 1; fi

#!/bin/bash
# How the cost of commands grows with their work: processor seconds and memory against size, exponents fitted.
#   bench/growth/run.sh [--quick] [--limit SECONDS] [--most EXPONENT] [--json FILE] [ROW...]     (-h lists the rows)
# Builds what it needs in build/release. Without --json the table is also written to build/release/growth.json.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --build build/release --target tessera growth >&2
build/release/bin/growth --program build/release/bin/tessera --json build/release/growth.json "$@"

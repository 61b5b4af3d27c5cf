#!/usr/bin/env bash
# Prints the revision before the change at hand: where this branch left origin/main. On main itself, where nobody can know what
# was looked at before, the newest commit that is a day older than its tip, or the first commit there is.
set -euo pipefail
tip=$(git rev-parse HEAD)
since=$(git merge-base HEAD origin/main 2>/dev/null || true)
if [ -z "$since" ] || [ "$since" = "$tip" ]; then
  since=$(git rev-list -1 --min-age="$(($(git show -s --format=%ct HEAD) - 86400))" HEAD)
fi
if [ -z "$since" ]; then since=$(git rev-list --max-parents=0 HEAD | tail -1); fi
echo "$since"

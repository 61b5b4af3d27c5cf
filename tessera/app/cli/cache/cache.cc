// tessera cache: the kernels and prepared models that earlier runs left on disk.
#include <cstdio>
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

int show(bool json) {
  const auto cache = kernel::user_kernel_cache();
  if (json) {
    const DiskCache::Usage usage = cache ? cache->disk().usage() : DiskCache::Usage{};
    print_json({{"folder", cache ? Json(cache->disk().folder()) : nullptr},
                {"entries", usage.entries},
                {"bytes", usage.bytes},
                {"limit_bytes", cache ? cache->disk().limit_bytes() : 0}});
  } else if (!cache) {
    fmt::print("no cache: TESSERA_CACHE=off, or no home folder\n");
  } else {
    const DiskCache::Usage usage = cache->disk().usage();
    fmt::print("{}: {} entries, {:.1f} of at most {:.1f} MB\n", cache->disk().folder(),
               usage.entries, static_cast<double>(usage.bytes) * 1e-6,
               static_cast<double>(cache->disk().limit_bytes()) * 1e-6);
  }
  return kOk;
}

int clear() {
  const auto cache = kernel::user_kernel_cache();
  if (!cache) return kOk;
  const Result<void> cleared = cache->disk().clear();
  return cleared.ok() ? kOk : report(cleared.error());
}

}  // namespace

void add_cache(Flags& app, std::function<int()>* run) {
  Flags* cache = app.add_subcommand("cache", "Show or clear what is kept from earlier runs");
  cache->footer(
      "Examples:\n  tessera cache show\n  tessera cache clear\n"
      "run and bench keep the kernels that they build, and run the model with its prepared\n"
      "weights, in $TESSERA_CACHE, else in tessera/ of $XDG_CACHE_HOME or ~/.cache; what was\n"
      "used least recently goes when they take more than $TESSERA_CACHE_MB, else than a quarter\n"
      "of the free space of the disk or 4 GiB. A model takes at most half of that, or is not\n"
      "kept. TESSERA_CACHE=off keeps none.");
  cache->require_subcommand(1, 1);
  const auto json = std::make_shared<bool>(false);
  Flags* shown = cache->add_subcommand("show", "Where they are, how many, how large");
  shown->add_flag("--json", *json, "Print JSON");
  shown->callback([json, run] { *run = [json] { return show(*json); }; });
  cache->add_subcommand("clear", "Remove all of them")->callback([run] { *run = clear; });
}

}  // namespace tessera::cli

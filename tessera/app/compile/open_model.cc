#include "tessera/app/compile/open_model.h"

#include <algorithm>

#include "tessera/app/compile/decide_model.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/model_name.h"

namespace tessera::app {
namespace {

// Empty: such a model is not kept.
std::string key_of(ModelSource& source, const CompileOptions& options,
                   const runtime::Device* device) {
  const bool here = !device || device->features().in_process;
  const bool judged = options.cost_model != kNoModel || options.language != kNoModel;
  if (!options.cache || !here || judged || options.import.builder.evaluate) return "";
  if (source.identity().empty()) return "";
  return kernel::KernelCache::key(options.target, {},
                                  "model " + source.identity() + compile_digest(options), "");
}

// Whose weights they are: programs of one file share them, and so do built-in networks.
std::string owner_of(ModelSource& source) {
  return is_built_in(source.spec()) ? "Tessera" : source.identity();
}

// Why a model is not kept, and what changes that.
std::string not_kept(const exec::Kept& kept) {
  const auto gigabytes = [](std::int64_t bytes) {
    return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
  };
  const std::string fact = fmt::format(
      "the prepared model takes {} and is not kept: the next start will take as long as this one; ",
      gigabytes(kept.bytes));
  if (kept.bytes > kept.of_cache) {
    // Half a limit for one model, and some for its kernels.
    const std::int64_t megabytes = (exec::kPartOfCache * kept.bytes >> 20) + 64;
    return fact + fmt::format("the cache has room for models of {}; TESSERA_CACHE_MB={} is enough",
                              gigabytes(kept.of_cache), megabytes);
  }
  return fact +
         fmt::format("its disk has room for models of {}; TESSERA_CACHE=FOLDER takes another",
                     gigabytes(kept.of_disk));
}

bool unchanged(const exec::PreparedModel::Source& source) {
  return file_digest(source.path) == source.digest;
}

// For the next start. A cache that cannot be written is as good as none, and so is one that may
// hold nothing.
void keep(const std::string& key, const std::string& owner, const CompileOptions& options,
          const std::vector<runtime::Binary>& code, exec::PreparedModel* model) {
  const DiskCache& disk = options.cache->disk();
  const Result<exec::Kept> kept = exec::store_prepared(disk, key, owner, *model, code);
  if (kept.ok() && !kept->kept() && disk.limit_bytes() > 0 && options.note)
    options.note(not_kept(*kept));
}

}  // namespace

Result<exec::PreparedModel> prepare_model(ModelSource& source, const CompileOptions& options,
                                          runtime::Device* device) {
  const std::string key = key_of(source, options, device);
  if (!key.empty()) {
    std::optional<exec::PreparedModel> found =
        exec::find_prepared(options.cache->disk(), key, owner_of(source), options.target);
    if (found && std::ranges::all_of(found->sources, unchanged)) {
      for (const std::string& w : found->warnings) {
        if (options.import.warn) options.import.warn(w);
      }
      return std::move(*found);
    }
  }
  exec::PreparedModel out;
  CompileOptions how = options;
  how.import.warn = [&](const std::string& w) {
    out.warnings.push_back(w);
    if (options.import.warn) options.import.warn(w);
  };
  TESSERA_TRY(DecidedModel decided, decide_model(source, how));
  decided.build.device = device;
  std::vector<runtime::Binary> code;
  TESSERA_TRY(out.model,
              exec::compile_with_code(std::move(decided.graph), decided.tasks, options.target,
                                      decided.build, key.empty() ? nullptr : &code));
  // What a plan lacks is told each time, by those who ask it.
  const bool whole = !options.plan || options.plan->missing().empty();
  // A file that changed while it was read is kept under no name.
  if (key.empty() || !whole || source.changed()) return out;
  if (auto sources = source.sources()) {
    out.sources = std::move(*sources);
    keep(key, owner_of(source), options, code, &out);
  }
  return out;
}

Result<OpenModel> open_model(ModelSource& source, const CompileOptions& options) {
  OpenModel out;
  TESSERA_TRY(out.device, runtime::open_device(options.target.kind,
                                               {.threads = options.target.code_threads()}));
  TESSERA_TRY(out.prepared, prepare_model(source, options, out.device.get()));
  return out;
}

}  // namespace tessera::app

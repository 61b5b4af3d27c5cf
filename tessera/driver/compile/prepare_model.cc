#include "tessera/driver/compile/prepare_model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "tessera/onnx/model_files.h"
#include "tessera/support/byte_stream.h"
#include "tessera/support/checksum.h"
#include "tessera/support/mapped_file.h"

namespace tessera::driver {
namespace {

using Source = exec::PreparedModel::Source;

bool is_built_in(const std::string& spec) { return spec.starts_with("zoo:"); }

// Empty: it cannot be read.
std::string file_digest(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return "";
  return Checksum::of(file->bytes()).digest();
}

std::string identify(const std::string& spec) {
  if (spec.empty() || is_built_in(spec)) return spec;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(spec, error);
  const std::string digest = error ? "" : file_digest(path.string());
  return digest.empty() ? "" : fmt::format("file {} {}", path.string(), digest);
}

void write_import(ByteWriter& key, const onnx::ImportOptions& import) {
  for (const auto& [name, shape] : import.shapes) {
    key.text("shape " + name);
    key.text(to_text(shape));
  }
  for (const auto& [name, size] : import.symbols) {
    key.text("dim " + name);
    key.number(size);
  }
  for (const auto& [name, tensor] : import.values) {
    key.text("value " + name);
    key.text(to_text(graph::TensorType{tensor.dtype(), tensor.shape()}));
    key.text({static_cast<const char*>(tensor.data()), tensor.bytes()});
  }
  for (const auto& [name, text] : import.literals) {
    key.text("literal " + name);
    key.text(text);
  }
  key.text("import");
  key.number(import.assumed_size.value_or(-1));
  key.number(import.override_declared ? 1 : 0);
  key.number(import.builder.fold_limit);
  key.number(import.max_nodes);
  key.number(import.max_loop_steps);
  key.number(import.unrolled_nodes);
}

void write_passes(ByteWriter& key, const graph::PassOptions& passes) {
  const plan::Rules& r = passes.rules;
  key.text(fmt::format("stop {} skip {} reassociate {} floats {}", passes.stop_after,
                       fmt::join(passes.skip, " "), passes.allow_reassociation,
                       to_text(passes.floats)));
  key.text(fmt::format("rules {} {} {} {} {} {} {} {} {} {} {} {}", r.winograd,
                       r.winograd_min_channels, r.winograd_min_size, r.winograd_depth,
                       r.winograd_windows, r.winograd_transposed, r.flops_per_byte,
                       r.pointwise_as_product, r.merge_contractions, r.slices_in_place,
                       r.attention_keys, r.moves_inside));
}

// Empty: such a model is not kept.
std::string key_of(ModelSource& source, const PrepareOptions& options) {
  const exec::ModelOptions& build = options.build;
  const bool told = options.load.passes.print_after.empty();
  const bool decided = options.load.passes.decider || build.partition.decider || build.schedule;
  if (!build.cache || !told || decided || options.load.import.builder.evaluate) return "";
  if (source.identity().empty()) return "";
  ByteWriter key;
  key.text(source.identity());
  write_import(key, options.load.import);
  write_passes(key, options.load.passes);
  key.text(fmt::format("optimize {} fuse {} {} {} {}", options.load.optimize, build.partition.fuse,
                       build.partition.max_nodes, build.partition.attention_keys,
                       build.partition.moves_inside));
  if (options.plan) {
    key.text(options.plan->strict() ? "strict" : "plan");
    key.text(plan::to_json(options.plan->plan()));
  }
  return kernel::KernelCache::key(options.target, build.codegen, "model " + key.bytes(), "");
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

bool unchanged(const Source& source) { return file_digest(source.path) == source.digest; }

}  // namespace

Result<const onnx::Model*> ModelSource::model() {
  if (!model_) {
    std::error_code error;
    const bool is_file = !is_built_in(spec_) && std::filesystem::is_regular_file(spec_, error);
    beside_.clear();
    model_ = is_file ? onnx::load_model_files(spec_, &beside_) : load_onnx(spec_);
  }
  if (!model_->ok()) return model_->error();
  return &**model_;
}

void ModelSource::forget() {
  if (!spec_.empty()) model_.reset();
}

const std::string& ModelSource::identity() {
  if (!identity_) identity_ = identify(spec_);
  return *identity_;
}

bool ModelSource::changed() const { return identity_ && *identity_ != identify(spec_); }

std::optional<std::vector<Source>> ModelSource::sources() const {
  std::vector<Source> out;
  for (const std::string& path : beside_) {
    out.push_back({path, file_digest(path)});
    if (out.back().digest.empty()) return std::nullopt;
  }
  return out;
}

Result<exec::PreparedModel> prepare_model(ModelSource& source, const PrepareOptions& options) {
  const std::string key = key_of(source, options);
  if (!key.empty()) {
    std::optional<exec::PreparedModel> found =
        exec::find_prepared(options.build.cache->disk(), key, options.target);
    if (found && std::ranges::all_of(found->sources, unchanged)) {
      for (const std::string& w : found->warnings) {
        if (options.load.import.warn) options.load.import.warn(w);
      }
      return std::move(*found);
    }
  }
  exec::PreparedModel out;
  LoadOptions load = options.load;
  load.import.warn = [&](const std::string& w) {
    out.warnings.push_back(w);
    if (options.load.import.warn) options.load.import.warn(w);
  };
  exec::ModelOptions build = options.build;
  build.partition.follow(load.passes.rules);
  if (options.plan) {
    options.plan->apply_to(&load);
    options.plan->apply_to(&build);
  }
  TESSERA_TRY(const onnx::Model* model, source.model());
  // The passes replace weights: those of the model go first.
  const bool optimize = std::exchange(load.optimize, false);
  TESSERA_TRY(graph::Graph graph, load_graph(*model, load));
  source.forget();
  if (optimize) TESSERA_DO(graph::optimize(graph, load.passes));
  TESSERA_DO(exec::check_memory(graph));
  TESSERA_TRY(const task::TaskGraph tasks, task::extract_tasks(graph, build.partition));
  std::vector<runtime::Binary> code;
  TESSERA_TRY(out.model, exec::compile_with_code(std::move(graph), tasks, options.target, build,
                                                 key.empty() ? nullptr : &code));
  // What a plan lacks is told each time, by those who ask it.
  const bool whole = !options.plan || options.plan->missing().empty();
  // A file that changed while it was read is kept under no name.
  if (key.empty() || !whole || source.changed()) return out;
  if (auto sources = source.sources()) {
    out.sources = std::move(*sources);
    const DiskCache& disk = options.build.cache->disk();
    // A cache that cannot be written is as good as none, and so is one that may hold nothing.
    const Result<exec::Kept> kept = exec::store_prepared(disk, key, out, code);
    if (kept.ok() && !kept->kept() && disk.limit_bytes() > 0 && options.note) {
      options.note(not_kept(*kept));
    }
  }
  return out;
}

}  // namespace tessera::driver

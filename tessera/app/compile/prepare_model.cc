#include "tessera/app/compile/prepare_model.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "tessera/frontend/onnx/model_files.h"
#include "tessera/support/byte_stream.h"
#include "tessera/support/checksum.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/model_name.h"

namespace tessera::app {
namespace {

using Source = exec::PreparedModel::Source;

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

// The key of a model, out of every member of its options: each function names all members of its
// struct, so that one more does not compile before somebody says whether code follows from it.
class Key {
 public:
  explicit Key(const std::string& identity) { add(identity); }
  std::string take() const { return writer_.bytes(); }

  template <class... T>
  void operator()(const T&... values) {
    (add(values), ...);
  }

  void add(bool value) { writer_.number(value ? 1 : 0); }
  void add(int value) { writer_.number(value); }
  void add(std::int64_t value) { writer_.number(value); }
  void add(double value) { writer_.text(fmt::format("{}", value)); }
  void add(DType value) { writer_.text(to_text(value)); }
  void add(const std::string& value) { writer_.text(value); }
  void add(const Shape& value) { writer_.text(to_text(value)); }
  void add(const HostTensor& tensor) {
    writer_.text(to_text(graph::TensorType{tensor.dtype(), tensor.shape()}));
    writer_.text({static_cast<const char*>(tensor.data()), tensor.bytes()});
  }
  void add(const std::vector<std::string>& values) {
    writer_.number(static_cast<std::int64_t>(values.size()));
    for (const std::string& value : values) add(value);
  }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class T>
  void add(const std::map<std::string, T>& values) {
    writer_.number(static_cast<std::int64_t>(values.size()));
    for (const auto& [name, value] : values) (*this)(name, value);
  }

  void add(const onnx::ImportOptions& import) {
    const auto& [shapes, symbols, assumed_size, values, literals, override_declared, builder, warn,
                 max_nodes, max_loop_steps, unrolled_nodes] = import;
    const auto& [evaluate, fold_limit] = builder;
    (void)warn, (void)evaluate;  // key_of refuses the latter
    (*this)(shapes, symbols, assumed_size, values, literals, override_declared, fold_limit,
            max_nodes, max_loop_steps, unrolled_nodes);
  }
  void add(const plan::Rules& rules) {
    const auto& [winograd, min_channels, min_size, depth, windows, transposed, flops_per_byte,
                 pointwise_as_product, merge_contractions, slices_in_place, moves_inside,
                 attention_keys, split_products, split_rows, split_columns] = rules;
    (*this)(winograd, min_channels, min_size, depth, windows, transposed, flops_per_byte,
            pointwise_as_product, merge_contractions, slices_in_place, moves_inside, attention_keys,
            split_products, split_rows, split_columns);
  }
  void add(const graph::PassOptions& passes) {
    const auto& [print_after, stop_after, skip, verify, allow_reassociation, floats, shapes_only,
                 rules, decider] = passes;
    (void)print_after, (void)verify, (void)decider;
    (*this)(stop_after, skip, allow_reassociation, floats, shapes_only, rules);
  }
  void add(const LoadOptions& load) {
    const auto& [import, passes, optimize, integer_products, cache] = load;
    (void)cache;
    (*this)(import, passes, optimize, integer_products);
  }
  void add(const task::PartitionOptions& partition) {
    const auto& [fuse, max_nodes, attention_keys, moves_inside, decider] = partition;
    (void)decider;
    (*this)(fuse, max_nodes, attention_keys, moves_inside);
  }

 private:
  ByteWriter writer_;
};

// Empty: such a model is not kept.
std::string key_of(ModelSource& source, const PrepareOptions& options) {
  const exec::ModelOptions& build = options.build;
  const bool told = options.load.passes.print_after.empty();
  const bool decided = options.load.passes.decider || build.partition.decider || build.schedule;
  if (!build.cache || !told || decided || options.load.import.builder.evaluate) return "";
  if (source.identity().empty()) return "";
  Key key(source.identity());
  key(options.load, build.partition);
  if (options.plan) key(options.plan->strict(), plan::to_json(options.plan->plan()));
  return kernel::KernelCache::key(options.target, build.codegen, "model " + key.take(), "");
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

}  // namespace tessera::app

#include "tessera/backend/artifact/compile_artifact.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "tessera/backend/artifact/cmake_config.h"
#include "tessera/backend/artifact/device_code.h"
#include "tessera/backend/artifact/digest.h"
#include "tessera/backend/artifact/embedded_files.h"
#include "tessera/backend/artifact/header_text.h"
#include "tessera/backend/artifact/host_call.h"
#include "tessera/backend/artifact/model_program.h"
#include "tessera/backend/artifact/object_linker.h"
#include "tessera/backend/artifact/program_tables.h"
#include "tessera/backend/artifact/staging_folder.h"
#include "tessera/backend/artifact/toolchain.h"
#include "tessera/backend/artifact/weights.h"
#include "tessera/machine/target/features.h"
#include "tessera/support/check.h"
#include "tessera/support/clock.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/model_name.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
std::string model_digest(const graph::Graph& graph) {
  std::string text = graph::to_text(graph);
  for (const graph::Value& v : graph.values) {
    if (v.is_constant) {
      text += to_hex(tessera_artifact_digest(v.constant.data(), v.constant.bytes()));
    }
  }
  return to_hex(hash_bytes(text));
}

std::string library_name(const std::string& name, Emit emit) {
  if (emit == Emit::kShared) return fmt::format("lib{}.so", name);
  return emit == Emit::kStatic ? fmt::format("lib{}.a", name) : name + ".o";
}

bool embed(WeightsPlace place, std::int64_t bytes) {
  return place == WeightsPlace::kEmbedded || bytes == 0 ||
         (place == WeightsPlace::kAuto && bytes < kEmbedLimit);
}

Result<void> check_embedded(std::int64_t bytes, const ArtifactOptions& options) {
  if (!embed(options.weights, bytes) || bytes <= options.most_embedded) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "{:.2f} GB of weights do not fit into a library, which holds at most {:.2f} "
                    "GB; write them beside it: --weights file",
                    static_cast<double>(bytes) * 1e-9,
                    static_cast<double>(options.most_embedded) * 1e-9);
}

// What an artifact exports, by the names of its C runtime.
std::map<std::string, std::string> exports_of(const Metadata& m) {
  std::vector<std::string> entries = {"api",  "close", "info",       "memory_bytes",
                                      "open", "run",   "run_tensors"};
  if (!target::row_of(m.device).launches)
    entries.insert(entries.end(), {"open_variant", "variant"});
  std::map<std::string, std::string> out;
  for (const std::string& entry : entries)
    out["tsr_entry_" + entry] = fmt::format("{}_{}", m.name, entry);
  return out;
}

// A model, the code of its kernels and what a machine needs to run it.
struct Variant {
  ModelProgram program;
  Metadata metadata;
  std::string symbols;  // prefix of the kernels'
};

// What is true of all of them.
Metadata describe_all(const std::vector<Variant>& variants) {
  Metadata all = variants[0].metadata;
  if (variants.size() == 1) return all;
  all.features = variants.back().metadata.features;
  std::string digests;
  for (const Variant& v : variants) {
    const Metadata& m = v.metadata;
    all.arena_bytes = std::max(all.arena_bytes, m.arena_bytes);
    all.shared_bytes = std::max(all.shared_bytes, m.shared_bytes);
    all.worker_bytes = std::max(all.worker_bytes, m.worker_bytes);
    digests += m.plan_digest + "\n";
  }
  all.plan_digest = to_hex(hash_bytes(digests));
  return all;
}

std::string_view view(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The steps of compile_artifact that write into one folder.
class Builder {
 public:
  Builder(const std::string& folder, const ArtifactOptions& options, const target::Target& target)
      : folder_(folder),
        options_(options),
        target_(library_target(target)),
        linker_(target_.arch),
        image_(&linker_) {}

  Result<Metadata> build(std::vector<Variant>& variants, Metadata m, ArtifactReport* report) {
    Linker cc;
    if (options_.emit == Emit::kShared) {
      TESSERA_TRY(cc, find_linker(target_, options_.cc));
    }
    const std::string_view runtime = runtime_object(m.device, target_.arch);
    if (runtime.empty()) {
      return make_error(ErrorCode::kUnavailable,
                        "this tessera was built without a C compiler for {}; build it with one "
                        "(Debian, Ubuntu: clang)",
                        target_.triple);
    }
    TESSERA_DO(linker_.add(runtime));
    const Clock::time_point start = Clock::now();
    if (variants[0].program.model.target.row().launches) {
      TESSERA_TRY(code_,
                  make_device_code(variants[0].program.binaries, building_threads(options_.model)));
      m.code = code_->kinds;
    } else {
      for (Variant& v : variants) TESSERA_DO(add_kernels(v.program, &v.metadata));
    }
    report->code_ms = milliseconds_since(start);
    m = with_sizes(variants, std::move(m));
    TESSERA_TRY(const std::vector<Weights> weights, place_weights(variants, &m, report));
    const Clock::time_point link_start = Clock::now();
    const std::string json = to_json(m);
    TESSERA_DO(write_file(folder_ + "/" + m.name + ".h", {header_text(m)}));
    TESSERA_DO(write_file(folder_ + "/" + m.name + ".json", {json}));
    TESSERA_DO(write_file(folder_ + "/" + cmake_config_name(m), {cmake_config_text(m)}));
    metadata_text_ = json + '\0';
    add_tables(variants, m, weights);
    TESSERA_DO(write_library(m, cc));
    report->link_ms = milliseconds_since(link_start);
    return m;
  }

 private:
  Result<void> add_kernels(const ModelProgram& program, Metadata* m) {
    for (const runtime::Binary& kernel : program.binaries) {
      m->shared_bytes = std::max(m->shared_bytes, kernel.kernels[0].shared_bytes);
      m->worker_bytes = std::max(m->worker_bytes, kernel.kernels[0].worker_bytes);
      TESSERA_DO(linker_.add(view(kernel.bytes)));
    }
    for (const exec::CompiledModel::Step& step : program.model.steps) {
      if (step.kind == task::GroupKind::kKernel) continue;
      TESSERA_TRY(const HostCall call, host_call(step));
      m->shared_bytes = std::max(m->shared_bytes, call.scratch_bytes);
    }
    return {};
  }

  // Once the kernels are known.
  static Metadata with_sizes(const std::vector<Variant>& variants, Metadata m) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const Metadata& one = variants[i].metadata;
      m.shared_bytes = std::max(m.shared_bytes, one.shared_bytes);
      m.worker_bytes = std::max(m.worker_bytes, one.worker_bytes);
      if (m.variants.empty()) continue;
      m.variants[i].shared_bytes = one.shared_bytes;
      m.variants[i].worker_bytes = one.worker_bytes;
    }
    return m;
  }

  Result<std::vector<Weights>> place_weights(const std::vector<Variant>& variants, Metadata* m,
                                             ArtifactReport* report) {
    const std::string file = m->name + ".safetensors", path = folder_ + "/" + file;
    std::vector<const exec::CompiledModel*> models;
    std::int64_t separate = 0;
    for (const Variant& v : variants) {
      models.push_back(&v.program.model);
      for (const HostTensor& t : v.program.model.constants)
        separate += static_cast<std::int64_t>(t.bytes());
    }
    TESSERA_TRY(std::vector<Weights> weights, write_shared_weights(models, path));
    const std::int64_t bytes = weights[0].bytes;
    if (models.size() > 1) report->shared_weights = std::max<std::int64_t>(0, separate - bytes);
    m->weights_bytes = bytes;
    m->weights_digest = to_hex(weights[0].digest);
    // A constant that was packed in several orders counts as often.
    if (bytes > 0) TESSERA_DO(check_embedded(bytes, options_));
    if (!embed(options_.weights, models.size() > 1 ? bytes : models[0]->constant_bytes)) {
      m->weights_file = file;
    } else if (bytes > 0) {
      TESSERA_TRY(weights_, MappedFile::open(path));
      std::error_code error;
      fs::remove(path, error);
    }
    return weights;
  }

  ObjectLinker::Address add_blob(const std::string& section, std::uint64_t alignment,
                                 std::string_view bytes) {
    const std::size_t number = linker_.add_section(section, alignment);
    linker_.fill(number, bytes);
    return {number, 0};
  }

  void add_tables(std::vector<Variant>& variants, const Metadata& m,
                  const std::vector<Weights>& weights) {
    constexpr std::uint64_t kAlignment = 64;
    const ModelProgram& program = variants[0].program;
    TableParts parts{m, program.model, weights[0], add_blob(".tessera", 1, metadata_text_)};
    if (weights_) parts.embedded = add_blob(".rodata.weights", kAlignment, weights_->bytes());
    if (code_) {
      std::optional<ObjectLinker::Address> code;
      if (!code_->bytes.empty()) code = add_blob(".rodata.code", kAlignment, code_->bytes);
      add_device_program(parts, make_device_program(program, *code_, weights[0]), code, &image_,
                         &linker_);
    } else {
      std::vector<TableParts> each;
      for (std::size_t i = 0; i < variants.size(); ++i) {
        Metadata& one = variants[i].metadata;
        // Their weights lie in one place.
        one.weights_bytes = m.weights_bytes;
        one.weights_digest = m.weights_digest;
        one.weights_file = m.weights_file;
        each.push_back({one, variants[i].program.model, weights[i], parts.json, parts.embedded,
                        variants[i].symbols});
      }
      add_programs(each, parts, &image_, &linker_);
    }
    image_.finish();
  }

  Result<void> write_library(const Metadata& m, const Linker& cc) {
    const std::map<std::string, std::string> exports = exports_of(m);
    TESSERA_TRY(const std::vector<std::string_view> object, linker_.finish(exports));
    const std::string library = folder_ + "/" + m.library;
    if (options_.emit == Emit::kObject) return write_file(library, object);
    if (options_.emit == Emit::kStatic) {
      std::vector<std::string> symbols;
      symbols.reserve(exports.size());
      for (const auto& [entry, name] : exports) symbols.push_back(name);
      std::deque<std::string> texts;
      return write_file(library, archive_of(object, symbols, &texts));
    }
    const std::string file = m.name + ".o";
    TESSERA_DO(write_file(folder_ + "/" + file, object));
    TESSERA_DO(link_library(cc, folder_, file, m.library, target::row_of(m.device).link_flag));
    std::error_code error;
    fs::remove(folder_ + "/" + file, error);
    return {};
  }

  const std::string& folder_;
  const ArtifactOptions& options_;
  const target::Target& target_;
  // What the linker refers to stands before it.
  std::optional<DeviceCode> code_;     // of targets whose code a driver launches
  std::optional<MappedFile> weights_;  // that are embedded; the file itself is gone
  std::string metadata_text_;
  ObjectLinker linker_;
  DataImage image_;
};

}  // namespace

namespace {

// The most demanding first. What others need besides an order of their own is not compared: of two
// that a machine fits, the one with more features is taken.
Result<void> put_in_order(std::vector<ArtifactVariant>* variants) {
  const auto needs = [](const ArtifactVariant& v) {
    return target::present_features(v.target.features);
  };
  std::ranges::stable_sort(*variants, [&](const ArtifactVariant& a, const ArtifactVariant& b) {
    return needs(a).size() > needs(b).size();
  });
  if (variants->size() == 1) return {};
  for (std::size_t i = 0; i < variants->size(); ++i) {
    const ArtifactVariant &one = (*variants)[i], &first = (*variants)[0];
    if (one.target.row().launches || one.target.triple != first.target.triple) {
      return make_error(ErrorCode::kInvalidArgument,
                        "variants of one artifact are for processors of one architecture: {} is "
                        "for {}",
                        one.name, one.target.row().launches ? "a GPU" : one.target.triple);
    }
    for (std::size_t k = 0; k < i; ++k) {
      const ArtifactVariant& other = (*variants)[k];
      if (needs(one) != needs(other)) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        "{} and {} need the same features: only one of them could be chosen",
                        other.name, one.name);
    }
  }
  return {};
}

}  // namespace

std::string default_name(const std::string& model) {
  if (!is_built_in(model)) return identifier(fs::path(model).stem().string());
  const std::string_view network = without_zoo(model);
  return identifier(std::string(network.substr(0, network.find('@'))));
}

Result<void> check_weights_place(const graph::Graph& graph, const ArtifactOptions& options) {
  std::vector<bool> read(graph.values.size(), false);
  for (const graph::ValueId id : graph.outputs) read[static_cast<std::size_t>(id)] = true;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId id : node.inputs) {
      if (id != graph::kNoValue) read[static_cast<std::size_t>(id)] = true;
    }
  }
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const graph::Value& v = graph.values[i];
    if (read[i] && v.is_constant) bytes += static_cast<std::int64_t>(v.constant.bytes());
  }
  return check_embedded(bytes, options);
}

Result<ArtifactReport> compile_artifact(graph::Graph graph, const target::Target& target,
                                        const std::string& folder, const ArtifactOptions& options) {
  TESSERA_TRY(const task::TaskGraph tasks, task::extract_tasks(graph));
  return compile_artifact(std::move(graph), tasks, target, folder, options);
}

Result<ArtifactReport> compile_artifact(graph::Graph graph, const task::TaskGraph& tasks,
                                        const target::Target& target, const std::string& folder,
                                        const ArtifactOptions& options) {
  std::vector<ArtifactVariant> one;
  one.push_back({"", std::move(graph), tasks, target, options.model});
  return compile_variants(std::move(one), folder, options);
}

Result<ArtifactReport> compile_variants(std::vector<ArtifactVariant> variants,
                                        const std::string& folder, const ArtifactOptions& options) {
  TESSERA_DO(put_in_order(&variants));
  for (const ArtifactVariant& v : variants) TESSERA_DO(check_weights_place(v.graph, options));
  TESSERA_TRY(StagingFolder staging, StagingFolder::make(folder));
  ArtifactReport report;
  const Clock::time_point start = Clock::now();
  const std::string name = identifier(options.name.empty() ? variants[0].graph.name : options.name);
  const std::string digest = model_digest(variants[0].graph);
  std::vector<Variant> made;
  std::vector<VariantDescription> descriptions;
  for (ArtifactVariant& v : variants) {
    const std::string symbols =
        variants.size() == 1 ? name : fmt::format("{}_v{}", name, made.size() + 1);
    TESSERA_TRY(ModelProgram program,
                make_model_program(std::move(v.graph), v.tasks, v.target, symbols, v.model));
    Metadata m = describe(program.model, name);
    if (!program.tiles)
      std::erase_if(m.features, [](const std::string& f) { return f.starts_with("amx-"); });
    m.library = library_name(m.name, options.emit);
    m.model_digest = digest;
    descriptions.push_back({v.name, m.target, m.plan_digest, m.features, m.arena_bytes, 0, 0});
    made.push_back({std::move(program), std::move(m), symbols});
    TESSERA_CHECK(made.back().metadata.inputs.size() == made[0].metadata.inputs.size() &&
                      made.back().metadata.outputs.size() == made[0].metadata.outputs.size(),
                  "{}: variants of different models", name);
  }
  report.build_ms = milliseconds_since(start);
  Metadata all = describe_all(made);
  if (made.size() > 1) all.variants = std::move(descriptions);
  Result<Metadata> built = Builder(staging.path(), options, made[0].program.model.target)
                               .build(made, std::move(all), &report);
  if (!built) return staging.with_final_path(built.error());
  report.metadata = std::move(built).value();
  TESSERA_DO(staging.publish());
  return report;
}

}  // namespace tessera::artifact

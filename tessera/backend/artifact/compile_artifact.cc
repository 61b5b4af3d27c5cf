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
#include "tessera/backend/artifact/model_program.h"
#include "tessera/backend/artifact/object_linker.h"
#include "tessera/backend/artifact/program_tables.h"
#include "tessera/backend/artifact/staging_folder.h"
#include "tessera/backend/artifact/toolchain.h"
#include "tessera/backend/artifact/weights.h"
#include "tessera/support/clock.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/model_name.h"
#include "tessera/support/run_tool.h"

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
std::map<std::string, std::string> exports_of(const std::string& name) {
  std::map<std::string, std::string> out;
  for (const char* entry : {"api", "close", "info", "memory_bytes", "open", "run", "run_tensors"}) {
    out[fmt::format("tsr_entry_{}", entry)] = fmt::format("{}_{}", name, entry);
  }
  return out;
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

  Result<Metadata> build(ModelProgram& program, Metadata m, ArtifactReport* report) {
    const exec::CompiledModel& model = program.model;
    std::vector<std::string> cc;
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
    if (model.target.row().launches) {
      TESSERA_TRY(code_, make_device_code(program.binaries, building_threads(options_.model)));
      m.code = code_->kinds;
    } else {
      TESSERA_DO(add_kernels(program, &m));
    }
    report->code_ms = milliseconds_since(start);
    TESSERA_TRY(const Weights weights, place_weights(model, &m));
    const Clock::time_point link_start = Clock::now();
    const std::string json = to_json(m);
    TESSERA_DO(write_file(folder_ + "/" + m.name + ".h", {header_text(m)}));
    TESSERA_DO(write_file(folder_ + "/" + m.name + ".json", {json}));
    TESSERA_DO(write_file(folder_ + "/" + cmake_config_name(m), {cmake_config_text(m)}));
    metadata_text_ = json + '\0';
    add_tables(program, m, weights);
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
    return {};
  }

  Result<Weights> place_weights(const exec::CompiledModel& model, Metadata* m) {
    const std::string file = m->name + ".safetensors", path = folder_ + "/" + file;
    TESSERA_TRY(const Weights weights, write_weights(model, path));
    m->weights_bytes = weights.bytes;
    m->weights_digest = to_hex(weights.digest);
    // A constant that was packed in several orders counts as often.
    if (weights.bytes > 0) TESSERA_DO(check_embedded(weights.bytes, options_));
    if (!embed(options_.weights, model.constant_bytes)) {
      m->weights_file = file;
    } else if (weights.bytes > 0) {
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

  void add_tables(const ModelProgram& program, const Metadata& m, const Weights& weights) {
    constexpr std::uint64_t kAlignment = 64;
    TableParts parts{m, program.model, weights, add_blob(".tessera", 1, metadata_text_)};
    if (weights_) parts.embedded = add_blob(".rodata.weights", kAlignment, weights_->bytes());
    if (code_) {
      std::optional<ObjectLinker::Address> code;
      if (!code_->bytes.empty()) code = add_blob(".rodata.code", kAlignment, code_->bytes);
      add_device_program(parts, make_device_program(program, *code_, weights), code, &image_,
                         &linker_);
    } else {
      add_program(parts, &image_, &linker_);
    }
    image_.finish();
  }

  Result<void> write_library(const Metadata& m, std::vector<std::string> cc) {
    const std::map<std::string, std::string> exports = exports_of(m.name);
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
    for (const std::string& word :
         {std::string("-shared"), std::string("-pthread"), std::string("-static-libgcc"),
          "-Wl,-soname," + m.library, std::string("-Wl,-z,defs"), std::string("-Wl,-z,noexecstack"),
          std::string("-o"), m.library, file, std::string(target::row_of(m.device).link_flag)}) {
      cc.push_back(word);
    }
    const Result<std::string> done = run_tool(cc, folder_);
    if (!done.ok()) return done.error();
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
  TESSERA_DO(check_weights_place(graph, options));
  TESSERA_TRY(StagingFolder staging, StagingFolder::make(folder));
  ArtifactReport report;
  const Clock::time_point start = Clock::now();
  const std::string name = identifier(options.name.empty() ? graph.name : options.name);
  const std::string digest = model_digest(graph);
  TESSERA_TRY(ModelProgram program,
              make_model_program(std::move(graph), tasks, target, name, options.model));
  report.build_ms = milliseconds_since(start);
  Metadata metadata = describe(program.model, name);
  if (!program.tiles)
    std::erase_if(metadata.features, [](const std::string& f) { return f.starts_with("amx-"); });
  metadata.library = library_name(metadata.name, options.emit);
  metadata.model_digest = digest;
  Result<Metadata> built = Builder(staging.path(), options, program.model.target)
                               .build(program, std::move(metadata), &report);
  if (!built) return staging.with_final_path(built.error());
  report.metadata = std::move(built).value();
  TESSERA_DO(staging.publish());
  return report;
}

}  // namespace tessera::artifact

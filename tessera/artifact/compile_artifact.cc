#include "tessera/artifact/compile_artifact.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "tessera/artifact/c_source.h"
#include "tessera/artifact/cmake_config.h"
#include "tessera/artifact/device_code.h"
#include "tessera/artifact/device_source.h"
#include "tessera/artifact/digest.h"
#include "tessera/artifact/model_program.h"
#include "tessera/artifact/staging_folder.h"
#include "tessera/artifact/toolchain.h"
#include "tessera/artifact/weights.h"
#include "tessera/codegen/codegen.h"
#include "tessera/ir/text.h"
#include "tessera/runtime/thread_pool.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/support/run_tool.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double elapsed_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string model_digest(const graph::Graph& graph) {
  std::string text = graph::to_text(graph);
  for (const graph::Value& v : graph.values) {
    if (v.is_constant) {
      text += to_hex(tessera_artifact_digest(v.constant.data(), v.constant.bytes()));
    }
  }
  return to_hex(hash_bytes(text));
}

std::string plan_digest(const ModelProgram& program) {
  std::uint64_t hash = hash_bytes(target::to_text(program.model.target));
  for (const exec::LoweredTask& task : program.lowered) {
    hash = hash_bytes(ir::to_text(task.lowered.func), hash);
  }
  for (const runtime::Binary& b : program.binaries) {
    hash = hash_bytes({reinterpret_cast<const char*>(b.bytes.data()), b.bytes.size()}, hash);
  }
  return to_hex(hash);
}

// Compiles every task to obj/kernelN.o on all processors; returns what the kernels need.
class KernelWriter {
 public:
  KernelWriter(const std::string& name, const target::Target& target,
               const exec::ModelOptions& options, const std::string& folder,
               std::vector<exec::LoweredTask>* lowered)
      : name_(name), target_(target), options_(options), folder_(folder), lowered_(lowered) {}

  Result<std::vector<codegen::KernelInfo>> run() {
    infos_.resize(lowered_->size());
    errors_.resize(lowered_->size());
    runtime::ThreadPool pool({.threads = building_threads(options_), .spin_us = 0});
    pool.parallel_for(
        [](void* self, std::int64_t begin, std::int64_t end, std::int32_t) {
          for (std::int64_t i = begin; i < end; ++i) {
            static_cast<KernelWriter*>(self)->write(static_cast<std::size_t>(i));
          }
        },
        this, static_cast<std::int64_t>(lowered_->size()));
    for (const std::optional<Error>& error : errors_) {
      if (error) return *error;
    }
    return infos_;
  }

  static std::string object(std::size_t i) { return fmt::format("kernel{}.o", i); }

 private:
  void write(std::size_t i) {
    ir::Func func = (*lowered_)[i].lowered.func;
    func.name = kernel_symbol(name_, i);
    const Result<codegen::Binary> code = codegen::compile({func}, target_, options_.codegen);
    if (!code.ok()) {
      errors_[i] = code.error();
      return;
    }
    infos_[i] = code->kernels[0];
    const Result<void> written = write_file(
        folder_ + "/" + object(i),
        {std::string_view(reinterpret_cast<const char*>(code->bytes.data()), code->bytes.size())});
    if (!written.ok()) errors_[i] = written.error();
  }

  const std::string& name_;
  const target::Target& target_;
  const exec::ModelOptions& options_;
  const std::string& folder_;
  std::vector<exec::LoweredTask>* lowered_;
  std::vector<codegen::KernelInfo> infos_;
  std::vector<std::optional<Error>> errors_;
};

std::string library_name(const std::string& name, Emit emit) {
  if (emit == Emit::kShared) return fmt::format("lib{}.so", name);
  return emit == Emit::kStatic ? fmt::format("lib{}.a", name) : name + ".o";
}

bool embed(WeightsPlace place, std::int64_t bytes) {
  return place == WeightsPlace::kEmbedded || bytes == 0 ||
         (place == WeightsPlace::kAuto && bytes < kEmbedLimit);
}

std::vector<std::string> with(std::vector<std::string> command,
                              const std::vector<std::string>& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// All tools run in `objects`, the folder of the intermediate files.
Result<void> link(const Toolchain& tools, const Metadata& m, Emit emit, const std::string& objects,
                  const std::vector<std::string>& files) {
  const std::string output = "../" + m.library;
  std::vector<std::string> command;
  if (emit == Emit::kShared) {
    command = with(tools.cc, {"-shared", "-pthread", "-static-libgcc", "-Wl,-soname," + m.library,
                              "-Wl,-z,defs", "-Wl,-z,noexecstack", "-o", output});
    command = with(with(command, files), {m.device == target::Kind::kCpu ? "-lm" : "-ldl"});
  } else if (emit == Emit::kStatic) {
    command = with({tools.ar, "rcsD", output}, files);
  } else {
    command = with(with(tools.cc, {"-r", "-nostdlib", "-o", output}), files);
  }
  const Result<std::string> done = run_tool(command, objects);
  if (!done.ok()) return done.error();
  return {};
}

// The steps of compile_artifact that write into one folder.
class Builder {
 public:
  Builder(const std::string& folder, const ArtifactOptions& options)
      : folder_(folder), objects_(folder + "/obj"), options_(options) {}

  Result<Metadata> build(ModelProgram& program, Metadata m, ArtifactReport* report) {
    const exec::CompiledModel& model = program.model;
    TESSERA_TRY(const Toolchain tools, find_toolchain(library_target(model.target), options_.cc,
                                                      options_.emit == Emit::kShared));
    std::error_code error;
    fs::create_directory(objects_, error);
    if (error) return make_error(ErrorCode::kIo, "cannot write {}: {}", objects_, error.message());
    const Clock::time_point start = Clock::now();
    DeviceCode code;
    if (model.target.is_gpu()) {
      TESSERA_TRY(code, write_code(program, &m));
    } else {
      TESSERA_DO(write_objects(program, &m));
    }
    report->emit_ms = elapsed_ms(start);
    TESSERA_TRY(const Weights weights, place_weights(model, &m));
    const Clock::time_point link_start = Clock::now();
    TESSERA_DO(write_file(folder_ + "/" + m.name + ".h", {header_text(m)}));
    TESSERA_DO(write_file(folder_ + "/" + m.name + ".json", {to_json(m)}));
    TESSERA_DO(write_file(folder_ + "/" + cmake_config_name(m), {cmake_config_text(m)}));
    TESSERA_DO(write_file(
        objects_ + "/" + m.name + ".c",
        {model.target.is_gpu()
             ? device_source_text(
                   m, model, make_device_program(model, program.binaries, code, weights), weights)
             : source_text(m, model, weights)}));
    if (m.weights_file.empty() && weights.bytes > 0) {
      blobs_.push_back({"weights", weights_symbol(m.name)});
    }
    TESSERA_DO(compile_and_link(tools, m));
    report->link_ms = elapsed_ms(link_start);
    if (!options_.keep_sources) fs::remove_all(objects_, error);
    return m;
  }

 private:
  // A file NAME.bin of the objects that becomes part of the library.
  struct Blob {
    std::string name, symbol;
  };

  Result<void> write_objects(ModelProgram& program, Metadata* m) {
    TESSERA_TRY(const auto kernels, KernelWriter(m->name, program.model.target, options_.model,
                                                 objects_, &program.lowered)
                                        .run());
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      m->shared_bytes = std::max(m->shared_bytes, kernels[i].shared_bytes);
      m->worker_bytes = std::max(m->worker_bytes, kernels[i].worker_bytes);
      files_.push_back(KernelWriter::object(i));
    }
    return {};
  }

  Result<DeviceCode> write_code(const ModelProgram& program, Metadata* m) {
    TESSERA_TRY(DeviceCode code,
                make_device_code(program.binaries, building_threads(options_.model)));
    m->code = code.kinds;
    if (code.bytes.empty()) return code;
    TESSERA_DO(write_file(objects_ + "/code.bin", {code.bytes}));
    blobs_.push_back({"code", code_symbol(m->name)});
    return code;
  }

  Result<Weights> place_weights(const exec::CompiledModel& model, Metadata* m) {
    const bool embedded = embed(options_.weights, model.constant_bytes);
    const std::string file = m->name + ".safetensors";
    TESSERA_TRY(const Weights weights,
                write_weights(model, embedded ? objects_ + "/weights.bin" : folder_ + "/" + file));
    if (!embedded) m->weights_file = file;
    m->weights_bytes = weights.bytes;
    m->weights_digest = to_hex(weights.digest);
    return weights;
  }

  Result<void> compile_and_link(const Toolchain& tools, const Metadata& m) {
    std::vector<std::string> files = {"model.o"};
    TESSERA_DO(compile(tools, {"-std=gnu11", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden",
                               "-I..", "-c", m.name + ".c", "-o", files[0]}));
    for (const Blob& blob : blobs_) {
      TESSERA_DO(write_file(objects_ + "/" + blob.name + ".S",
                            {blob_assembly(blob.symbol, blob.name + ".bin")}));
      files.push_back(blob.name + ".o");
      TESSERA_DO(compile(tools, {"-c", blob.name + ".S", "-o", files.back()}));
    }
    return link(tools, m, options_.emit, objects_, with(files, files_));
  }

  Result<void> compile(const Toolchain& tools, const std::vector<std::string>& arguments) {
    const Result<std::string> done = run_tool(with(tools.cc, arguments), objects_);
    if (!done.ok()) return done.error();
    return {};
  }

  const std::string& folder_;
  std::string objects_;
  const ArtifactOptions& options_;
  std::vector<std::string> files_;  // objects of kernels
  std::vector<Blob> blobs_;
};

}  // namespace

std::string default_name(const std::string& model) {
  constexpr std::string_view kZoo = "zoo:";
  if (!model.starts_with(kZoo)) return identifier(fs::path(model).stem().string());
  return identifier(model.substr(kZoo.size(), model.find('@') - kZoo.size()));
}

Result<ArtifactReport> compile_artifact(const graph::Graph& graph, const target::Target& target,
                                        const std::string& folder, const ArtifactOptions& options) {
  TESSERA_TRY(const task::TaskGraph tasks, task::extract_tasks(graph, options.model.partition));
  return compile_artifact(graph, tasks, target, folder, options);
}

Result<ArtifactReport> compile_artifact(const graph::Graph& graph, const task::TaskGraph& tasks,
                                        const target::Target& target, const std::string& folder,
                                        const ArtifactOptions& options) {
  TESSERA_TRY(StagingFolder staging, StagingFolder::make(folder));
  ArtifactReport report;
  const Clock::time_point start = Clock::now();
  TESSERA_TRY(ModelProgram program, make_model_program(graph, tasks, target, options.model));
  report.lower_ms = elapsed_ms(start);
  Metadata metadata =
      describe(program.model, identifier(options.name.empty() ? graph.name : options.name));
  metadata.library = library_name(metadata.name, options.emit);
  metadata.model_digest = model_digest(graph);
  metadata.plan_digest = plan_digest(program);
  TESSERA_TRY(report.metadata,
              Builder(staging.path(), options).build(program, std::move(metadata), &report));
  TESSERA_DO(staging.publish());
  return report;
}

}  // namespace tessera::artifact

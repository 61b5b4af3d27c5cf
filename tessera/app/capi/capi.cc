// The functions behind tsr_get_api: handles in, Results out as statuses; exceptions end here.
#include <algorithm>

#include "tessera/app/capi/dl_tensor.h"
#include "tessera/app/capi/handles.h"
#include "tessera/app/capi/status.h"
#include "tessera/app/capi/text.h"
#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/batch.h"
#include "tessera/app/compile/decide_model.h"
#include "tessera/app/compile/float_products.h"
#include "tessera/app/compile/open_model.h"
#include "tessera/app/compile/staged_model.h"
#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/model_program.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/frontend/graph/graph.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/support/check.h"

namespace tessera::capi {
namespace {

Result<onnx::ImportOptions> import_options(const tsr_compile_options& options) {
  onnx::ImportOptions import;
  TESSERA_DO(refuse_negative("num_shapes", options.num_shapes));
  TESSERA_DO(refuse_negative("num_dimensions", options.num_dimensions));
  TESSERA_DO(refuse_negative("num_values", options.num_values));
  if ((options.num_shapes > 0 && !options.shapes) ||
      (options.num_dimensions > 0 && !options.dimensions) ||
      (options.num_values > 0 && !options.values)) {
    return missing("shapes, dimensions and values with a count");
  }
  for (std::int32_t i = 0; i < options.num_shapes; ++i) {
    const tsr_input_shape& s = options.shapes[i];
    if (!s.name || s.rank < 0 || s.rank > 64 || (s.rank > 0 && !s.shape)) return missing("a shape");
    import.shapes[s.name] = Shape(s.shape, s.shape + s.rank);
  }
  for (std::int32_t i = 0; i < options.num_dimensions; ++i) {
    if (!options.dimensions[i].name) return missing("the name of a dimension");
    import.symbols[options.dimensions[i].name] = options.dimensions[i].value;
  }
  for (std::int32_t i = 0; i < options.num_values; ++i) {
    const tsr_input_value& v = options.values[i];
    if (!v.name || !v.text) return missing("the name and the text of a value");
    import.literals[v.name] = v.text;
  }
  return import;
}

Result<app::PlanSchedules> load_plan(const std::string& path, const target::Target& target,
                                     bool strict) {
  TESSERA_TRY(plan::Plan plan, plan::load_plan(path));
  Result<app::PlanSchedules> made = app::PlanSchedules::make(std::move(plan), target, strict);
  if (!made.ok()) return made.error().with_context(path);
  return made;
}

std::vector<artifact::TensorDescription> describe_values(const graph::Graph& graph,
                                                         const std::vector<graph::ValueId>& ids,
                                                         const std::vector<std::string>& names) {
  std::vector<artifact::TensorDescription> out;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const graph::Value& value = graph.value(ids[i]);
    out.push_back({names.empty() ? value.name : names[i], value.type.dtype, value.type.shape});
  }
  return out;
}

// Where the code is to run.
struct Destination {
  bool elsewhere = false;  // a processor that only save() is for
  bool gpu = false;
  bool here() const { return !elsewhere && !gpu; }
};

Result<Destination> read_options(const tsr_compile_options& options, app::CompileOptions* decide) {
  TESSERA_DO(refuse_negative("threads", options.threads));
  TESSERA_DO(refuse_negative("build_threads", options.build_threads));
  TESSERA_DO(refuse_negative("device", options.device));
  Destination to;
  if (options.target) {
    TESSERA_TRY(decide->target, runtime::resolve_target(options.target));
  }
  if (options.fast_math) {
    TESSERA_TRY(decide->target, target::allow_fast_math(decide->target, options.fast_math));
  }
  if (options.dtype) {
    TESSERA_TRY(decide->floats, app::float_type(options.dtype));
  }
  if (options.target) {
    to.gpu = decide->target.is_gpu();
    to.elsewhere = !to.gpu && std::string_view(options.target) != "host";
  }
  const int threads =
      options.threads > 0 || !to.here() ? options.threads : target::default_threads();
  if (threads > 0) decide->target = target::code_target(decide->target, threads);
  TESSERA_TRY(decide->import, import_options(options));
  decide->cache = kernel::user_kernel_cache();
  decide->build_threads = options.build_threads;
  if (options.plan) {
    TESSERA_TRY(decide->plan, load_plan(options.plan, decide->target, options.strict_plan != 0));
  }
  if (options.cost_model) decide->cost_model = options.cost_model;
  return to;
}

Result<void> set_batch(std::int64_t batch, app::ModelSource& source,
                       std::map<std::string, std::int64_t>& symbols) {
  if (batch == 0) return {};
  if (source.spec().empty()) {
    TESSERA_TRY(const onnx::Model* model, source.model());
    return app::set_batch(batch, model->graph, symbols);
  }
  std::string spec = source.spec();
  TESSERA_DO(app::set_batch(batch, spec, symbols));
  source = app::ModelSource(spec);
  return {};
}

using Decided = std::shared_ptr<const app::DecidedModel>;

Result<Decided> decide_again(const std::string& spec, const std::string& identity,
                             const app::CompileOptions& options) {
  app::ModelSource source(spec);
  if (source.identity() != identity) {
    return make_error(ErrorCode::kIo, "{} has changed since it was compiled", spec);
  }
  TESSERA_TRY(app::DecidedModel decided, app::decide_model(source, options));
  return std::make_shared<const app::DecidedModel>(std::move(decided));
}

// For this processor, and nobody to judge schedules: as an earlier process may have left it.
Result<void> prepare(app::ModelSource& source, const app::CompileOptions& options,
                     ModelState* model) {
  TESSERA_TRY(model->prepared, app::prepare_model(source, options));
  model->decided = [spec = source.spec(), identity = source.identity(), options] {
    return decide_again(spec, identity, options);
  };
  return {};
}

Result<void> compile_decided(app::ModelSource& source, const app::CompileOptions& options,
                             const Destination& to, ModelState* model) {
  TESSERA_TRY(app::DecidedModel made, app::decide_model(source, options));
  const auto decided = std::make_shared<const app::DecidedModel>(std::move(made));
  model->decided = [decided]() -> Result<Decided> { return decided; };
  const graph::Graph& graph = decided->graph;
  if (to.elsewhere) {
    model->inputs = describe_values(graph, graph.inputs, {});
    model->outputs = describe_values(graph, graph.outputs, graph.output_names);
  } else if (to.gpu) {
    TESSERA_TRY(model->gpu, artifact::DeviceModel::make(graph, decided->tasks, options.target,
                                                        decided->build, model->name));
    model->plan_digest = model->gpu->metadata().plan_digest;
    model->inputs = model->gpu->metadata().inputs;
    model->outputs = model->gpu->metadata().outputs;
  } else {
    model->prepared.emplace();
    TESSERA_TRY(model->prepared->model, app::compile_decided(*decided, options.target, nullptr));
  }
  return {};
}

// Some shapes follow from data, for `reason`: as `tessera run` does it.
Result<void> compile_stages(app::ModelSource& source, const app::CompileOptions& options,
                            const std::string& reason, ModelState* model) {
  TESSERA_TRY(const onnx::Model* read, source.model());
  auto staged = std::make_shared<StagedSource>();
  staged->model = *read;
  staged->options = options;
  TESSERA_TRY(std::unique_ptr<app::StagedModel> made, staged->take(0));
  for (std::size_t i = 0; i < made->input_names().size(); ++i) {
    const graph::TensorType& type = made->input_types()[i];
    model->inputs.push_back({made->input_names()[i], type.dtype, type.shape});
  }
  TESSERA_TRY(staged->outputs, made->outputs());
  for (const app::StagedModel::Tensor& t : staged->outputs)
    model->outputs.push_back({t.name, t.dtype, t.shape});
  TESSERA_DO(made->prepare());
  staged->keep(std::move(made));
  // Long loops can be unrolled for an artifact.
  model->decided = [staged, reason]() -> Result<Decided> {
    app::CompileOptions unrolled = staged->options;
    unrolled.import.unrolled_nodes = INT64_MAX;
    app::ModelSource again(staged->model);
    Result<app::DecidedModel> decided = app::decide_model(again, unrolled);
    if (decided.ok()) return std::make_shared<const app::DecidedModel>(std::move(*decided));
    if (decided.error().code != ErrorCode::kDataDependent) return decided.error();
    return make_error(ErrorCode::kUnsupported,
                      "{}; an artifact has fixed shapes, such a model runs in this process only",
                      reason);
  };
  model->staged = std::move(staged);
  return {};
}

Result<void> compile_here(app::ModelSource& source, const app::CompileOptions& options,
                          const Destination& to, ModelState* model) {
  if (!source.spec().empty() && options.cost_model == app::kNoModel) {
    return prepare(source, options, model);
  }
  return compile_decided(source, options, to, model);
}

Result<void> compile_onnx(app::ModelSource source, const std::string& name,
                          const tsr_compile_options* given, tsr_model** result) {
  TESSERA_TRY(const tsr_compile_options options, copy_options(given));
  app::CompileOptions decide;
  TESSERA_TRY(const Destination to, read_options(options, &decide));
  if (options.batch < 0) {
    return make_error(ErrorCode::kInvalidArgument, "batch must not be negative, but is {}",
                      options.batch);
  }
  TESSERA_DO(set_batch(options.batch, source, decide.import.symbols));
  auto model = std::make_shared<ModelState>();
  model->name = name;
  model->target = decide.target;
  model->kind = decide.target.kind;
  model->device = options.device;
  model->queue = options.queue;
  model->threads = options.threads;
  if (to.here()) {
    decide.import.unrolled_nodes = app::kUnrolledNodes;
    const Result<void> whole = compile_here(source, decide, to, model.get());
    if (!whole.ok() && whole.error().code != ErrorCode::kDataDependent) return whole;
    if (!whole.ok()) TESSERA_DO(compile_stages(source, decide, whole.error().message, model.get()));
  } else {
    TESSERA_DO(compile_decided(source, decide, to, model.get()));
  }
  if (model->prepared) {
    const artifact::Metadata metadata = artifact::describe(model->prepared->model, name);
    model->plan_digest = metadata.plan_digest;
    model->inputs = metadata.inputs;
    model->outputs = metadata.outputs;
  }
  model->describe();
  *result = new tsr_model{std::move(model)};
  return {};
}

const char* tessera_version() { return TESSERA_VERSION; }

tsr_status compile(const char* spec, const tsr_compile_options* options, tsr_model** result) {
  return guarded([&]() -> Result<void> {
    if (!spec || !result) return missing("model and result");
    *result = nullptr;
    const std::string text = spec;
    if (text.empty()) return make_error(ErrorCode::kInvalidArgument, "model must not be empty");
    const Result<void> done =
        compile_onnx(app::ModelSource(text), artifact::default_name(text), options, result);
    if (!done.ok()) return app::about_model(done.error(), text);
    return {};
  });
}

tsr_status compile_memory(const void* bytes, size_t count, const tsr_compile_options* options,
                          tsr_model** result) {
  return guarded([&]() -> Result<void> {
    if (!bytes || !result) return missing("bytes and result");
    *result = nullptr;
    return compile_onnx(app::ModelSource(onnx::parse_model(
                            std::string_view(static_cast<const char*>(bytes), count), "")),
                        "model", options, result);
  });
}

tsr_status load(const char* path, tsr_model** result) {
  return guarded([&]() -> Result<void> {
    if (!path || !result) return missing("path and result");
    *result = nullptr;
    TESSERA_TRY(std::shared_ptr<ModelState> model, load_model(path));
    *result = new tsr_model{std::move(model)};
    return {};
  });
}

tsr_status save(const tsr_model* model, const char* folder, const tsr_save_options* given) {
  return guarded([&]() -> Result<void> {
    if (!model || !folder) return missing("model and folder");
    if (!model->state->artifact.empty()) {
      return make_error(ErrorCode::kUnsupported, "{} was loaded from an artifact: copy its folder",
                        model->state->name);
    }
    TESSERA_TRY(const tsr_save_options options, copy_options(given));
    if (options.emit < TSR_EMIT_SHARED || options.emit > TSR_EMIT_OBJECT ||
        options.weights < TSR_WEIGHTS_AUTO || options.weights > TSR_WEIGHTS_FILE) {
      return make_error(ErrorCode::kInvalidArgument, "no such value of emit or weights");
    }
    target::Target target = model->state->target;
    if (options.target) {
      TESSERA_TRY(target, runtime::resolve_target(options.target));
    }
    if (target.kind != model->state->kind) {
      return make_error(ErrorCode::kUnsupported, "{} was compiled for {}, not for {}",
                        model->state->name, target::to_text(model->state->kind), target.name);
    }
    artifact::ArtifactOptions how;
    how.name = options.name ? options.name : model->state->name;
    how.cc = options.cc ? options.cc : "";
    how.emit = static_cast<artifact::Emit>(options.emit);
    how.weights = static_cast<artifact::WeightsPlace>(options.weights);
    // What was decided for this machine says nothing about the schedules of another.
    TESSERA_TRY(const Decided decided, model->state->decided());
    if (!options.target) how.model = decided->build;
    TESSERA_DO(artifact::compile_artifact(decided->graph, decided->tasks, target, folder, how));
    return {};
  });
}

void free_model(tsr_model* model) { delete model; }

std::int32_t num_inputs(const tsr_model* model) {
  return model ? static_cast<std::int32_t>(model->state->input_infos.size()) : 0;
}

std::int32_t num_outputs(const tsr_model* model) {
  return model ? static_cast<std::int32_t>(model->state->output_infos.size()) : 0;
}

const tsr_tensor_info* at(const std::vector<tsr_tensor_info>& infos, std::int32_t index) {
  if (index < 0 || static_cast<std::size_t>(index) >= infos.size()) return nullptr;
  return &infos[static_cast<std::size_t>(index)];
}

const tsr_tensor_info* input(const tsr_model* model, std::int32_t index) {
  return model ? at(model->state->input_infos, index) : nullptr;
}

const tsr_tensor_info* output(const tsr_model* model, std::int32_t index) {
  return model ? at(model->state->output_infos, index) : nullptr;
}

const char* plan_digest(const tsr_model* model) {
  return model ? model->state->plan_digest.c_str() : "";
}

tsr_status create_session(const tsr_model* model, std::int32_t threads, tsr_session** result) {
  return guarded([&]() -> Result<void> {
    if (!model || !result) return missing("model and result");
    *result = nullptr;
    TESSERA_DO(refuse_negative("threads", threads));
    TESSERA_TRY(std::unique_ptr<SessionState> session, make_session(model->state, threads));
    *result = new tsr_session{std::move(session)};
    return {};
  });
}

Result<void> check_count(const char* kind, const tsr_dl_tensor* given, std::int32_t count,
                         std::size_t want) {
  if (count < 0 || static_cast<std::size_t>(count) != want) {
    return make_error(ErrorCode::kInvalidArgument, "{} {}s given, the model has {}", count, kind,
                      want);
  }
  if (!given && count > 0) return missing("inputs and outputs");
  return {};
}

Result<void> check_tensors(const char* kind, const tsr_dl_tensor* given, std::int32_t count,
                           const std::vector<artifact::TensorDescription>& want,
                           target::Kind device) {
  TESSERA_DO(check_count(kind, given, count, want.size()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (fits(given[i], want[i].dtype, want[i].shape, device)) continue;
    TESSERA_DO(check_tensor(given[i], want[i].dtype, want[i].shape, device,
                            fmt::format("{} '{}'", kind, want[i].name)));
  }
  return {};
}

tsr_status run_on_stream(tsr_session* session, const tsr_dl_tensor* inputs,
                         std::int32_t input_count, const tsr_dl_tensor* outputs,
                         std::int32_t output_count, void* stream) {
  return guarded([&]() -> Result<void> {
    if (!session) return missing("session");
    const ModelState& model = *session->state->model;
    TESSERA_DO(check_tensors("input", inputs, input_count, model.inputs, model.kind));
    if (!model.staged) {
      TESSERA_DO(check_tensors("output", outputs, output_count, model.outputs, model.kind));
    } else if (output_count != 0) {
      TESSERA_DO(check_count("output", outputs, output_count, model.outputs.size()));
    }
    return session->state->run(inputs, output_count > 0 ? outputs : nullptr, stream);
  });
}

tsr_status run(tsr_session* session, const tsr_dl_tensor* inputs, std::int32_t input_count,
               const tsr_dl_tensor* outputs, std::int32_t output_count) {
  return run_on_stream(session, inputs, input_count, outputs, output_count, nullptr);
}

tsr_status copy_output(const tsr_session* session, std::int32_t index,
                       tsr_dl_managed_tensor** result) {
  return guarded([&]() -> Result<void> {
    if (!session || !result) return missing("session and result");
    *result = nullptr;
    if (index < 0) return make_error(ErrorCode::kInvalidArgument, "no output {}", index);
    TESSERA_TRY(HostTensor output, session->state->output(static_cast<std::size_t>(index)));
    *result = make_managed(std::move(output));
    return {};
  });
}

void free_session(tsr_session* session) { delete session; }

constexpr tsr_api kApi = {TSR_API_VERSION,
                          tessera_version,
                          compile,
                          compile_memory,
                          load,
                          save,
                          free_model,
                          num_inputs,
                          num_outputs,
                          input,
                          output,
                          create_session,
                          run,
                          copy_output,
                          free_session,
                          run_on_stream,
                          plan_digest,
                          open_text,
                          another_text,
                          free_text,
                          text_info,
                          encode,
                          token_bytes,
                          step,
                          rewind_text,
                          pick,
                          encode_prompt,
                          encode_chat,
                          warm_up_text};

}  // namespace
}  // namespace tessera::capi

extern "C" __attribute__((visibility("default"))) const tsr_api* tsr_get_api(uint32_t version) {
  return version >= 1 && version <= TSR_API_VERSION ? &tessera::capi::kApi : nullptr;
}

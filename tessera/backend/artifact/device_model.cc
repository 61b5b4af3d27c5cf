#include "tessera/backend/artifact/device_model.h"

#include <algorithm>
#include <array>

#include "tessera/backend/artifact/opened_artifact.h"
#include "tessera/backend/artifact/places.h"
#include "tessera/backend/artifact/runtime/device_api.h"

namespace tessera::artifact {
namespace {

struct Api {
  target::Kind kind;
  const tsr_device_api* (*api)();
};
constexpr std::array kApis = {Api{target::Kind::kCuda, tessera_cuda_api},
                              Api{target::Kind::kOpenCl, tessera_opencl_api}};

std::vector<tsr_tensor_info> infos_of(const std::vector<TensorDescription>& tensors) {
  std::vector<tsr_tensor_info> infos;
  infos.reserve(tensors.size());
  for (const TensorDescription& t : tensors) {
    infos.push_back({t.name.c_str(), to_text(t.dtype), dl_code(t.dtype), 8 * size_bytes(t.dtype),
                     static_cast<std::int32_t>(t.shape.size()), t.shape.data(), t.bytes()});
  }
  return infos;
}

}  // namespace

Result<std::shared_ptr<const DeviceModel>> DeviceModel::make(const graph::Graph& graph,
                                                             const task::TaskGraph& tasks,
                                                             const target::Target& target,
                                                             const exec::ModelOptions& options,
                                                             const std::string& name) {
  TESSERA_TRY(const ModelProgram made, make_model_program(graph, tasks, target, "model", options));
  const std::shared_ptr<DeviceModel> out(new DeviceModel);
  TESSERA_TRY(out->code_, make_device_code(made.binaries, building_threads(options)));
  Metadata& m = out->metadata_;
  m = describe(made.model, name);
  m.code = out->code_.kinds;
  const Weights weights = pack_weights(made.model, &out->weights_);
  m.weights_bytes = weights.bytes;
  out->program_ = make_device_program(made, out->code_, weights);
  out->copies_ = copies_of(made.model, weights);
  out->index_checks_ = made.model.index_checks;
  for (const exec::IndexCheck& c : out->index_checks_) {
    out->check_rows_.push_back({c.node.c_str(), c.sizes.data(),
                                static_cast<std::int64_t>(c.sizes.size()),
                                static_cast<std::int32_t>(c.input)});
  }
  out->inputs_ = infos_of(m.inputs);
  out->outputs_ = infos_of(m.outputs);

  tsr_model_info& info = out->info_;
  info.abi = TSR_ARTIFACT_ABI;
  info.name = m.name.c_str();
  info.device_type = target::row_of(m.device).dlpack;
  info.weights_bytes = m.weights_bytes;
  info.weights_embedded = 1;
  info.arena_bytes = m.arena_bytes;
  info.num_inputs = static_cast<std::int32_t>(m.inputs.size());
  info.num_outputs = static_cast<std::int32_t>(m.outputs.size());
  info.inputs = out->inputs_.data();
  info.outputs = out->outputs_.data();

  const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  const DeviceProgram& p = out->program_;
  tsr_device_program& tables = out->tables_;
  tables.common = {&info,
                   reinterpret_cast<const unsigned char*>(out->weights_.data()),
                   0,
                   out->copies_.data(),
                   count(out->copies_),
                   out->check_rows_.data(),
                   count(out->check_rows_)};
  tables.code = reinterpret_cast<const unsigned char*>(out->code_.bytes.data());
  tables.capability = p.capability;
  tables.modules = p.modules.data();
  tables.num_modules = count(p.modules);
  tables.launches = p.launches.data();
  tables.num_launches = count(p.launches);
  tables.arguments = p.arguments.data();
  tables.max_arguments = p.max_arguments;
  tables.places = p.places.data();
  tables.num_places = count(p.places);
  tables.after = p.after.empty() ? nullptr : p.after.data();
  return std::shared_ptr<const DeviceModel>(out);
}

Result<std::unique_ptr<LoadedArtifact>> DeviceModel::open(std::shared_ptr<const DeviceModel> model,
                                                          const LoadOptions& options) {
  const auto* row = std::find_if(kApis.begin(), kApis.end(),
                                 [&](const Api& a) { return a.kind == model->metadata_.device; });
  TESSERA_CHECK(row != kApis.end(), "{} has no runtime", target::to_text(model->metadata_.device));
  const tsr_device_api* api = row->api();
  tsr_open_options open{};
  open.device = options.device;
  open.queue = options.queue;
  tsr_context* context = nullptr;
  TESSERA_DO(to_result(api->open(&model->tables_, &open, &context)));
  Metadata metadata = model->metadata_;
  return opened(std::move(metadata), std::move(model), api, context);
}

}  // namespace tessera::artifact

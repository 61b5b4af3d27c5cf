#include "tessera/learn/lm/language_file.h"

#include <cmath>

#include "tessera/learn/nn/weights_file.h"

namespace tessera::lm {
namespace {

constexpr nn::WeightsFormat kFormat = {"tessera.language", "a language model", 1};

Result<void> check_model(const TrainedLanguage& model) {
  TESSERA_TRY(const nn::Network built, build_choices(model.spec, 1));
  return nn::check_weights("language", built.parameters, model.weights);
}

HostTensor converted(const HostTensor& from, DType to) {
  if (from.dtype() == to) return from;
  HostTensor out(to, from.shape());
  for (std::int64_t i = 0; i < from.size(); ++i) out.set_float(i, from.get_float(i));
  return out;
}

Result<TrainedLanguage> parse(const std::string& path) {
  TESSERA_TRY(const Safetensors file, nn::read_weights(path, kFormat));
  TrainedLanguage model;
  TESSERA_TRY(model.spec.word, nn::read_number<std::int64_t>(file.metadata, "word"));
  TESSERA_TRY(model.spec.value, nn::read_number<std::int64_t>(file.metadata, "value"));
  TESSERA_TRY(model.schema, nn::read_word(file.metadata, "schema"));
  TESSERA_DO(nn::read_hyper_and_notes(file.metadata, &model.spec.hyper, &model.notes));
  for (const NamedTensor& t : file.tensors) {
    const bool half = t.tensor.dtype() == DType::kF16;
    model.weights[t.name] = half ? converted(t.tensor, DType::kF32) : t.tensor;
  }
  TESSERA_DO(check_model(model));
  return model;
}

}  // namespace

Result<void> save_language(const TrainedLanguage& model, WeightStorage storage,
                           const std::string& path) {
  if (auto whole = check_model(model); !whole.ok()) return whole.error().with_context(path);
  nn::Metadata metadata = {{"word", std::to_string(model.spec.word)},
                           {"value", std::to_string(model.spec.value)},
                           {"schema", model.schema}};
  nn::add_hyper_and_notes(model.spec.hyper, model.notes, &metadata);
  NamedTensors tensors;
  for (const auto& [name, tensor] : model.weights) {
    const bool half = storage == WeightStorage::kF16 && tensor.shape().size() > 1;
    tensors.push_back({name, half ? converted(tensor, DType::kF16) : tensor});
    for (std::int64_t i = 0; half && i < tensor.size(); ++i) {
      if (std::isfinite(tensors.back().tensor.get_float(i))) continue;
      return make_error(ErrorCode::kInvalidArgument, "{}: f16 cannot hold weight {}", path, name);
    }
  }
  return nn::write_weights(path, kFormat, std::move(metadata), tensors);
}

Result<TrainedLanguage> load_language(const std::string& path) {
  return nn::naming_file(path, parse(path));
}

}  // namespace tessera::lm

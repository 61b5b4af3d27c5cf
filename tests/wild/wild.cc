#include "tests/wild/wild.h"

namespace tessera::wild {

std::string Writer::input(const std::string& name, const Array& value, DType dtype) {
  model_.graph.inputs.push_back(onnx::testing::value_info(name, dtype, value.shape));
  inputs_[name] = to_tensor(value, dtype);
  return name;
}

std::string Writer::weight(const Array& value, DType dtype) {
  const std::string name = "w" + std::to_string(names_++);
  model_.graph.initializers.push_back({name, to_tensor(value, dtype)});
  return name;
}

std::string Writer::integers(const std::vector<std::int64_t>& values) {
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  return weight(make(shape,
                     [&](std::int64_t i) {
                       return static_cast<double>(values[static_cast<std::size_t>(i)]);
                     }),
                DType::kI64);
}

std::string Writer::narrow(const onnx::ForeignTensor& value) {
  const std::string name = "w" + std::to_string(names_++);
  model_.graph.initializers.push_back({name, value});
  return name;
}

std::string Writer::add(const std::string& op, std::vector<std::string> inputs,
                        std::vector<onnx::Attribute> attributes, std::size_t outputs) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs; ++i) names.push_back("t" + std::to_string(names_++));
  model_.graph.nodes.push_back(
      onnx::testing::make_node(op, std::move(inputs), names, std::move(attributes)));
  return names[0];
}

std::string Writer::output(std::size_t i) const { return model_.graph.nodes.back().outputs[i]; }

WildModel Writer::finish(const std::string& name, const std::vector<std::string>& outputs,
                         std::vector<HostTensor> want, std::string follows_from,
                         std::string decided_by) {
  model_.graph.name = name;
  for (const std::string& output : outputs) {
    model_.graph.outputs.push_back(onnx::testing::output(output));
  }
  return {name, model_, inputs_, std::move(want), std::move(follows_from), std::move(decided_by)};
}

void PrintTo(const WildModel& m, std::ostream* out) { *out << m.name; }

std::vector<WildModel> wild_models() {
  std::vector<WildModel> all;
  for (const auto family : {audio_models, decoder_models, detector_models, export_models,
                            exported_models, newer_models, quantized_models}) {
    for (WildModel& model : family()) all.push_back(std::move(model));
  }
  return all;
}

}  // namespace tessera::wild

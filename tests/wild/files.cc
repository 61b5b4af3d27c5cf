// Files of exporters, with inputs and what another engine computes from them.
#include <gtest/gtest.h>

#include "tessera/support/npz.h"
#include "tests/wild/wild.h"

namespace tessera::wild {
namespace {

// exports/<model>.onnx with the arrays of exports/<arrays>.npz: "in.<input>" and "out.<output>".
// The sizes of the inputs are those of the arrays.
WildModel exported(const std::string& model, const std::string& arrays) {
  const std::string folder = TESSERA_ROOT "/tests/wild/exports/";
  Result<onnx::Model> loaded = onnx::load_model(folder + model + ".onnx");
  Result<NamedTensors> read = read_npz(folder + arrays + ".npz");
  if (!loaded.ok()) throw std::runtime_error(loaded.error().message);
  if (!read.ok()) throw std::runtime_error(read.error().message);
  std::map<std::string, HostTensor> values;
  for (NamedTensor& array : *read) values.emplace(array.name, std::move(array.tensor));
  WildModel m;
  m.name = arrays;
  m.model = std::move(*loaded);
  for (onnx::ValueInfo& input : m.model.graph.inputs) {
    const HostTensor& value = values.at("in." + input.name);
    input = onnx::testing::value_info(input.name, value.dtype(), value.shape());
    m.inputs.emplace(input.name, value);
  }
  for (const onnx::ValueInfo& output : m.model.graph.outputs)
    m.want.push_back(values.at("out." + output.name));
  return m;
}

}  // namespace

std::vector<WildModel> exported_models() {
  return {exported("genai", "genai_prompt"), exported("genai", "genai_step")};
}

}  // namespace tessera::wild

// Small models of the kinds that users bring: detectors, decoders with caches, branches on an
// input, exports with flaws, narrow weights, new operators. Each with inputs and what it must
// compute, worked out by plain loops or by another engine.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/frontend/onnx/model.h"
#include "tests/onnx/node_model.h"
#include "tests/wild/plain.h"

namespace tessera::wild {

struct WildModel {
  std::string name;
  onnx::Model model;
  std::map<std::string, HostTensor> inputs;
  std::vector<HostTensor> want;  // in the order of the model's outputs
  // What says that shapes or branches are known only with the values of inputs; empty: they are
  // not.
  std::string follows_from = "";
  std::string decided_by = "";  // the one input that decides them; empty: all do
  double tolerance = 1e-4;
};

void PrintTo(const WildModel& m, std::ostream* out);  // for messages of GoogleTest

std::vector<WildModel> audio_models();
std::vector<WildModel> decoder_models();
std::vector<WildModel> detector_models();
std::vector<WildModel> export_models();
std::vector<WildModel> exported_models();
std::vector<WildModel> newer_models();
std::vector<WildModel> quantized_models();

// All of them; names are unique.
std::vector<WildModel> wild_models();

// Writes a graph node by node.
class Writer {
 public:
  explicit Writer(std::int64_t opset) { model_.opsets[""] = opset; }

  // A run-time input with its value.
  std::string input(const std::string& name, const Array& value, DType dtype = DType::kF32);
  std::string weight(const Array& value, DType dtype = DType::kF32);
  std::string integers(const std::vector<std::int64_t>& values);
  std::string narrow(const onnx::ForeignTensor& value);
  // Adds a node; returns its first output.
  std::string add(const std::string& op, std::vector<std::string> inputs,
                  std::vector<onnx::Attribute> attributes = {}, std::size_t outputs = 1);
  // Output `i` of the node just added.
  std::string output(std::size_t i) const;

  onnx::Graph& graph() { return model_.graph; }
  onnx::Model& model() { return model_; }
  WildModel finish(const std::string& name, const std::vector<std::string>& outputs,
                   std::vector<HostTensor> want, std::string follows_from = "",
                   std::string decided_by = "");

 private:
  onnx::Model model_;
  std::map<std::string, HostTensor> inputs_;
  int names_ = 0;
};

using onnx::testing::attr;
using Integers = std::vector<std::int64_t>;

}  // namespace tessera::wild

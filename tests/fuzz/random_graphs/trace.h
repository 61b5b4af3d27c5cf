// The oracle: an ONNX model node by node, each node imported by itself and interpreted by its plain
// definition, with copies of every value that are off by what rounding may do.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::fuzz {

// A value and what it may become where every float on the way is rounded otherwise. Integers and
// booleans of a trace are the same in all of them: their inputs lie far enough from every border.
struct Traced {
  HostTensor value;
  std::vector<HostTensor> shadows;
  bool constant = false;  // an initializer
};

// A model that can run: sizes of its symbols and values of its inputs.
struct Case {
  onnx::Model model;
  std::map<std::string, std::int64_t> symbols;
  std::map<std::string, HostTensor> inputs;
};

class Trace {
 public:
  explicit Trace(std::map<std::string, std::int64_t> opsets) : opsets_(std::move(opsets)) {}

  void define(const std::string& name, HostTensor value, bool constant);
  // Computes the outputs of a node. kInvalidArgument: the node is refused, or its result is not
  // finite, too large, or so sensitive to rounding that a comparison would say nothing.
  Result<void> add(const onnx::Node& node);

  bool has(const std::string& name) const { return values_.count(name) != 0; }
  const Traced& at(const std::string& name) const { return values_.at(name); }
  // How far element `i` may differ for rounding before and in the value.
  double spread(const std::string& name, std::int64_t i) const;

 private:
  Result<onnx::Model> model_of(const onnx::Node& node, std::set<std::string>* read) const;
  Result<std::vector<HostTensor>> run(const onnx::Model& model, std::size_t shadow,
                                      const std::set<std::string>& read, bool perturbed) const;

  std::map<std::string, std::int64_t> opsets_;
  std::map<std::string, Traced> values_;
  std::vector<onnx::Node> pending_;  // nodes whose outputs are sequences
};

// Names that a node reads, those of its bodies included.
std::set<std::string> names_read(const onnx::Node& node);

// All nodes of a case, in order.
Result<Trace> trace_case(const Case& c);

// One line for each input, constant and node, with types as the trace has them.
std::string to_text(const Case& c, const Trace& trace);

}  // namespace tessera::fuzz

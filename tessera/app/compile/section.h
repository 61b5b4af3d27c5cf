// Models of which a part waits for data, cut into sections: what follows from the types of a
// section's inputs runs as compiled code, what then waits for its values follows.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/run_eager.h"

namespace tessera::app {

using Tensors = std::vector<HostTensor>;

// What the sections of a model share. References must outlive them.
struct SectionContext {
  const onnx::Model& model;  // opsets and functions
  NodeEvaluator& evaluator;
  runtime::Device& device;
  const CompileOptions& options;
  // Compiling a graph takes as long as running it node by node so many times.
  std::int64_t runs_before_compiling = 0;
  // Of all runs: nodes of the model that waited for data, kernels that were compiled.
  std::int64_t host_nodes = 0, compiled_kernels = 0;
};

// Where a section stands in its model.
struct SectionPlace {
  int depth = 0;         // sections before it
  bool counted = true;   // its nodes are the model's, not those of a body
  bool at_once = false;  // compiled when it first runs, however small, and what is inside it
  // Inputs whose values decide about shapes, where they are few integers.
  std::set<std::string> decides;
};

// Nodes with inputs and outputs, run any number of times, with inputs of any types: what import and
// compiler make of them is kept for the types, and values that decide, of the last few runs. The
// bodies of If, Loop and Scan are sections of their own, so that a step imports and compiles
// nothing.
class Section {
 public:
  // `part`: names of its inputs and outputs suffice.
  Section(onnx::Model part, SectionContext& context, SectionPlace place = {});
  ~Section();
  Section(Section&&) noexcept;
  Section& operator=(Section&&) = delete;

  // Before the first run: SectionPlace::at_once.
  void compile_at_once() { place_.at_once = true; }
  // Imports and compiles what follows from these types, without running anything.
  Result<void> prepare(const std::vector<graph::TensorType>& types);
  // In the order of the part's inputs and outputs. kUnsupported: something that is no tensor leaves
  // the section.
  Result<Tensors> run(const Tensors& inputs);

 private:
  struct Form;

  Result<Form*> find_form(const Tensors& inputs);
  Result<std::unique_ptr<Form>> make_form(const Tensors& inputs);
  Result<Tensors> run_known(Form& form, const Tensors& inputs);
  Result<void> compile(Form& form);

  onnx::Model part_;
  SectionContext& context_;
  SectionPlace place_;
  std::vector<std::unique_ptr<Form>> forms_;  // the last used one first
};

// Every name that a node reads, also from inside its bodies. Names that bodies define for
// themselves may be among them.
void collect_names(const onnx::Node& node, std::set<std::string>& names);

}  // namespace tessera::app

// Models of which some shapes follow from data, as something that runs: what does not wait for data
// is compiled, the rest as the data comes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/app/compile/section.h"

namespace tessera::app {

// Nodes that a loop may become in a model that is about to run; the body of a longer one is
// imported and compiled once, and run step by step.
inline constexpr std::int64_t kUnrolledNodes = 1000;

struct StagedOptions {
  int threads = 0;  // 0: those of the target's code
  // How often it will run: few times, or as long as a program lives, for which more is compiled.
  bool often = false;
};

// On a processor of this machine. One run at a time.
class StagedModel {
 public:
  struct Tensor {
    std::string name;
    DType dtype = DType::kF32;
    bool ranked = true;  // false: any shape
    Shape shape;         // -1: a size that follows from data
  };

  // `model` may go. kUnsupported: an input is of a type that no tensor has, or the target is not
  // this machine.
  static Result<std::unique_ptr<StagedModel>> make(const onnx::Model& model,
                                                   const CompileOptions& options,
                                                   const StagedOptions& staged = {});

  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<graph::TensorType>& input_types() const { return input_types_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  // As the model declares them. kUnsupported: it does not say what type an output has.
  Result<std::vector<Tensor>> outputs() const;

  // Compiles what follows from the types of the inputs.
  Result<void> prepare();
  // In the order of the names. kInvalidArgument: not those types.
  Result<Tensors> run(const Tensors& inputs);

  // Of the last run: nodes of the model that waited for data, bodies not counted; of all so far:
  // kernels in sections that were compiled as a whole.
  std::int64_t host_nodes() const { return context_->host_nodes; }
  std::int64_t model_nodes() const { return model_nodes_; }
  std::int64_t compiled_kernels() const { return context_->compiled_kernels; }

 private:
  StagedModel(const CompileOptions& options, int threads);

  const CompileOptions options_;
  onnx::Model whole_;  // without nodes and weights
  std::unique_ptr<runtime::Device> device_;
  NodeEvaluator evaluator_;
  std::unique_ptr<SectionContext> context_;
  std::unique_ptr<Section> first_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<graph::TensorType> input_types_;
  std::int64_t model_nodes_ = 0;
};

struct StagedRun {
  std::vector<HostTensor> outputs;               // in the model's order
  std::int64_t host_nodes = 0, model_nodes = 0;  // as StagedModel counts them
  std::int64_t compiled_kernels = 0;
};

// One run. Inputs by name; each must be given, and says how large it is.
Result<StagedRun> run_staged(const onnx::Model& model,
                             const std::map<std::string, HostTensor>& inputs,
                             const CompileOptions& options, const StagedOptions& staged = {});

}  // namespace tessera::app

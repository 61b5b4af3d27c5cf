// Calibration data: inputs of a model, as NumPy files hold them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/app/compile/compile_options.h"
#include "tessera/app/compile/open_model.h"
#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {

using Sample = std::map<std::string, HostTensor>;  // by input

// Files .npz (arrays by input), .npy (the only input) and folders of both, in the order of their
// names. An array of several batches of the size that `shapes` or the model gives becomes as many
// samples. `inputs` are those that the model leaves open.
Result<std::vector<Sample>> read_samples(const std::vector<std::string>& paths,
                                         const onnx::Graph& graph,
                                         const std::vector<std::string>& inputs,
                                         const std::map<std::string, Shape>& shapes);

// A compiled model that runs samples.
class SampleRunner {
 public:
  // The shapes of the samples are those of the inputs.
  static Result<SampleRunner> open(onnx::Model model, const CompileOptions& options);

  // Inputs that the sample lacks keep what set() gave them last; there must be something.
  Result<void> run(const Sample& sample);
  HostTensor output(std::size_t index) const { return runner_->output(index); }
  const std::vector<std::string>& outputs() const { return open_->model().output_names; }
  // Seeded, for models without data.
  Sample random_sample(std::uint64_t seed) const;

 private:
  SampleRunner() = default;
  std::unique_ptr<OpenModel> open_;
  std::unique_ptr<exec::ModelRunner> runner_;
};

}  // namespace tessera::app

// Arrays of models in NumPy's files: .npz by name, or one .npy where a model has one of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/support/named_tensor.h"
#include "tessera/support/result.h"

namespace tessera::cli {

// `inputs` names the inputs of the model; it is asked about an .npy file only.
Result<NamedTensors> read_arrays(const std::string& path,
                                 const std::function<Result<std::vector<std::string>>()>& inputs);
Result<void> write_arrays(const std::string& path, const NamedTensors& outputs);

}  // namespace tessera::cli

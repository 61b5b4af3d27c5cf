// A trained language model as a file: safetensors with everything that is needed to use it again.
#pragma once

#include <map>
#include <string>

#include "tessera/learn/lm/language_network.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::lm {

struct TrainedLanguage {
  LanguageSpec spec;
  std::map<std::string, HostTensor> weights;  // by parameter name, f32, complete
  std::string schema;                         // digest of what the numbers of words mean
  // For people and for choosing: "recipe", "seed", "sentences", "held_out_loss", ...
  std::map<std::string, std::string> notes;
};

// How matrices are kept; vectors always in f32. Half of the bytes cost 2^-12 of a weight.
enum class WeightStorage : std::uint8_t { kF32, kF16 };

// Whole or not at all, checked on reading as cost models are (network_file.h). kInvalidArgument
// also for weights that f16 cannot hold.
Result<void> save_language(const TrainedLanguage& model, WeightStorage storage,
                           const std::string& path);
Result<TrainedLanguage> load_language(const std::string& path);

}  // namespace tessera::lm

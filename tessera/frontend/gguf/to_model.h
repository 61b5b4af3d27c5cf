// A decoder of text in a GGUF file as an ONNX model.
#pragma once

#include <string>

#include "tessera/frontend/gguf/weights.h"
#include "tessera/frontend/onnx/model.h"

namespace tessera::gguf {

// What the model reads and gives. Its dimensions are named "sequence", the tokens of a run,
// "capacity", those that the cache has room for, and "wanted", those of the run whose logits are
// wanted.
//   input_ids                     i64 [1, sequence]
//   position                      i64 [1]: how many tokens came before; so many rows of the cache
//                                 are read
//   last                          i64 [wanted]: of which tokens of the run logits are wanted.
//                                 Those behind them may be anything
//   past_key_values.N.key         f32 [1, heads, size, capacity]: queries meet them side by side
//   past_key_values.N.value       f32 [1, heads, capacity, size]
//   logits                        f32 [1, wanted, vocabulary]
//   new_key_values.N.key, value   f32 [1, heads, sequence, size]: the rows of the tokens of the
//   run,
//                                 for who keeps the cache to put behind the others
inline constexpr const char* kTokens = "input_ids";
inline constexpr const char* kPosition = "position";
inline constexpr const char* kLast = "last";
inline constexpr const char* kLogits = "logits";
inline constexpr const char* kSequence = "sequence";
inline constexpr const char* kCapacity = "capacity";
inline constexpr const char* kWanted = "wanted";
inline constexpr std::size_t kFirstCache = 3;  // of inputs; two for each layer, keys first
inline constexpr std::size_t kCachesOfLayer = 2, kKeyCache = 0;
inline constexpr std::size_t kFirstNewRows = 1;  // of outputs

// Errors name the file and the field or tensor.
Result<onnx::Model> to_model(const File& file, Values values = Values::kRead);

// Whether the file at `path` begins as GGUF files do.
bool is_gguf_file(const std::string& path);
Result<onnx::Model> load_model(const std::string& path, Values values = Values::kRead);

}  // namespace tessera::gguf

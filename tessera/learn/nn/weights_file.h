// Weights as a file: safetensors whose metadata says what they are, with a checksum over all of it.
#pragma once

#include <charconv>
#include <map>
#include <string>
#include <vector>

#include "tessera/learn/nn/network.h"
#include "tessera/support/safetensors.h"

namespace tessera::nn {

using Metadata = std::map<std::string, std::string>;

struct WeightsFormat {
  const char* name;  // in the file
  const char* what;  // for people: "a cost model"
  std::int64_t version;
};

// Whole or not at all. kInvalidArgument: text that is not UTF-8, which would not come back.
Result<void> write_weights(const std::string& path, const WeightsFormat& format, Metadata metadata,
                           const NamedTensors& tensors);
// kIo: damaged; kInvalidArgument: of another format or version, saying which.
Result<Safetensors> read_weights(const std::string& path, const WeightsFormat& format);

Error damaged_file(const std::string& reason);
Result<std::string> read_word(const Metadata& metadata, const std::string& key);
template <class T>
Result<T> read_number(const Metadata& metadata, const std::string& key) {
  TESSERA_TRY(const std::string text, read_word(metadata, key));
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end) {
    return damaged_file(fmt::format("{} '{}' is not a number", key, text));
  }
  return value;
}

// The sizes of a network and what people want to know of it, as entries of their own.
void add_hyper_and_notes(const Hyper& hyper, const Metadata& notes, Metadata* metadata);
Result<void> read_hyper_and_notes(const Metadata& metadata, Hyper* hyper, Metadata* notes);

// Vectors that lie in the file beside the weights.
NamedTensor vector_tensor(const std::string& name, const std::vector<float>& values);
// Takes it out of `weights`. kIo: missing; kInvalidArgument: not a vector of f32.
Result<std::vector<float>> take_vector(const std::string& name,
                                       std::map<std::string, HostTensor>* weights);

// Errors name the file they are about, once.
template <class T>
Result<T> naming_file(const std::string& path, Result<T> result) {
  if (result.ok() || result.error().message.starts_with(path)) return result;
  return result.error().with_context(path);
}

// Every parameter of the network `name` is there as finite f32 of its shape, and nothing else is.
Result<void> check_weights(const std::string& name, const std::vector<Parameter>& parameters,
                           const std::map<std::string, HostTensor>& weights);
bool all_finite(const float* values, std::int64_t count);

}  // namespace tessera::nn

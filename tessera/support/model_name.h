// How a user names a model: zoo:NAME@PARAM=VALUE,... for a built-in network, else a file.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

inline constexpr std::string_view kZooPrefix = "zoo:";

constexpr bool is_built_in(std::string_view model) { return model.starts_with(kZooPrefix); }
// Files of other kinds (plans, databases, lists of names) are told from models by this.
constexpr bool names_model(std::string_view text) {
  return is_built_in(text) || text.ends_with(".onnx") || text.ends_with(".gguf");
}
// The name of a built-in network alone, with its parameters; files stay as they are.
constexpr std::string_view without_zoo(std::string_view model) {
  return is_built_in(model) ? model.substr(kZooPrefix.size()) : model;
}
inline std::string with_zoo(std::string_view network) {
  return std::string(kZooPrefix).append(without_zoo(network));
}

}  // namespace tessera

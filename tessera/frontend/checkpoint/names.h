// What `transformers` and GGUF call the same.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera::checkpoint {

// A field of config.json, and that of a family in a GGUF file.
struct FieldName {
  const char* config = "";
  const char* gguf = "";
};
std::span<const FieldName> field_names();

// Of the tensors of one model. `norms_around`: layers have norms behind attention and the dense
// layers, too, which gives the name post_attention_layernorm another meaning (gemma2).
class Names {
 public:
  Names(std::string family, bool norms_around)
      : family_(std::move(family)), norms_around_(norms_around) {}

  // Empty: no tensor of a decoder is called so.
  std::string to_gguf(std::string_view tensor) const;
  // Of a field or a tensor; as it is when it has no other name.
  std::string to_config(std::string_view name) const;

 private:
  std::string family_;
  bool norms_around_ = false;
};

}  // namespace tessera::checkpoint

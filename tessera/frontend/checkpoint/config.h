// Sizes and numbers of a decoder in config.json as the metadata of a GGUF file.
#pragma once

#include <string>
#include <string_view>

#include "tessera/frontend/checkpoint/parts.h"

namespace tessera::checkpoint {

struct Config {
  std::string family;           // gguf::find_family() has it
  bool tied = false;            // the table of tokens gives the logits, too
  bool norms_around = false;    // Names
  bool norms_from_one = false;  // weights of norms lack 1
};

// Adds metadata, and tensors of scaled positions, to `parts`. Errors name `file` and the field.
Result<Config> read_config(std::string_view text, const std::string& file, Parts* parts);

}  // namespace tessera::checkpoint

// A folder with config.json and safetensors, as `transformers` saves models.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/gguf/file.h"

namespace tessera::checkpoint {

// kUnsupported: families, types of elements or quantisations that are not known, and folders
// whose weights are in another format.
Result<gguf::File> open_folder(const std::string& path);
// Absolute or relative as `path` is.
Result<std::vector<std::string>> folder_files(const std::string& path);

// Of the text of config.json and the bytes of one safetensors file, which stay where they are as
// long as `owner` lives.
Result<gguf::File> parse_folder(std::string_view config, std::string_view safetensors,
                                std::shared_ptr<const void> owner, std::string name);

}  // namespace tessera::checkpoint

// Language models as people have them: GGUF files, and folders that `transformers` saved.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/gguf/file.h"
#include "tessera/frontend/gguf/weights.h"
#include "tessera/frontend/onnx/model.h"

namespace tessera::checkpoint {

// Whether `path` is a folder or a file that begins as GGUF files do.
bool is_checkpoint(const std::string& path);
bool is_folder(const std::string& path);

// Errors name the file and the field or tensor as it calls them.
Result<gguf::File> open(const std::string& path);
// All files that open() reads: the path itself, or those of a folder.
Result<std::vector<std::string>> files(const std::string& path);
// The decoder (gguf/to_model.h).
Result<onnx::Model> load_model(const std::string& path, gguf::Values values = gguf::Values::kRead);

}  // namespace tessera::checkpoint

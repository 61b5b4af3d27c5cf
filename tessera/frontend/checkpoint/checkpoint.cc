#include "tessera/frontend/checkpoint/checkpoint.h"

#include <filesystem>

#include "tessera/frontend/checkpoint/folder.h"
#include "tessera/frontend/gguf/to_model.h"

namespace tessera::checkpoint {

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool is_checkpoint(const std::string& path) { return is_folder(path) || gguf::is_gguf_file(path); }

Result<gguf::File> open(const std::string& path) {
  if (is_folder(path)) return open_folder(path);
  std::error_code error;
  if (path.ends_with(".onnx") && std::filesystem::exists(path, error)) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: text is not generated from ONNX decoders, but from GGUF files, and "
                      "folders with config.json and safetensors",
                      path);
  }
  return gguf::File::open(path);
}

Result<std::vector<std::string>> files(const std::string& path) {
  if (!is_folder(path)) return std::vector{path};
  return folder_files(path);
}

Result<onnx::Model> load_model(const std::string& path, gguf::Values values) {
  TESSERA_TRY(const gguf::File file, open(path));
  return gguf::to_model(file, values);
}

}  // namespace tessera::checkpoint

#include "tessera/app/compile/model_source.h"

#include <filesystem>

#include "tessera/app/compile/load_graph.h"
#include "tessera/frontend/gguf/to_model.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tessera/support/checksum.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/model_name.h"

namespace tessera::app {

std::string file_digest(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return "";
  return Checksum::of(file->bytes()).digest();
}

namespace {

std::string identify(const std::string& spec) {
  if (spec.empty() || is_built_in(spec)) return spec;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(spec, error);
  const std::string digest = error ? "" : file_digest(path.string());
  return digest.empty() ? "" : fmt::format("file {} {}", path.string(), digest);
}

}  // namespace

Result<const onnx::Model*> ModelSource::model() {
  if (!model_) {
    std::error_code error;
    const bool is_file = !is_built_in(spec_) && std::filesystem::is_regular_file(spec_, error) &&
                         !gguf::is_gguf_file(spec_);
    beside_.clear();
    model_ = is_file ? onnx::load_model_files(spec_, &beside_) : load_onnx(spec_);
  }
  if (!model_->ok()) return model_->error();
  return &**model_;
}

void ModelSource::forget() {
  if (!spec_.empty()) model_.reset();
}

const std::string& ModelSource::identity() {
  if (!identity_) identity_ = identify(spec_);
  return *identity_;
}

bool ModelSource::changed() const { return identity_ && *identity_ != identify(spec_); }

std::optional<std::vector<exec::PreparedModel::Source>> ModelSource::sources() const {
  std::vector<exec::PreparedModel::Source> out;
  for (const std::string& path : beside_) {
    out.push_back({path, file_digest(path)});
    if (out.back().digest.empty()) return std::nullopt;
  }
  return out;
}

}  // namespace tessera::app

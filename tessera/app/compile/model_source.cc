#include "tessera/app/compile/model_source.h"

#include <filesystem>

#include "tessera/app/compile/load_graph.h"
#include "tessera/frontend/checkpoint/checkpoint.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tessera/support/checksum.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/model_name.h"

namespace tessera::app {

namespace {

std::string content_digest(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return "";
  return Checksum::of(file->bytes()).digest();
}

// Of all files of a model. Empty: one of them cannot be read.
std::string folder_digest(const std::string& path) {
  const Result<std::vector<std::string>> files = checkpoint::files(path);
  std::string out;
  for (const std::string& file : files.ok() ? *files : std::vector<std::string>()) {
    const std::string digest = content_digest(file);
    if (digest.empty()) return "";
    out += fmt::format("{} {}\n", std::filesystem::path(file).filename().string(), digest);
  }
  return out.empty() ? "" : Checksum::of(out).digest();
}

std::string identify(const std::string& spec) {
  if (spec.empty() || is_built_in(spec)) return spec;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(spec, error);
  if (error) return "";
  const std::string digest = file_digest(path.string());
  return digest.empty() ? "" : fmt::format("file {} {}", path.string(), digest);
}

}  // namespace

std::string file_digest(const std::string& path) {
  return checkpoint::is_folder(path) ? folder_digest(path) : content_digest(path);
}

Result<const onnx::Model*> ModelSource::model() {
  if (!model_) {
    std::error_code error;
    const bool is_file = !is_built_in(spec_) && std::filesystem::is_regular_file(spec_, error) &&
                         !checkpoint::is_checkpoint(spec_);
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

#include "tessera/learn/train/checkpoint.h"

#include <charconv>
#include <filesystem>

#include <fmt/ranges.h>

#include "tessera/support/safetensors.h"

namespace tessera::train {
namespace {

constexpr const char* kRun = "run.";  // in front of the names of a RunIdentity
constexpr const char* kFormat = "tessera training 2";

std::string file_of(const std::string& folder) { return folder + "/checkpoint.safetensors"; }

using Metadata = std::map<std::string, std::string>;

template <class T>
Result<T> read_number(const Metadata& metadata, const std::string& name) {
  const auto it = metadata.find(name);
  const std::string text = it == metadata.end() ? "" : it->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return make_error(ErrorCode::kIo, "a checkpoint whose {} is '{}'", name, text);
  }
  return value;
}

// "lr 0.001, not 0.01; ...": of the file, then wanted. Empty: the same.
std::string differences(const Metadata& metadata, const RunIdentity& run) {
  std::vector<std::string> out;
  for (const auto& [name, wanted] : run) {
    const auto it = metadata.find(kRun + name);
    const std::string text = it == metadata.end() ? "unknown" : it->second;
    if (text != wanted) out.push_back(fmt::format("{} {}, not {}", name, text, wanted));
  }
  return fmt::format("{}", fmt::join(out, "; "));
}

void append(const Weights& weights, const std::string& prefix, NamedTensors& to) {
  for (const auto& [name, tensor] : weights) to.push_back({prefix + name, tensor});
}

}  // namespace

bool has_checkpoint(const std::string& folder) {
  std::error_code error;
  return std::filesystem::is_regular_file(file_of(folder), error);
}

Result<void> save_checkpoint(const Checkpoint& checkpoint, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return make_error(ErrorCode::kIo, "cannot make {}: {}", folder, error.message());
  }
  NamedTensors tensors;
  append(checkpoint.weights, "weight/", tensors);
  append(checkpoint.best, "best/", tensors);
  append(checkpoint.optimizer.first, "first/", tensors);
  append(checkpoint.optimizer.second, "second/", tensors);
  Metadata metadata = {{"format", kFormat},
                       {"epoch", fmt::format("{}", checkpoint.epoch)},
                       {"steps", fmt::format("{}", checkpoint.optimizer.steps)},
                       {"best_epoch", fmt::format("{}", checkpoint.best_epoch)},
                       {"best_metric", fmt::format("{}", checkpoint.best_metric)}};
  for (const auto& [name, text] : checkpoint.run) metadata[kRun + name] = text;
  return write_safetensors(file_of(folder), tensors, metadata);
}

Result<Checkpoint> load_checkpoint(const std::string& folder, const RunIdentity& run) {
  TESSERA_TRY(const Safetensors file, read_safetensors(file_of(folder)));
  const auto text = [&](const char* name) {
    const auto it = file.metadata.find(name);
    return it == file.metadata.end() ? std::string() : it->second;
  };
  if (text("format") != kFormat) {
    return make_error(ErrorCode::kInvalidArgument, "{} is not a checkpoint of this version",
                      file_of(folder));
  }
  if (const std::string other = differences(file.metadata, run); !other.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "{} is of another run: {}", file_of(folder),
                      other);
  }
  Checkpoint out;
  out.run = run;
  TESSERA_TRY(out.epoch, read_number<int>(file.metadata, "epoch"));
  TESSERA_TRY(out.optimizer.steps, read_number<std::int64_t>(file.metadata, "steps"));
  TESSERA_TRY(out.best_epoch, read_number<int>(file.metadata, "best_epoch"));
  TESSERA_TRY(out.best_metric, read_number<double>(file.metadata, "best_metric"));
  const std::pair<std::string, Weights*> kinds[] = {{"weight/", &out.weights},
                                                    {"best/", &out.best},
                                                    {"first/", &out.optimizer.first},
                                                    {"second/", &out.optimizer.second}};
  for (const NamedTensor& entry : file.tensors) {
    for (const auto& [prefix, weights] : kinds) {
      if (entry.name.rfind(prefix, 0) != 0) continue;
      weights->emplace(entry.name.substr(prefix.size()), entry.tensor);
    }
  }
  return out;
}

}  // namespace tessera::train

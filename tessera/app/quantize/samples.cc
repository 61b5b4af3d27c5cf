#include "tessera/app/quantize/samples.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fmt/ranges.h>

#include "tessera/app/bench/model_inputs.h"
#include "tessera/support/npz.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

bool is_array_file(const fs::path& path) {
  return path.extension() == ".npz" || path.extension() == ".npy";
}

Result<std::vector<std::string>> array_files(const std::string& path) {
  std::error_code status;
  if (!fs::is_directory(path, status)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, status)) {
    if (is_array_file(entry.path())) files.push_back(entry.path().string());
  }
  if (status) return make_error(ErrorCode::kIo, "cannot read '{}': {}", path, status.message());
  if (files.empty())
    return make_error(ErrorCode::kInvalidArgument, "'{}' holds no .npz or .npy file", path);
  std::sort(files.begin(), files.end());
  return files;
}

Result<Sample> read_sample(const std::string& path, const std::vector<std::string>& inputs) {
  Sample sample;
  if (fs::path(path).extension() == ".npy") {
    if (inputs.size() != 1) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{} holds one array, the model has {} inputs: {}; give an .npz", path,
                        inputs.size(), fmt::join(inputs, " "));
    }
    TESSERA_TRY(sample[inputs[0]], read_npy(path));
    return sample;
  }
  TESSERA_TRY(NamedTensors arrays, read_npz(path));
  for (NamedTensor& t : arrays) {
    if (std::find(inputs.begin(), inputs.end(), t.name) == inputs.end()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: the model has no input '{}'; it has: {}",
                        path, t.name, fmt::join(inputs, " "));
    }
    sample[t.name] = std::move(t.tensor);
  }
  for (const std::string& name : inputs) {
    if (!sample.contains(name))
      return make_error(ErrorCode::kInvalidArgument, "{}: input '{}' is missing", path, name);
  }
  return sample;
}

// How many batches of the declared size every array holds; 1 where that cannot be said.
std::int64_t batches(const Sample& sample, const onnx::Graph& graph,
                     const std::map<std::string, Shape>& shapes) {
  std::optional<std::int64_t> count;
  for (const onnx::ValueInfo& input : graph.inputs) {
    const auto found = sample.find(input.name);
    if (found == sample.end()) continue;
    const Shape& shape = found->second.shape();
    const auto asked = shapes.find(input.name);
    const std::size_t rank = asked != shapes.end() ? asked->second.size() : input.dims.size();
    if (shape.size() != rank || shape.empty()) return 1;
    const std::int64_t size = asked != shapes.end() ? asked->second[0] : input.dims[0].size;
    if (size < 1 || shape[0] % size != 0) return 1;
    if (count && *count != shape[0] / size) return 1;
    count = shape[0] / size;
  }
  return count.value_or(1);
}

HostTensor part_of(const HostTensor& whole, std::int64_t part, std::int64_t parts) {
  Shape shape = whole.shape();
  shape[0] /= parts;
  HostTensor out(whole.dtype(), shape);
  std::memcpy(
      out.data(),
      static_cast<const std::byte*>(whole.data()) + static_cast<std::size_t>(part) * out.bytes(),
      out.bytes());
  return out;
}

}  // namespace

Result<std::vector<Sample>> read_samples(const std::vector<std::string>& paths,
                                         const onnx::Graph& graph,
                                         const std::vector<std::string>& inputs,
                                         const std::map<std::string, Shape>& shapes) {
  std::vector<Sample> samples;
  for (const std::string& path : paths) {
    TESSERA_TRY(const std::vector<std::string> files, array_files(path));
    for (const std::string& file : files) {
      TESSERA_TRY(const Sample read, read_sample(file, inputs));
      const std::int64_t parts = batches(read, graph, shapes);
      for (std::int64_t p = 0; p < parts; ++p) {
        Sample sample;
        for (const auto& [name, tensor] : read)
          sample[name] = parts == 1 ? tensor : part_of(tensor, p, parts);
        if (!samples.empty()) {
          for (const auto& [name, tensor] : sample) {
            const Shape& first = samples[0].at(name).shape();
            if (tensor.shape() == first) continue;
            return make_error(ErrorCode::kInvalidArgument,
                              "{}: input '{}' is of shape {}, in the first sample {}; samples "
                              "must have the same shapes",
                              file, name, to_text(tensor.shape()), to_text(first));
          }
        }
        samples.push_back(std::move(sample));
      }
    }
  }
  if (samples.empty()) return make_error(ErrorCode::kInvalidArgument, "no samples");
  return samples;
}

Result<SampleRunner> SampleRunner::open(onnx::Model model, const CompileOptions& options) {
  ModelSource source{Result<onnx::Model>(std::move(model))};
  SampleRunner out;
  TESSERA_TRY(OpenModel open, open_model(source, options));
  out.open_ = std::make_unique<OpenModel>(std::move(open));
  out.runner_ = std::make_unique<exec::ModelRunner>(out.open_->model(), *out.open_->device);
  return out;
}

Result<void> SampleRunner::run(const Sample& sample) {
  const std::vector<std::string>& names = open_->model().input_names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = sample.find(names[i]);
    if (found != sample.end()) TESSERA_DO(runner_->set_input(i, found->second));
  }
  return runner_->run();
}

Sample SampleRunner::random_sample(std::uint64_t seed) const {
  const std::vector<HostTensor> values = random_model_inputs(open_->model(), seed);
  Sample out;
  for (std::size_t i = 0; i < values.size(); ++i) out[open_->model().input_names[i]] = values[i];
  return out;
}

}  // namespace tessera::app

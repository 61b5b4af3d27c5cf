#include "tessera/app/report/bench_runs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include <nlohmann/json.hpp>

#include "tessera/support/files.h"

namespace tessera::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
// Results of fewer bits are still results: beyond this share of the range they are something else.
constexpr double kLargestError = 0.1;

double positive(const json& j, const char* name) {
  const double value = j.at(name).get<double>();
  if (!(value > 0) || !std::isfinite(value))
    throw std::runtime_error(fmt::format("'{}' is {}, not a positive number", name, value));
  return value;
}

// What was measured and computes the model, in whatever precision.
bool counts(const json& peer) {
  if (peer.contains("absent")) return false;
  if (peer.at("verified").get<bool>()) return true;
  // JSON has no infinity: null where outputs are not numbers.
  const auto error = peer.find("range_error");
  return error != peer.end() && error->is_number() && error->get<double>() <= kLargestError;
}

// Quantised networks compute mostly in bytes, whatever the type of their inputs.
std::string dtype_of(const json& j, const std::string& name) {
  return name.find("quant=") != std::string::npos ? "int8" : j.value("dtype", "f32");
}

TimedModel model_of(const json& j) {
  const std::string name = j.at("name").get<std::string>();
  TimedModel m{.name = name,
               .device = j.value("device", "cpu"),
               .dtype = dtype_of(j, name),
               .threads = j.at("threads").get<int>(),
               .batch = j.value("batch", std::int64_t{1}),
               .median_us = positive(j, "median_us"),
               .trusted = j.at("trusted").get<bool>()};
  for (const json& p : j.at("peers")) {
    if (!counts(p)) continue;
    m.peers.push_back({.name = p.at("name").get<std::string>(),
                       .version = p.value("version", ""),
                       .median_us = positive(p, "median_us"),
                       .ratio = positive(p, "ratio"),
                       .same_precision = p.at("verified").get<bool>(),
                       .trusted = p.at("trusted").get<bool>()});
  }
  return m;
}

BenchRunFile file_of(const json& j) {
  if (const int format = j.at("format").get<int>(); format != kFormat)
    throw std::runtime_error(fmt::format("format {}, not {}", format, kFormat));
  BenchRunFile file{.machine = j.at("machine").at("name").get<std::string>(),
                    .description = j.at("machine").at("description").get<std::string>(),
                    .version = j.at("version").get<std::string>(),
                    .date = j.at("date").get<std::string>(),
                    .command = j.at("command").get<std::string>(),
                    .note = j.value("note", "")};
  for (const json& r : j.at("results")) {
    // A wrong result has no time.
    if (r.at("verified").get<bool>()) file.models.push_back(model_of(r));
  }
  return file;
}

}  // namespace

Result<BenchRunFile> bench_run_from_json(const std::string& text) {
  try {
    return file_of(json::parse(text));
  } catch (const std::exception& e) {
    return make_error(ErrorCode::kInvalidArgument, "not a recorded run of `tessera bench`: {}",
                      e.what());
  }
}

Result<std::vector<BenchRunFile>> read_bench_runs(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  if (error) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {}", folder, error.message());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<BenchRunFile> files;
  for (const std::string& path : paths) {
    TESSERA_TRY(const std::string text, read_file(path));
    Result<BenchRunFile> file = bench_run_from_json(text);
    if (!file.ok()) return file.error().with_context(path);
    files.push_back(std::move(file).value());
  }
  std::stable_sort(files.begin(), files.end(), [](const BenchRunFile& a, const BenchRunFile& b) {
    return std::tie(a.machine, a.date) < std::tie(b.machine, b.date);
  });
  return files;
}

}  // namespace tessera::report

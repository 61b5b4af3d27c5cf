// Folders of tiny models as the package transformers saves them (make_cases.py).
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/support/safetensors.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::checkpoint::testing {

using nlohmann::json;

inline const json& cases() {
  static const json file = [] {
    std::ifstream in(TESSERA_ROOT "/tests/checkpoint/cases.json");
    return json::parse(in);
  }();
  return file;
}

inline const json& case_named(const std::string& name) {
  for (const json& c : cases()["cases"]) {
    if (c["name"] == name) return c;
  }
  throw std::runtime_error("no case " + name);
}

// weights() of make_cases.py.
inline HostTensor weights(const std::string& name, DType dtype, const Shape& shape,
                          double norm_base) {
  HostTensor out(dtype, shape);
  std::uint32_t state = 2166136261U;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 16777619U;
  const bool norm = name.find("norm") != std::string::npos;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    const double step = norm ? (static_cast<double>(state >> 27) - 16) / 32
                             : (static_cast<double>(state >> 25) - 64) / 256;
    out.set_float(i, norm ? norm_base + step : step);
  }
  return out;
}

inline NamedTensors tensors_of(const json& c) {
  NamedTensors out;
  for (const auto& [name, t] : c["tensors"].items()) {
    const DType dtype = t["dtype"] == "F32"   ? DType::kF32
                        : t["dtype"] == "F16" ? DType::kF16
                                              : DType::kBF16;
    out.push_back({name, weights(name, dtype, t["shape"].get<Shape>(), c["norm_base"])});
  }
  return out;
}

inline void save_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// config.json and model.safetensors.
inline void save_folder(const json& c, const std::string& folder) {
  save_text(folder + "/config.json", c["config"].dump());
  const auto written =
      write_safetensors(folder + "/model.safetensors", tensors_of(c), {{"format", "pt"}});
  ASSERT_TRUE(written.ok()) << written.error().message;
}

}  // namespace tessera::checkpoint::testing

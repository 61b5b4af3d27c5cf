#include "tests/cli/model_files.h"

#include <cctype>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/support/npz.h"
#include "tests/cli/process.h"

namespace tessera::cli {

namespace {

using onnx::testing::float_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_node;

}  // namespace

std::string save(const std::string& name, const onnx::Model& model) {
  const std::string path = write_file(name, "");
  const Result<void> saved = onnx::save_model(model, path);
  EXPECT_TRUE(saved.ok()) << saved.error().message;
  return path;
}

std::string save_arrays(const std::string& name, const NamedTensors& arrays) {
  const std::string path = write_file(name, "");
  const Result<void> saved = write_npz(path, arrays);
  EXPECT_TRUE(saved.ok()) << saved.error().message;
  return path;
}

NamedTensors load_arrays(const std::string& path) {
  Result<NamedTensors> arrays = read_npz(path);
  EXPECT_TRUE(arrays.ok()) << arrays.error().message;
  return arrays.ok() ? std::move(arrays).value() : NamedTensors{};
}

onnx::ValueInfo floats(const std::string& name, const std::vector<std::string>& sizes) {
  onnx::ValueInfo info{name, "f32", true, {}};
  for (const std::string& size : sizes) {
    const bool number = std::isdigit(static_cast<unsigned char>(size[0])) != 0;
    info.dims.push_back(number ? onnx::Dim{std::stoll(size), ""} : onnx::Dim{-1, size});
  }
  return info;
}

onnx::Model symbolic_model() {
  return onnx::testing::make_model(
      make_graph({floats("x", {"N", "C", "4"})}, {make_node("Relu", {"x"}, {"y"})}, {"y"}));
}

onnx::Model linear_model() {
  return onnx::testing::make_model(make_graph(
      {floats("x", {"2", "3"})}, {make_node("Gemm", {"x", "w", "b"}, {"y"})}, {"y"},
      {{"w", float_tensor({3, 2}, {1, 2, 3, 4, 5, 6})}, {"b", float_tensor({2}, {10, 20})}}));
}

onnx::Model unsupported_model() {
  onnx::Node riddle = make_node("Mystery", {"t"}, {"y"});
  riddle.name = "riddle";
  return onnx::testing::make_model(
      make_graph({floats("x", {"2", "3"})}, {make_node("Relu", {"x"}, {"t"}), riddle}, {"y"}));
}

onnx::Model nonzero_model() {
  return onnx::testing::make_model(
      make_graph({floats("x", {"2", "2"})}, {make_node("NonZero", {"x"}, {"y"})}, {"y"}));
}

}  // namespace tessera::cli

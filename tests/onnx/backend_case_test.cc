#include "tessera/frontend/onnx/backend_case.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "model_builder.h"
#include "tessera/frontend/onnx/backend_values.h"

namespace tessera::onnx {
namespace {

namespace fs = std::filesystem;
using testing::float_tensor;
using ::testing::HasSubstr;
using testing::make_graph;
using testing::make_model;
using testing::make_node;
using testing::value_info;

TEST(BackendMismatch, ComparesAsTheOnnxRunner) {
  const double nan = std::nan("");
  const HostTensor want = float_tensor({3}, {1, nan, INFINITY});
  EXPECT_EQ(backend_mismatch(float_tensor({3}, {1.0009, nan, INFINITY}), want), "");
  EXPECT_THAT(backend_mismatch(float_tensor({3}, {1.002, nan, INFINITY}), want),
              HasSubstr("1 of 3 elements differ, first [0]"));
  EXPECT_NE(backend_mismatch(float_tensor({3}, {1, 0, INFINITY}), want), "");
  EXPECT_NE(backend_mismatch(float_tensor({3}, {1, nan, -INFINITY}), want), "");
  EXPECT_THAT(backend_mismatch(float_tensor({1}, {1}), want), HasSubstr("f32[1], want f32[3]"));
}

// A case y = -x below a folder of its own.
class BackendCase : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("tessera_backend_{}", ::getpid());
    fs::remove_all(root_);
    folder_ = root_ / "node" / "test_neg";
    fs::create_directories(folder_ / "test_data_set_0");
    Model model = make_model(
        make_graph({value_info("x", DType::kF32, {2})}, {make_node("Neg", {"x"}, {"y"})}, {}));
    model.graph.outputs = {value_info("y", DType::kF32, {2})};
    ASSERT_TRUE(save_model(model, (folder_ / "model.onnx").string()).ok());
    write("input_0.pb", float_tensor({2}, {1, -2}));
    write("output_0.pb", float_tensor({2}, {-1, 2}));
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const HostTensor& tensor) const {
    std::ofstream(folder_ / "test_data_set_0" / name, std::ios::binary)
        << *serialize_tensor(tensor, "t");
  }

  fs::path root_, folder_;
};

TEST_F(BackendCase, IsFoundAndPasses) {
  const auto cases = find_backend_cases(root_.string());
  ASSERT_TRUE(cases.ok());
  EXPECT_EQ(*cases, std::vector<std::string>{folder_.string()});
  EXPECT_EQ(run_backend_case(folder_.string(), {}).verdict, Verdict::kPass);
  CaseOptions eager;
  eager.eager = true;
  EXPECT_EQ(run_backend_case(folder_.string(), eager).verdict, Verdict::kPass);
  EXPECT_EQ(find_backend_cases("/nonexistent").error().code, ErrorCode::kIo);
}

TEST_F(BackendCase, FailsOnOtherOutputs) {
  write("output_0.pb", float_tensor({2}, {-1, 3}));
  const CaseResult result = run_backend_case(folder_.string(), {});
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_THAT(result.reason, HasSubstr("output 0: 1 of 2 elements differ, first [1]: 2, want 3"));
}

TEST_F(BackendCase, FailsOnDamagedFiles) {
  std::ofstream(folder_ / "model.onnx") << "damaged";
  EXPECT_EQ(run_backend_case(folder_.string(), {}).verdict, Verdict::kFail);
}

TEST(BackendValues, SequencesBecomeTensors) {
  Model model = make_model(make_graph({{"s", "sequence", false, {}}},
                                      {make_node("SequenceInsert", {"s", "x"}, {"t"})}, {"t"},
                                      {{"x", float_tensor({1}, {9})}}));
  for (const std::size_t length : {std::size_t{0}, std::size_t{2}}) {
    BackendValue in{BackendValue::Kind::kSequence, {}};
    for (std::size_t i = 0; i < length; ++i) {
      in.tensors.push_back(float_tensor({1}, {static_cast<double>(i)}));
    }
    BackendValue out = in;
    out.tensors.push_back(float_tensor({1}, {9}));
    const auto tensors_only = with_tensor_border(model, {in}, {out});
    ASSERT_TRUE(tensors_only.ok()) << tensors_only.error().message;
    const auto graph = import_model(*tensors_only);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    EXPECT_EQ(graph->inputs.size(), length);
    const auto got = graph::evaluate(*graph, input_tensors({in}));
    ASSERT_TRUE(got.ok()) << got.error().message;
    const std::vector<HostTensor> want = output_tensors({out});
    ASSERT_EQ(got->size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(backend_mismatch((*got)[i], want[i]), "");
  }
}

TEST(BackendValues, AbsentOptionals) {
  const auto absent = parse_backend_value("", "optional");
  ASSERT_TRUE(absent.ok());
  EXPECT_EQ(absent->kind, BackendValue::Kind::kAbsent);
  const Model model = make_model(make_graph(
      {{"o", "optional", false, {}}}, {make_node("OptionalHasElement", {"o"}, {"y"})}, {"y"}));
  const auto tensors_only = with_tensor_border(model, {*absent}, {});
  ASSERT_TRUE(tensors_only.ok());
  const auto graph = import_model(*tensors_only);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->constant(graph->outputs[0])->get_int(0), 0);
  EXPECT_EQ(with_tensor_border(model, {*absent}, {*absent}).error().code, ErrorCode::kUnsupported);
}

TEST(BackendValues, RefusesDamagedBytesAndForeignElements) {
  EXPECT_EQ(parse_backend_value("\x1a\x7f", "sequence").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parse_backend_value("\x1a\x02\x10\x08", "sequence").error().code,
            ErrorCode::kUnsupported);  // one tensor of strings
  EXPECT_EQ(parse_backend_value("\x10\x03", "sequence").error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(is_backend_type("map"));
}

}  // namespace
}  // namespace tessera::onnx

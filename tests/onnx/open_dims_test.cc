// Sizes that nobody gave: what the model itself implies, what is a batch, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/frontend/onnx/input_types.h"
#include "tessera/frontend/onnx/literal.h"
#include "tests/onnx/model_builder.h"

namespace tessera::onnx {
namespace {

using testing::body_attribute;
using testing::bool_scalar;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::int_tensor;
using testing::make_graph;
using testing::make_model;
using testing::make_node;

// Sizes that are no numbers are symbols; "?" has no name.
ValueInfo input(const std::string& name, const std::vector<std::string>& sizes,
                const std::string& type = "f32") {
  ValueInfo info{name, type, true, {}};
  for (const std::string& size : sizes) {
    const bool number = size.find_first_not_of("0123456789") == std::string::npos;
    info.dims.push_back(number ? Dim{std::stoll(size), ""} : Dim{-1, size == "?" ? "" : size});
  }
  return info;
}

Initializer weights(const std::string& name, const Shape& shape) {
  return {name, HostTensor(DType::kF32, shape)};
}

Initializer integers(const std::string& name, const std::vector<std::int64_t>& values) {
  return {name, int_tensor({static_cast<std::int64_t>(values.size())}, values)};
}

Shape shape_of(const Graph& graph, std::size_t i, const ImportOptions& options = {}) {
  const auto resolved = resolve_inputs(graph, options);
  EXPECT_TRUE(resolved.ok()) << resolved.error().message;
  return resolved.ok() ? resolved->inputs.at(i).type.shape : Shape{};
}

std::string refusal(const Graph& graph, const ImportOptions& options = {}) {
  const auto resolved = resolve_inputs(graph, options);
  EXPECT_FALSE(resolved.ok());
  if (resolved.ok()) return "";
  EXPECT_EQ(resolved.error().code, ErrorCode::kInvalidArgument);
  return resolved.error().message;
}

TEST(OpenDims, BatchesAreOne) {
  for (const char* name : {"N", "batch", "batch_size", "?", "unk__12"}) {
    EXPECT_EQ(shape_of(make_graph({input("x", {name, "3"})}, {}, {"x"}), 0), (Shape{1, 3})) << name;
  }
  // ... wherever their name says so.
  EXPECT_EQ(shape_of(make_graph({input("x", {"3", "batch_size"})}, {}, {"x"}), 0), (Shape{3, 1}));
  const Graph state = make_graph({input("h", {"2", "N", "8"}), input("x", {"N", "4"})}, {}, {"x"});
  EXPECT_EQ(shape_of(state, 0), (Shape{2, 1, 8}));
  // A letter behind a batch counts something else.
  EXPECT_THAT(refusal(make_graph({input("sound", {"batch_size", "N"})}, {}, {"sound"})),
              HasSubstr("--dim N=SIZE"));
}

TEST(OpenDims, FirstAxesThatAreNoBatches) {
  for (const char* name : {"sequence_length", "num_boxes", "T", "time"}) {
    EXPECT_THAT(refusal(make_graph({input("x", {name, "3"})}, {}, {"x"})),
                HasSubstr(std::string("--dim ") + name + "=SIZE"));
  }
  EXPECT_THAT(refusal(make_graph({input("x", {"k"})}, {}, {"x"})), HasSubstr("--dim k=SIZE"));
  EXPECT_THAT(refusal(make_graph({input("x", {"k", "k"})}, {}, {"x"})), HasSubstr("--dim k=SIZE"));
}

TEST(OpenDims, TheMessageHasEveryDimensionAndItsFlag) {
  EXPECT_EQ(refusal(make_graph({input("x", {"N", "3", "h", "w"}), input("ids", {"?", "?"}, "i64")},
                               {}, {"x", "ids"})),
            "the model leaves sizes of inputs 'x' f32[N,3,h,w] and 'ids' i64[?,?] open; set "
            "them with --shape ids:1xSIZE --dim h=SIZE --dim w=SIZE");
  EXPECT_THAT(
      refusal(make_graph({input("a", {"2", "s"}), input("b", {"2", "s"}), input("c", {"2", "s"})},
                         {}, {"a", "b", "c"})),
      HasSubstr("sizes of inputs 'a' f32[2,s], 'b' f32[2,s] and 'c' f32[2,s] open"));
}

TEST(OpenDims, WeightsImplyChannelsAndFeatures) {
  const Graph conv =
      make_graph({input("x", {"N", "c", "8", "8"})},
                 {make_node("Conv", {"x", "k"}, {"y"}, {{"group", std::int64_t{2}, ""}})}, {"y"},
                 {weights("k", {4, 3, 3, 3})});
  EXPECT_EQ(shape_of(conv, 0), (Shape{1, 6, 8, 8}));
  const Graph dense =
      make_graph({input("x", {"N", "s", "f"})},
                 {make_node("MatMul", {"x", "w"}, {"a"}), make_node("Add", {"a", "p"}, {"y"})},
                 {"y"}, {weights("w", {12, 5}), weights("p", {1, 7, 5})});
  EXPECT_EQ(shape_of(dense, 0), (Shape{1, 7, 12}));
  const auto resolved = resolve_inputs(dense, {});
  EXPECT_THAT(resolved->sizes.implied, ElementsAre("s", "f"));
}

TEST(OpenDims, RecurrentWeightsImplyStates) {
  const Graph lstm = make_graph(
      {input("x", {"9", "N", "f"}), input("h", {"d", "N", "u"}), input("c", {"d", "N", "v"})},
      {make_node("LSTM", {"x", "w", "r", "", "", "h", "c"}, {"y"},
                 {{"hidden_size", std::int64_t{4}, ""}})},
      {"y"}, {weights("w", {1, 16, 3}), weights("r", {1, 16, 4})});
  EXPECT_EQ(shape_of(lstm, 0), (Shape{9, 1, 3}));
  EXPECT_EQ(shape_of(lstm, 2), (Shape{1, 1, 4}));
}

TEST(OpenDims, ReshapesImplyWhatIsLeft) {
  const Graph flat =
      make_graph({input("x", {"N", "8", "w"})},
                 {make_node("Flatten", {"x"}, {"f"}), make_node("Gemm", {"f", "k"}, {"y"})}, {"y"},
                 {weights("k", {40, 2})});
  EXPECT_EQ(shape_of(flat, 0), (Shape{1, 8, 5}));
  const Graph known =
      make_graph({input("x", {"N", "8", "w"})}, {make_node("Reshape", {"x", "to"}, {"y"})}, {"y"},
                 {integers("to", {0, 4, 6})});
  EXPECT_EQ(shape_of(known, 0), (Shape{1, 8, 3}));
  // Both sizes of an image: many pairs fit.
  const Graph image =
      make_graph({input("x", {"N", "3", "h", "w"})},
                 {make_node("Flatten", {"x"}, {"f"}), make_node("Gemm", {"f", "k"}, {"y"})}, {"y"},
                 {weights("k", {48, 2})});
  EXPECT_THAT(refusal(image), HasSubstr("--dim h=SIZE --dim w=SIZE"));
  ImportOptions half;
  half.symbols["h"] = 8;
  EXPECT_EQ(shape_of(image, 0, half), (Shape{1, 3, 8, 2}));
}

TEST(OpenDims, StridesLeaveARange) {
  const auto model = [](std::int64_t stride) {
    return make_graph(
        {input("x", {"N", "1", "w"})},
        {make_node("Conv", {"x", "k"}, {"c"}, {{"strides", std::vector<std::int64_t>{stride}, ""}}),
         make_node("Flatten", {"c"}, {"f"}), make_node("Gemm", {"f", "d"}, {"y"})},
        {"y"}, {weights("k", {2, 1, 3}), weights("d", {10, 2})});
  };
  EXPECT_EQ(shape_of(model(1), 0), (Shape{1, 1, 7}));
  EXPECT_THAT(refusal(model(2)), HasSubstr("--dim w=SIZE"));  // 11 and 12 give five positions
}

TEST(OpenDims, SumsOfNames) {
  const Graph cache = make_graph(
      {input("ids", {"batch", "seq"}, "i64"), input("mask", {"batch", "past + seq"}, "i64")}, {},
      {"ids", "mask"});
  EXPECT_THAT(refusal(cache), HasSubstr("--dim seq=SIZE --dim past=SIZE"));
  ImportOptions options;
  options.symbols = {{"past", 3}, {"seq", 2}};
  EXPECT_EQ(shape_of(cache, 1, options), (Shape{1, 5}));
  options = {};
  options.shapes = {{"ids", {4, 2}}, {"mask", {4, 6}}};
  EXPECT_EQ(shape_of(cache, 1, options), (Shape{4, 6}));
  options = {};
  options.symbols = {{"past + seq", 7}, {"seq", 2}};
  EXPECT_EQ(shape_of(cache, 1, options), (Shape{1, 7}));
}

TEST(OpenDims, SumsFollowThroughTheGraph) {
  // scores of new keys behind cached ones, plus a mask over both.
  const Graph cache =
      make_graph({input("past", {"batch", "p"}), input("now", {"batch", "s"}),
                  input("mask", {"batch", "all"})},
                 {make_node("Concat", {"past", "now"}, {"keys"}, {{"axis", std::int64_t{1}, ""}}),
                  make_node("Add", {"keys", "mask"}, {"y"})},
                 {"y"});
  ImportOptions options;
  options.symbols = {{"p", 3}, {"s", 2}};
  EXPECT_EQ(shape_of(cache, 2, options), (Shape{1, 5}));
}

TEST(OpenDims, AssumedSizesStillFollowEachOther) {
  const Graph two =
      make_graph({input("a", {"N", "h"}), input("b", {"N", "k"})},
                 {make_node("Concat", {"a", "b"}, {"c"}, {{"axis", std::int64_t{1}, ""}}),
                  make_node("MatMul", {"c", "w"}, {"y"})},
                 {"y"}, {weights("w", {30, 2})});
  ImportOptions options;
  options.assumed_size = 20;
  EXPECT_EQ(shape_of(two, 1, options), (Shape{1, 10}));
  EXPECT_THAT(resolve_inputs(two, options)->sizes.assumed, ElementsAre("h"));
}

TEST(OpenDims, CheckReportsWhatItTried) {
  const Model model = make_model(make_graph({input("x", {"N", "c", "h", "8"})},
                                            {make_node("Conv", {"x", "k"}, {"y"})}, {"y"},
                                            {weights("k", {2, 3, 3, 3})}));
  const auto report = check_model(model);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->implied, (std::map<std::string, std::int64_t>{{"c", 3}}));
  EXPECT_EQ(report->assumed, (std::map<std::string, std::int64_t>{{"h", 224}}));
  EXPECT_EQ(import_model(model).error().code, ErrorCode::kInvalidArgument);
}

TEST(OpenDims, CheckTriesOtherSizesBeforeItGivesUp) {
  const auto model = [](std::int64_t first, std::int64_t second) {
    return make_model(
        make_graph({input("x", {"N", "h"})},
                   {make_node("Split", {"x", "to"}, {"a", "b"}, {{"axis", std::int64_t{1}, ""}})},
                   {"a", "b"}, {integers("to", {first, second})}));
  };
  EXPECT_TRUE(check_model(model(60, 4)).ok());  // only 64 fits
  const auto none = check_model(model(3, 4));
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("--dim h=SIZE"));
}

TEST(Literals, TakeTypeAndShapeFromTheModel) {
  const auto text = [](const std::string& value, DType dtype, const Shape& shape) {
    return tensor_from_text(value, {dtype, shape});
  };
  EXPECT_EQ(text("16000", DType::kI64, {})->get_int(0), 16000);
  EXPECT_EQ(text("true", DType::kBool, {1})->get_int(0), 1);
  EXPECT_EQ(text("0.5", DType::kF32, {2, 2})->get_float(3), 0.5);
  EXPECT_EQ(text("[1, -2,3]", DType::kI32, {3})->get_int(1), -2);
  EXPECT_EQ(text("1e-3,2,3,4", DType::kF32, {2, 2})->get_float(3), 4);
  EXPECT_THAT(text("1,2", DType::kF32, {3}).error().message, HasSubstr("2 numbers are given for"));
  EXPECT_THAT(text("x", DType::kF32, {}).error().message, HasSubstr("'x' is not a number"));
  EXPECT_THAT(text("1.5", DType::kI64, {}).error().message, HasSubstr("'1.5' is not a number"));
  EXPECT_THAT(text("300", DType::kU8, {}).error().message, HasSubstr("of type u8"));
  EXPECT_THAT(text("true", DType::kF32, {}).error().message, HasSubstr("of type f32"));
  EXPECT_FALSE(text("", DType::kF32, {}).ok());
  EXPECT_FALSE(text("1,", DType::kF32, {2}).ok());
}

TEST(Literals, FixInputs) {
  Graph then_branch = make_graph({}, {make_node("Neg", {"x"}, {"r"})}, {"r"});
  Graph else_branch = make_graph({}, {make_node("Abs", {"x"}, {"r"})}, {"r"});
  const Model model = make_model(
      make_graph({input("x", {"2"}), input("flag", {}, "bool"), input("to", {"k"}, "i64")},
                 {make_node("If", {"flag"}, {"b"},
                            {body_attribute("then_branch", then_branch),
                             body_attribute("else_branch", else_branch)}),
                  make_node("Reshape", {"b", "to"}, {"y"})},
                 {"y"}));
  ImportOptions options;
  options.symbols["k"] = 2;
  EXPECT_EQ(import_model(model, options).error().code, ErrorCode::kDataDependent);
  options = {};
  options.literals = {{"flag", "true"}, {"to", "[1,2,1]"}};  // the list says how long it is
  const auto graph = import_model(model, options);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->inputs.size(), 1u);
  EXPECT_EQ(graph->shape(graph->outputs[0]), (Shape{1, 2, 1}));
  options.literals["nothing"] = "1";
  EXPECT_THAT(import_model(model, options).error().message, HasSubstr("no input 'nothing'"));
}

}  // namespace
}  // namespace tessera::onnx

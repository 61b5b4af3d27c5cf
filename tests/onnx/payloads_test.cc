// Weights that stay in the file: where they lie, what is refused, what outlines leave out.
#include "tessera/frontend/onnx/payloads.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_builder.h"
#include "tessera/frontend/onnx/import.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"
#include "tessera_onnx.pb.h"

namespace tessera::onnx {
namespace {

namespace pb = ::tessera_onnx;
using ::testing::HasSubstr;
using testing::make_graph;
using testing::make_model;
using testing::make_node;
using testing::value_info;

pb::TensorProto floats(const std::string& name, std::int64_t count, float first) {
  pb::TensorProto t;
  t.set_name(name);
  t.set_data_type(1);
  t.add_dims(count);
  std::string raw;
  for (std::int64_t i = 0; i < count; ++i) {
    const float v = first + static_cast<float>(i);
    raw.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  t.set_raw_data(raw);
  return t;
}

pb::ModelProto empty_model() {
  pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  model.mutable_graph()->set_name("g");
  return model;
}

// One large tensor in every place that may hold one, and a small one.
pb::ModelProto tensors_everywhere() {
  pb::ModelProto model = empty_model();
  pb::GraphProto& graph = *model.mutable_graph();
  *graph.add_initializer() = floats("small", 5, 1);
  *graph.add_initializer() = floats("large", 3000, 2);
  pb::NodeProto* constant = graph.add_node();
  constant->set_op_type("Constant");
  constant->add_output("c");
  pb::AttributeProto* value = constant->add_attribute();
  value->set_name("value");
  value->set_type(4);
  *value->mutable_t() = floats("", 2000, 3);
  pb::NodeProto* branch = graph.add_node();
  branch->set_op_type("If");
  branch->add_input("b");
  branch->add_output("y");
  pb::AttributeProto* body = branch->add_attribute();
  body->set_name("then_branch");
  body->set_type(5);
  *body->mutable_g()->add_initializer() = floats("inner", 1500, 4);
  pb::FunctionProto* function = model.add_functions();
  function->set_name("f");
  pb::AttributeProto* list = function->add_node()->add_attribute();
  list->set_name("list");
  list->set_type(9);
  *list->add_tensors() = floats("", 1200, 5);
  return model;
}

void expect_values(const HostTensor& t, std::int64_t count, float first) {
  ASSERT_EQ(t.size(), count);
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(t.get_float(i), first + static_cast<float>(i)) << i;
  }
}

void expect_everywhere(const Model& model) {
  const Graph& g = model.graph;
  ASSERT_EQ(g.initializers.size(), 2u);
  expect_values(std::get<HostTensor>(g.initializers[0].value), 5, 1);
  expect_values(std::get<HostTensor>(g.initializers[1].value), 3000, 2);
  expect_values(std::get<HostTensor>(g.nodes[0].find("value")->value), 2000, 3);
  const auto& body = *std::get<std::shared_ptr<const Graph>>(g.nodes[1].find("then_branch")->value);
  expect_values(std::get<HostTensor>(body.initializers[0].value), 1500, 4);
  const auto& list =
      std::get<std::vector<HostTensor>>(model.functions[0].nodes[0].find("list")->value);
  expect_values(list[0], 1200, 5);
}

TEST(Payloads, LargeTensorsAreLeftOut) {
  const std::string bytes = tensors_everywhere().SerializeAsString();
  const std::optional<std::string> rest = without_payloads(bytes);
  ASSERT_TRUE(rest.has_value());
  EXPECT_LT(rest->size(), 1000u);
  pb::ModelProto parsed;
  ASSERT_TRUE(parsed.ParseFromString(*rest));
  const pb::TensorProto& large = parsed.graph().initializer(1);
  EXPECT_FALSE(large.has_raw_data());
  EXPECT_EQ(large.raw_place().end() - large.raw_place().begin(), 12000);
  float first = 0;
  std::memcpy(&first, bytes.data() + large.raw_place().begin(), sizeof first);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(parsed.graph().initializer(0).raw_data().size(), 20u);
}

TEST(Payloads, TheModelIsTheSame) {
  const std::string bytes = tensors_everywhere().SerializeAsString();
  const auto parsed = parse_model(bytes, "");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  expect_everywhere(*parsed);
  const TemporaryFolder folder = TemporaryFolder::make("payloads").value();
  ASSERT_TRUE(write_file(folder.path() + "/m.onnx", {bytes}).ok());
  const auto loaded = load_model(folder.path() + "/m.onnx");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  std::filesystem::remove(folder.path() + "/m.onnx");
  expect_everywhere(*loaded);
}

TEST(Payloads, NothingIsLeftOutOfOtherBytes) {
  EXPECT_FALSE(without_payloads("").has_value());
  EXPECT_FALSE(without_payloads(empty_model().SerializeAsString()).has_value());
  const std::string bytes = tensors_everywhere().SerializeAsString();
  // Cut short, both graphs at once (protobuf merges them), groups.
  EXPECT_FALSE(without_payloads(std::string_view(bytes).substr(0, bytes.size() - 1)).has_value());
  EXPECT_FALSE(without_payloads(bytes + bytes).has_value());
  EXPECT_FALSE(without_payloads(bytes + "\x0b").has_value());
  for (std::size_t cut = 0; cut < bytes.size(); cut += 997) {
    const std::string_view part = std::string_view(bytes).substr(0, cut);
    EXPECT_FALSE(parse_model(part, "").ok() && cut < 12000) << cut;
  }
}

TEST(Payloads, TwoGraphsAreMergedAsProtobufDoes) {
  pb::ModelProto first = empty_model(), second;
  *first.mutable_graph()->add_initializer() = floats("a", 3000, 1);
  *second.mutable_graph()->add_initializer() = floats("b", 3000, 7);
  const auto model = parse_model(first.SerializeAsString() + second.SerializeAsString(), "");
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->graph.initializers.size(), 2u);
  expect_values(std::get<HostTensor>(model->graph.initializers[1].value), 3000, 7);
}

// The field is ours, but a file may hold it.
TEST(Payloads, PlacesOutsideTheFileAreRefused) {
  for (const bool beside_large : {false, true}) {
    for (const auto& [begin, end] :
         {std::pair<std::int64_t, std::int64_t>{1 << 20, (1 << 20) + 12000},
          {-12000, 0},
          {12000, 0},
          {0, std::int64_t{1} << 62}}) {
      pb::ModelProto model = empty_model();
      pb::TensorProto t = floats("w", 3000, 1);
      t.clear_raw_data();
      t.mutable_raw_place()->set_begin(begin);
      t.mutable_raw_place()->set_end(end);
      *model.mutable_graph()->add_initializer() = t;
      if (beside_large) *model.mutable_graph()->add_initializer() = floats("large", 3000, 2);
      EXPECT_THAT(parse_model(model.SerializeAsString(), "").error().message,
                  HasSubstr("out of place"))
          << begin;
    }
  }
}

TEST(Payloads, WrongLengthsAreRefused) {
  pb::ModelProto model = empty_model();
  pb::TensorProto t = floats("w", 3000, 1);
  t.set_dims(0, 3001);
  *model.mutable_graph()->add_initializer() = t;
  EXPECT_THAT(parse_model(model.SerializeAsString(), "").error().message,
              HasSubstr("12000 bytes for shape 3001 of f32: 12004 expected"));
}

TEST(LoadModel, AlignedTensorsStayInTheFile) {
  const TemporaryFolder folder = TemporaryFolder::make("payloads").value();
  Rng rng(3);
  const HostTensor w = random_tensor(DType::kF32, {50, 50}, rng);
  const Model model = make_model(make_graph({value_info("x", DType::kF32, {4, 50})},
                                            {make_node("MatMul", {"x", "w"}, {"y"})}, {"y"},
                                            {{"w", w}, {"s", testing::float_tensor({2}, {1, 2})}}));
  const std::string path = folder.path() + "/m.onnx";
  ASSERT_TRUE(save_model(model, path, {.external_above = 0}).ok());
  const auto loaded = load_model(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto& read = std::get<HostTensor>(loaded->graph.initializers[0].value);
  EXPECT_TRUE(read.is_view());
  EXPECT_EQ(std::memcmp(read.data(), w.data(), w.bytes()), 0);
  EXPECT_FALSE(std::get<HostTensor>(loaded->graph.initializers[1].value).is_view());
  // One byte further it cannot be read in place.
  std::string data = "x" + *read_file(path + ".data");
  ASSERT_TRUE(write_file(path + ".data", {data}).ok());
  std::string bytes = *read_file(path);
  const std::size_t at = bytes.find("offset");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(bytes[at + 8], '0');
  bytes[at + 8] = '1';
  ASSERT_TRUE(write_file(path, {bytes}).ok());
  const auto moved = load_model(path);
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  const auto& copied = std::get<HostTensor>(moved->graph.initializers[0].value);
  EXPECT_FALSE(copied.is_view());
  EXPECT_EQ(std::memcmp(copied.data(), w.data(), w.bytes()), 0);
}

TEST(LoadOutline, LeavesWeightsWhereTheyLie) {
  const TemporaryFolder folder = TemporaryFolder::make("payloads").value();
  const std::string path = folder.path() + "/m.onnx";
  pb::ModelProto model = empty_model();
  for (int i = 0; i < 8; ++i) {  // at any alignment
    pb::TensorProto t = floats(std::string(static_cast<std::size_t>(i + 1), 'w'), 20000, 1);
    *model.mutable_graph()->add_initializer() = t;
  }
  *model.mutable_graph()->add_initializer() = floats("small", 3000, 2);
  ASSERT_TRUE(write_file(path, {model.SerializeAsString()}).ok());
  const auto outline = load_outline(path);
  ASSERT_TRUE(outline.ok()) << outline.error().message;
  for (int i = 0; i < 8; ++i) {
    const auto& t =
        std::get<HostTensor>(outline->graph.initializers[static_cast<std::size_t>(i)].value);
    EXPECT_TRUE(t.is_view());
    EXPECT_EQ(t.shape(), (Shape{20000}));
  }
  expect_values(std::get<HostTensor>(outline->graph.initializers[8].value), 3000, 2);
  const auto open = with_open_weights(*outline);
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(open->graph.initializers.size(), 1u);
  EXPECT_EQ(open->graph.inputs.size(), 8u);
  EXPECT_FALSE(with_open_weights(make_model(make_graph({}, {}, {}))).has_value());
}

TEST(LoadOutline, WeightsBecomeInputsOnce) {
  Model model = make_model(
      make_graph({value_info("x", DType::kF32, {4, 200}), value_info("w", DType::kF32, {200, 200})},
                 {make_node("MatMul", {"x", "w"}, {"y"})}, {"y"},
                 {{"w", HostTensor(DType::kF32, {200, 200})}}));
  const auto open = with_open_weights(model);
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(open->graph.inputs.size(), 2u);
  const auto report = check_model(*open);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->unsupported.empty());
}

// Some exporters write weights as nodes.
TEST(LoadOutline, ConstantsAreWeightsToo) {
  const TemporaryFolder folder = TemporaryFolder::make("payloads").value();
  const std::string path = folder.path() + "/m.onnx";
  Rng rng(3);
  const HostTensor w = random_tensor(DType::kF32, {200, 201}, rng);
  const Model model = make_model(make_graph(
      {value_info("x", DType::kF32, {4, 200})},
      {make_node("Constant", {}, {"w"}, {{"value", w, ""}}),
       make_node("Constant", {}, {"s"}, {{"value", testing::int_tensor({2}, {201, 4}), ""}}),
       make_node("MatMul", {"x", "w"}, {"p"}), make_node("Reshape", {"p", "s"}, {"y"})},
      {"y"}));
  ASSERT_TRUE(save_model(model, path).ok());
  const auto outline = load_outline(path);
  ASSERT_TRUE(outline.ok()) << outline.error().message;
  EXPECT_TRUE(std::get<HostTensor>(outline->graph.nodes[0].find("value")->value).is_view());
  const auto report = check_outline(*outline);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->nodes, 4);
  EXPECT_EQ(report->operators, check_model(model)->operators);
}

TEST(LoadOutline, ReportsThatMayFollowFromWeightsAreLeftToTheModel) {
  const HostTensor w(DType::kF32, {200, 200});
  const auto with = [&](const Node& node) {
    return make_model(make_graph({value_info("x", DType::kF32, {4, 200})},
                                 {make_node("MatMul", {"x", "w"}, {"p"}), node}, {"y"},
                                 {{"w", w}}));
  };
  const Model fine = with(make_node("Relu", {"p"}, {"y"}));
  EXPECT_TRUE(check_outline(fine).has_value());
  EXPECT_FALSE(check_outline(with(make_node("Mystery", {"p"}, {"y"}))).has_value());
  EXPECT_FALSE(check_outline(with(make_node("NonZero", {"w"}, {"y"}))).has_value());
  EXPECT_FALSE(check_outline(make_model(make_graph({}, {}, {}))).has_value()) << "no weights";
  ImportOptions options;
  options.shapes["w"] = {200, 200};
  EXPECT_FALSE(check_outline(fine, options).has_value()) << "w is no input";
}

}  // namespace
}  // namespace tessera::onnx

// Files: every encoding of tensors, damaged and hostile bytes, external data, round trips.
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model_builder.h"
#include "tessera/frontend/onnx/import.h"
#include "tessera/frontend/onnx/integer_products.h"
#include "tessera_onnx.pb.h"

namespace tessera::onnx {
namespace {

namespace fs = std::filesystem;
namespace pb = ::tessera_onnx;
using testing::float_tensor;
using ::testing::HasSubstr;
using testing::int_tensor;
using testing::make_graph;
using testing::make_model;
using testing::make_node;
using testing::value_info;

// An empty folder that goes away with the test.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("tessera_onnx_{}", ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

Model small_model() {
  Graph body = make_graph({}, {make_node("Identity", {"w"}, {"t"})}, {"t"});
  Node branch = make_node(
      "If", {"c"}, {"y"},
      {testing::body_attribute("then_branch", body), testing::body_attribute("else_branch", body)});
  branch.name = "branch";
  Graph graph =
      make_graph({value_info("x", DType::kF32, {2, 3})}, {branch}, {"y"},
                 {{"w", float_tensor({2, 2}, {1, 2, 3, 4})}, {"c", testing::bool_scalar(true)}});
  return make_model(graph);
}

pb::ModelProto with_initializer(const pb::TensorProto& tensor) {
  pb::ModelProto model;
  model.set_ir_version(8);
  auto* opset = model.add_opset_import();
  opset->set_version(17);
  *model.mutable_graph()->add_initializer() = tensor;
  return model;
}

pb::TensorProto tensor_proto(int type, const std::vector<std::int64_t>& dims) {
  pb::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(type);
  for (const std::int64_t d : dims) tensor.add_dims(d);
  return tensor;
}

Result<HostTensor> read(const pb::TensorProto& tensor) {
  return parse_tensor(tensor.SerializeAsString());
}

TEST(ParseTensor, ReadsTypedFields) {
  auto f16 = tensor_proto(10, {2});
  f16.add_int32_data(0x3c00);  // bits of 1
  f16.add_int32_data(0xc000);  // bits of -2
  ASSERT_TRUE(read(f16).ok());
  EXPECT_EQ(read(f16)->get_float(1), -2);
  auto i8 = tensor_proto(3, {2});
  i8.add_int32_data(-7);
  i8.add_int32_data(5);
  EXPECT_EQ(read(i8)->get_int(0), -7);
  auto u32 = tensor_proto(12, {1});
  u32.add_uint64_data(4000000000U);
  EXPECT_EQ(read(u32)->get_int(0), 4000000000);
  auto f64 = tensor_proto(11, {});
  f64.add_double_data(0.1);
  EXPECT_EQ(read(f64)->get_float(0), 0.1);
  auto flag = tensor_proto(9, {1});
  flag.add_int32_data(1);
  EXPECT_EQ(read(flag)->get_int(0), 1);
}

TEST(ParseTensor, ReadsRawAndEmpty) {
  auto raw = tensor_proto(6, {2});
  raw.set_raw_data(std::string("\x01\x00\x00\x00\xff\xff\xff\xff", 8));
  EXPECT_EQ(read(raw)->get_int(1), -1);
  const auto empty = read(tensor_proto(1, {0, 3}));
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->shape(), (Shape{0, 3}));
}

TEST(ParseTensor, RefusesWrongLengths) {
  auto raw = tensor_proto(1, {2, 2});
  raw.set_raw_data("abc");
  EXPECT_THAT(read(raw).error().message, HasSubstr("3 bytes for shape 2x2 of f32: 16 expected"));
  auto typed = tensor_proto(1, {3});
  typed.add_float_data(1);
  EXPECT_THAT(read(typed).error().message, HasSubstr("1 values for shape 3"));
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THAT(read(tensor_proto(1, {huge, huge, huge})).error().message, HasSubstr("too large"));
  EXPECT_THAT(read(tensor_proto(1, {huge})).error().message, HasSubstr("0 values"));
  EXPECT_THAT(read(tensor_proto(1, {-4})).error().message, HasSubstr("negative"));
}

TEST(ParseTensor, RefusesForeignTypes) {
  auto text = tensor_proto(8, {1});
  text.add_string_data("a");
  EXPECT_EQ(read(text).error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(read(text).error().message, HasSubstr("string"));
}

TEST(ParseModel, KeepsForeignInitializers) {
  auto text = tensor_proto(8, {1});
  text.add_string_data("a");
  const auto model = parse_model(with_initializer(text).SerializeAsString(), "");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(std::get<ForeignTensor>(model->graph.initializers[0].value).type, "string");
}

TEST(ParseModel, MakesSparseInitializersDense) {
  pb::ModelProto proto = with_initializer(tensor_proto(1, {0}));
  auto* sparse = proto.mutable_graph()->add_sparse_initializer();
  *sparse->mutable_values() = tensor_proto(1, {2});
  sparse->mutable_values()->set_name("s");
  sparse->mutable_values()->add_float_data(5);
  sparse->mutable_values()->add_float_data(6);
  *sparse->mutable_indices() = tensor_proto(7, {2, 2});
  for (const int i : {0, 1, 1, 0}) sparse->mutable_indices()->add_int64_data(i);
  sparse->add_dims(2);
  sparse->add_dims(2);
  const auto model = parse_model(proto.SerializeAsString(), "");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto& dense = std::get<HostTensor>(model->graph.initializers[1].value);
  EXPECT_EQ(dense.get_float(1), 5);
  EXPECT_EQ(dense.get_float(2), 6);
  EXPECT_EQ(dense.get_float(3), 0);
  sparse->mutable_indices()->set_int64_data(3, 2);
  EXPECT_THAT(parse_model(proto.SerializeAsString(), "").error().message,
              HasSubstr("sparse index out of range"));
}

TEST(ParseModel, RefusesEveryTruncation) {
  const std::string bytes = *serialize_model(small_model());
  const auto whole = parse_model(bytes, "");
  ASSERT_TRUE(whole.ok());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto model = parse_model(std::string_view(bytes).substr(0, length), "");
    if (model.ok()) {  // cut between fields: a shorter model, which must still be handled
      (void)import_model(*model);
    } else {
      EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument);
    }
  }
}

TEST(ParseModel, SurvivesEveryDamagedByte) {
  const std::string bytes = *serialize_model(small_model());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const auto model = parse_model(damaged, "");
      if (model.ok()) (void)import_model(*model);
    }
  }
}

TEST(ParseModel, RefusesDeepNesting) {
  Graph body = make_graph({}, {make_node("Identity", {"w"}, {"t"})}, {"t"});
  for (int depth = 0; depth < 60; ++depth) {
    body = make_graph(
        {}, {make_node("If", {"c"}, {"t"}, {testing::body_attribute("then_branch", body)})}, {"t"});
  }
  EXPECT_THAT(parse_model(*serialize_model(make_model(body)), "").error().message,
              HasSubstr("nested"));
}

// Rewriting alone makes nodes of our own domain: a file could claim that different values are
// equal, or define a function in their place.
TEST(ParseModel, RefusesOurOwnOperators) {
  Node either = make_node("Either", {"x", "y"}, {"z"},
                          {{"key", std::string("k"), ""},
                           {"bytes_first", std::int64_t{0}, ""},
                           {"only", std::int64_t{0}, ""}});
  either.domain = kOwnDomain;
  Model in_body = small_model(), as_function = small_model(), in_function = small_model();
  in_body.graph.nodes.push_back(
      make_node("If", {"c"}, {"t"},
                {testing::body_attribute("then_branch", make_graph({}, {either}, {"z"}))}));
  as_function.functions = {Function{.domain = kOwnDomain, .name = "Either"}};
  in_function.functions = {Function{.domain = "local", .name = "F"}};
  in_function.functions[0].nodes = {either};
  Model plain = small_model();
  plain.graph.nodes.push_back(either);
  for (const Model& model : {plain, in_body, as_function, in_function}) {
    const auto read = parse_model(*serialize_model(model), "");
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr("the domain 'tessera' is reserved"));
    EXPECT_THAT(read.error().message, HasSubstr("Either"));
  }
  // Nor is one written.
  const Folder folder;
  for (const Model& model : {plain, in_body}) {
    const auto saved = save_model(model, folder / "m.onnx");
    ASSERT_FALSE(saved.ok());
    EXPECT_EQ(saved.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(saved.error().message, HasSubstr("Either"));
  }
  EXPECT_TRUE(fs::is_empty(folder / ""));
}

TEST(LoadModel, NamesTheFile) {
  EXPECT_EQ(load_model("/nonexistent/m.onnx").error().code, ErrorCode::kIo);
  const Folder folder;
  EXPECT_EQ(load_model(folder / ".").error().code, ErrorCode::kIo);
  std::ofstream(folder / "empty.onnx");
  EXPECT_EQ(load_model(folder / "empty.onnx").error().code, ErrorCode::kInvalidArgument);
  std::ofstream(folder / "text.onnx") << "this is not a model";
  EXPECT_THAT(load_model(folder / "text.onnx").error().message, HasSubstr("text.onnx"));
}

void expect_same(const Model& got, const Model& want) {
  EXPECT_EQ(got.opsets, want.opsets);
  EXPECT_EQ(got.ir_version, want.ir_version);
  ASSERT_EQ(got.graph.nodes.size(), want.graph.nodes.size());
  // Bytes are a canonical form: the writer has one way to write a model.
  EXPECT_EQ(*serialize_model(got), *serialize_model(want));
}

Model model_with_everything() {
  Model model = small_model();
  model.producer = "test";
  model.opsets["local"] = 1;
  Function function;
  function.domain = "local";
  function.name = "F";
  function.overload = "v2";
  function.inputs = {"a"};
  function.outputs = {"b"};
  function.attributes = {"k"};
  function.default_attributes = {{"alpha", 0.5F, ""}};
  function.nodes = {make_node("LeakyRelu", {"a"}, {"b"}, {{"alpha", 0.0F, "alpha"}})};
  function.opsets[""] = 17;
  model.functions = {function};
  Node node = make_node("Op", {"x", "", "w"}, {"", "z"},
                        {{"i", std::int64_t{-3}, ""},
                         {"f", 1.5F, ""},
                         {"s", std::string("a\0b", 3), ""},
                         {"t", int_tensor({2}, {1, 2}), ""},
                         {"ints", std::vector<std::int64_t>{1, -1}, ""},
                         {"floats", std::vector<float>{0.5F}, ""},
                         {"words", std::vector<std::string>{"p", ""}, ""},
                         {"tensors", std::vector<HostTensor>{float_tensor({}, {7})}, ""}});
  node.domain = "local";
  node.overload = "v2";
  model.graph.nodes.push_back(node);
  model.graph.inputs.push_back({"s", "f16", true, {{-1, "batch"}, {-1, ""}, {4, ""}}});
  return model;
}

TEST(SaveModel, RoundTripsInMemory) {
  const Model model = model_with_everything();
  const auto again = parse_model(*serialize_model(model), "");
  ASSERT_TRUE(again.ok()) << again.error().message;
  expect_same(*again, model);
  const Node& node = again->graph.nodes[1];
  EXPECT_EQ(node.inputs[1], "");
  EXPECT_EQ(std::get<std::string>(node.find("s")->value).size(), 3U);
  EXPECT_EQ(again->graph.inputs[1].dims[0].symbol, "batch");
  EXPECT_EQ(again->functions[0].nodes[0].attributes[0].ref, "alpha");
}

TEST(SaveModel, RoundTripsExternalData) {
  const Folder folder;
  Model model = small_model();
  Rng rng(1);
  const HostTensor big = random_tensor(DType::kF32, {40, 41}, rng);
  model.graph.initializers.push_back({"big", big});
  model.graph.initializers.push_back({"big2", big});
  ASSERT_TRUE(save_model(model, folder / "m.onnx", {.external_above = 1000}).ok());
  EXPECT_GE(fs::file_size(folder / "m.onnx.data"), 2 * big.bytes());
  EXPECT_LT(fs::file_size(folder / "m.onnx"), big.bytes());
  const auto again = load_model(folder / "m.onnx");
  ASSERT_TRUE(again.ok()) << again.error().message;
  expect_same(*again, model);
  fs::resize_file(folder / "m.onnx.data", 100);
  EXPECT_THAT(load_model(folder / "m.onnx").error().message, HasSubstr("ends at byte 100"));
  fs::remove(folder / "m.onnx.data");
  EXPECT_THAT(load_model(folder / "m.onnx").error().message, HasSubstr("external data"));
}

TEST(LoadModel, RefusesDataOutsideTheFolder) {
  const Folder folder;
  for (const char* location : {"/etc/passwd", "../secret", "a/../../secret", ""}) {
    auto tensor = tensor_proto(1, {1});
    tensor.set_data_location(1);
    auto* entry = tensor.add_external_data();
    entry->set_key("location");
    entry->set_value(location);
    std::ofstream(folder / "m.onnx") << with_initializer(tensor).SerializeAsString();
    EXPECT_THAT(load_model(folder / "m.onnx").error().message,
                HasSubstr("not inside the model's folder"));
  }
}

TEST(LoadModel, RefusesLinksThatLeaveTheFolder) {
  const Folder outside, folder;
  std::ofstream(outside / "secret") << "1234";
  fs::create_directory(folder / "in");
  std::ofstream(folder / "in/data") << "1234";
  fs::create_symlink(outside / "secret", folder / "file");
  fs::create_directory_symlink(outside / "", folder / "up");
  fs::create_directory_symlink("in", folder / "inside");
  const auto load = [&](const char* location) {
    auto tensor = tensor_proto(1, {1});
    tensor.set_data_location(1);
    auto* entry = tensor.add_external_data();
    entry->set_key("location");
    entry->set_value(location);
    std::ofstream(folder / "m.onnx") << with_initializer(tensor).SerializeAsString();
    return load_model(folder / "m.onnx");
  };
  EXPECT_TRUE(load("in/data").ok());
  for (const char* location : {"file", "up/secret"}) {
    EXPECT_THAT(load(location).error().message, HasSubstr("a link leads out of its folder"));
  }
  EXPECT_THAT(load("in/absent").error().message, HasSubstr("No such file"));
  // Links that stay inside are followed where the kernel can tell (openat2).
  const auto inside = load("inside/data");
  EXPECT_TRUE(inside.ok() || inside.error().message.find("link") != std::string::npos);
}

TEST(SaveModel, RefusesForeignTensors) {
  Model model = small_model();
  model.graph.initializers.push_back({"s", ForeignTensor{"string"}});
  EXPECT_EQ(serialize_model(model).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(save_model(small_model(), "/nonexistent/m.onnx").error().code, ErrorCode::kIo);
}

// Renaming a finished file over a pipe or a device would destroy it.
TEST(SaveModel, WritesIntoWhatIsNoFile) {
  const Folder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(save_model(small_model(), pipe).ok());
  std::string bytes(65536, '\0');
  const ssize_t count = ::read(reader, bytes.data(), bytes.size());
  ::close(reader);
  ASSERT_GT(count, 0);
  bytes.resize(static_cast<std::size_t>(count));
  const auto again = parse_model(bytes, "");
  ASSERT_TRUE(again.ok()) << again.error().message;
  expect_same(*again, small_model());
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(SaveModel, LeavesNothingBehindWhenItFails) {
  const Folder folder;
  Model model = small_model();
  model.graph.initializers.push_back({"big", HostTensor(DType::kF32, {40, 41})});
  model.graph.initializers.push_back({"s", ForeignTensor{"string"}});
  EXPECT_FALSE(save_model(model, folder / "m.onnx", {.external_above = 1000}).ok());
  EXPECT_TRUE(fs::is_empty(folder / ""));
}

TEST(SaveTensor, RoundTripsEveryType) {
  Rng rng(3);
  for (const char* name : {"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16",
                           "bf16", "f32", "f64"}) {
    const HostTensor tensor = random_tensor(*dtype_from_text(name), {3, 2}, rng);
    const auto again = parse_tensor(*serialize_tensor(tensor, "t"));
    ASSERT_TRUE(again.ok()) << name;
    EXPECT_EQ(again->dtype(), tensor.dtype());
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(again->get_float(i), tensor.get_float(i));
  }
}

}  // namespace
}  // namespace tessera::onnx

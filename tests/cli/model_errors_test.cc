// Every command that takes a model refuses what it cannot use: exit code 2 for wrong input, 5 for a
// model that is not supported, a message that names the file, nothing on stdout, never a crash.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/model_files.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

using Args = std::vector<std::string>;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;

void expect_refused(const Args& args, int code, const Args& said) {
  const Finished result = run(args);
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_LT(result.err.size(), 1000u) << result.err;
  for (const std::string& part : said) {
    EXPECT_NE(result.err.find(part), std::string::npos) << "no '" << part << "' in: " << result.err;
  }
  EXPECT_EQ(result.err.find("internal error"), std::string::npos) << result.err;
}

// `check` prints an unsupported model as its answer; the others have none to give.
Args command(const std::string& name, const std::string& model) {
  if (name == "show") return {"show", model, "--stage", "graph"};
  if (name == "bench") return quick_bench({model});
  if (name == "run") return {"run", model, "--random"};
  return {name, model};
}

class ModelCommand : public ::testing::TestWithParam<const char*> {};

TEST_P(ModelCommand, MissingFile) {
  expect_refused(command(GetParam(), "/no/such.onnx"), 2,
                 {"/no/such.onnx", "No such file or directory"});
}

TEST_P(ModelCommand, NetworkWithoutItsPrefix) {
  expect_refused(command(GetParam(), "mlp@batch=2"), 2, {"zoo:mlp@batch=2"});
}

TEST_P(ModelCommand, Folder) {
  expect_refused(command(GetParam(), TESSERA_ROOT), 2, {"a folder without config.json"});
}

TEST_P(ModelCommand, Garbage) {
  const std::string file = write_file("garbage.onnx", "this is no protobuf\n");
  expect_refused(command(GetParam(), file), 2, {"garbage.onnx", "not an ONNX model"});
}

TEST_P(ModelCommand, EmptyFile) {
  expect_refused(command(GetParam(), write_file("empty.onnx", "")), 2, {"empty.onnx"});
}

TEST_P(ModelCommand, TruncatedFile) {
  const std::string bytes = *onnx::serialize_model(linear_model());
  const std::string file = write_file("half.onnx", bytes.substr(0, bytes.size() / 2));
  expect_refused(command(GetParam(), file), 2, {"half.onnx", "truncated"});
  const std::string said = run(command(GetParam(), file)).err;
  EXPECT_EQ(said.find("half.onnx"), said.rfind("half.onnx")) << said;
}

TEST_P(ModelCommand, NamesDoNotCommandTheTerminal) {
  const std::string file = save(
      "escape.onnx",
      make_model(make_graph({floats("x", {"2"})}, {make_node("Relu", {"\x1b[2J"}, {"y"})}, {"y"})));
  expect_refused(command(GetParam(), file), 2, {"'\\x1b[2J'"});
}

TEST_P(ModelCommand, UnknownNetworkSuggestsOne) {
  expect_refused(command(GetParam(), "zoo:resnet5O"), 2, {"'resnet5O'", "did you mean 'resnet50'"});
}

TEST_P(ModelCommand, UnknownParameterOfANetwork) {
  expect_refused(command(GetParam(), "zoo:mlp@bach=2"), 2, {"bach", "batch"});
}

TEST_P(ModelCommand, Cycle) {
  const std::string file =
      save("cycle.onnx",
           make_model(make_graph(
               {floats("x", {"2"})},
               {make_node("Add", {"x", "b"}, {"a"}), make_node("Relu", {"a"}, {"b"})}, {"b"})));
  expect_refused(command(GetParam(), file), 2, {"cycle.onnx", "cycle", "'a'"});
}

TEST_P(ModelCommand, FunctionThatCallsItself) {
  onnx::Node call = make_node("F", {"x"}, {"y"});
  call.domain = "local";
  onnx::Model model = make_model(make_graph({floats("x", {"2"})}, {call}, {"y"}));
  model.opsets["local"] = 1;
  onnx::Function function;
  function.domain = "local";
  function.name = "F";
  function.inputs = {"x"};
  function.outputs = {"y"};
  function.nodes = {call};
  function.opsets = model.opsets;
  model.functions = {function};
  expect_refused(command(GetParam(), save("self.onnx", model)), 2, {"self.onnx", "calls itself"});
}

TEST_P(ModelCommand, ShapeOfAnUnknownInput) {
  Args args = command(GetParam(), save("m.onnx", symbolic_model()));
  args.insert(args.end(), {"--shape", "z:1x2x4"});
  expect_refused(args, 2, {"no input 'z'"});
}

TEST_P(ModelCommand, ShapeOfAnotherRank) {
  Args args = command(GetParam(), save("m.onnx", symbolic_model()));
  args.insert(args.end(), {"--shape", "x:1x4"});
  expect_refused(args, 2, {"'x'", "1x4", "f32[N,C,4]"});
}

TEST_P(ModelCommand, ShapeThatContradictsTheModel) {
  Args args = command(GetParam(), save("m.onnx", symbolic_model()));
  args.insert(args.end(), {"--shape", "x:1x2x5"});
  expect_refused(args, 2, {"'x'", "1x2x5", "f32[N,C,4]"});
}

TEST_P(ModelCommand, ShapesThatAreNone) {
  const std::string file = save("m.onnx", symbolic_model());
  for (const char* shape :
       {"x", "x:1xx4", "x:1x-2x4", "x:1x2.5x4", "x:9999999999999999999x1x4", ":1x2x4", "x:1x2x"}) {
    SCOPED_TRACE(shape);
    Args args = command(GetParam(), file);
    args.insert(args.end(), {"--shape", shape});
    expect_refused(
        args, 2,
        {shape[0] == 'x' && shape[1] == ':' ? std::string(shape).substr(2) : std::string(shape)});
  }
}

TEST_P(ModelCommand, UnknownDimensionNamesTheKnown) {
  Args args = command(GetParam(), save("m.onnx", symbolic_model()));
  args.insert(args.end(), {"--dim", "batch=4"});
  expect_refused(args, 2, {"'batch'", "C N"});
}

TEST_P(ModelCommand, DimensionsThatAreNone) {
  const std::string file = save("m.onnx", symbolic_model());
  for (const char* dim : {"N", "N=", "N=-1", "N=four", "=4", "N=99999999999999999999"}) {
    SCOPED_TRACE(dim);
    Args args = command(GetParam(), file);
    args.insert(args.end(), {"--dim", dim});
    expect_refused(args, 2, {dim});
  }
}

TEST_P(ModelCommand, ValuesThatAreNone) {
  const std::string file = save("m.onnx", symbolic_model());
  for (const char* value : {"x", "x=", "=4", "x=@/no/such.npy", "x=four", "z=1"}) {
    SCOPED_TRACE(value);
    Args args = command(GetParam(), file);
    args.insert(args.end(), {"--dim", "C=1", "--value", value});
    expect_refused(args, 2, {std::string(value).starts_with("z") ? "no input 'z'" : "tessera: "});
  }
  Args args = command(GetParam(), file);
  args.insert(args.end(), {"--value", "x=1", "--value", "x=2"});
  expect_refused(args, 2, {"twice"});
}

TEST_P(ModelCommand, MoreElementsThanCanBeCounted) {
  Args args = command(GetParam(), save("m.onnx", symbolic_model()));
  args.insert(args.end(), {"--dim", "N=1000000000000", "--dim", "C=1000000000000"});
  expect_refused(args, 2, {"'x'", "too large"});
}

INSTANTIATE_TEST_SUITE_P(Cli, ModelCommand,
                         ::testing::Values("check", "tasks", "run", "bench", "show"),
                         [](const auto& name) { return std::string(name.param); });

// Code is made for sizes: a guess would be code for another model than the one that was meant.
TEST(FreeSizes, CommandsNameTheDimensionsAndTheFlags) {
  const std::string file = save("m.onnx", symbolic_model());
  const std::string folder = write_file("out", "");
  for (const Args& args : {command("tasks", file), command("run", file), command("bench", file),
                           command("show", file), Args{"compile", file, "-o", folder + ".d"},
                           Args{"tune", file, "--trials", "1", "--db", "", "--plan", folder}}) {
    SCOPED_TRACE(args[0]);
    expect_refused(args, 2, {"m.onnx", "'x' f32[N,C,4]", "--dim C=SIZE"});
  }
}

TEST(FreeSizes, CheckSaysWhatItChecked) {
  const std::string file = save("m.onnx", symbolic_model());
  const Finished text = run({"check", file});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("set with --dim or --shape; checked with: C=224"), std::string::npos)
      << text.out;
  const nlohmann::json report = nlohmann::json::parse(run({"check", file, "--json"}).out);
  EXPECT_EQ(report.at("assumed"), nlohmann::json({{"C", 224}}));
  EXPECT_EQ(report.at("implied"), nlohmann::json::object());
  EXPECT_EQ(run({"check", file, "--dim", "C=3"}).out.find("free"), std::string::npos);
}

// Two convolutions of which the first needs three rows; nothing says how large images are.
TEST(FreeSizes, CheckAcceptsWhatSomeSizesFit) {
  onnx::Model model = make_model(make_graph({floats("x", {"N", "c", "h", "w"})},
                                            {make_node("Conv", {"x", "k"}, {"y"})}, {"y"},
                                            {{"k", HostTensor(DType::kF32, {2, 3, 3, 3})}}));
  const Finished result = run({"check", save("m.onnx", model)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("follow from the model: c=3"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("checked with: h=224 w=224"), std::string::npos) << result.out;
}

TEST(FreeSizes, BatchesAreOneAndWeightsTellTheRest) {
  onnx::Model model = linear_model();
  model.graph.inputs = {floats("x", {"batch", "features"})};
  const Finished result = run({"run", save("m.onnx", model), "--random"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("y f32[1,2]", 0), 0u) << result.out;
}

TEST(ModelMemory, SizesBeyondTheMachineAreRefusedBeforeTheyAreTouched) {
  const std::string file = save("m.onnx", symbolic_model());
  for (const char* name : {"run", "bench"}) {
    SCOPED_TRACE(name);
    Args args = command(name, file);
    args.insert(args.end(), {"--dim", "N=1000000000000", "--dim", "C=1"});
    expect_refused(args, 2, {"m.onnx", "32000.0 GB", "this process can use"});
  }
}

TEST(ModelMemory, SizesThatAreOnlyLookedAtMayBeLarge) {
  const std::string file = save("m.onnx", symbolic_model());
  const Finished shown =
      run({"show", file, "--stage", "graph", "--dim", "N=1000000000000", "--dim", "C=1"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("f32[1000000000000,1,4]"), std::string::npos) << shown.out;
}

TEST(DamagedModel, FilesOfPyTorchAreToBeExported) {
  const std::string file = write_file("net.pt", std::string("PK\x03\x04", 4) + "archive");
  for (const char* name : {"check", "info", "run"}) {
    expect_refused({name, file}, 2,
                   {"net.pt: not an ONNX model but an archive", "torch.onnx.export"});
  }
  expect_refused({"check", "absent.pt"}, 2, {"No such file"});
}

TEST(UnsupportedModel, EveryCommandNamesTheNodeTheOperatorAndTheReason) {
  const std::string file = save("m.onnx", unsupported_model());
  for (const char* name : {"tasks", "run", "bench", "show"}) {
    SCOPED_TRACE(name);
    expect_refused(command(name, file), 5,
                   {"m.onnx", "'riddle'", "Mystery-17", "this operator is not supported yet"});
  }
}

TEST(DataDependentModel, CommandsThatNeedShapesSayWhichNode) {
  const std::string file = save("m.onnx", nonzero_model());
  for (const char* name : {"tasks", "show"}) {
    SCOPED_TRACE(name);
    expect_refused(command(name, file), 5, {"m.onnx", "NonZero-17", "is data", "--value"});
  }
}

}  // namespace
}  // namespace tessera::cli

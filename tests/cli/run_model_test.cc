// tessera run: NumPy arrays in, NumPy arrays out.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/frontend/onnx/import.h"
#include "tessera/support/npz.h"
#include "tests/cli/model_files.h"
#include "tests/cli/process.h"
#include "tests/testing/testing.h"

namespace tessera::cli {
namespace {

using onnx::testing::float_tensor;
using onnx::testing::int_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using tessera::testing::mismatch;

std::string output_path() { return write_file("y.npz", ""); }

void expect_refused(const Finished& result, int code, const std::vector<std::string>& said) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : said) {
    EXPECT_NE(result.err.find(part), std::string::npos) << "no '" << part << "' in: " << result.err;
  }
  EXPECT_EQ(result.err.find("internal error"), std::string::npos) << result.err;
}

TEST(Run, TheBatchIsTheParameterOrTheFirstDimension) {
  const Finished built_in = run({"run", "zoo:mlp", "--batch", "3", "--random"});
  EXPECT_EQ(built_in.code, 0) << built_in.err;
  EXPECT_EQ(built_in.out.rfind("output f32[3,10] ", 0), 0u) << built_in.out;
  const std::string open = save(
      "open.onnx",
      make_model(make_graph({floats("x", {"n", "3"})}, {make_node("Relu", {"x"}, {"y"})}, {"y"})));
  const Finished file = run({"run", open, "--batch", "5", "--random"});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(file.out.rfind("y f32[5,3] ", 0), 0u) << file.out;
  expect_refused(run({"run", save("m.onnx", linear_model()), "--batch", "5", "--random"}), 2,
                 {"--batch 5", "--shape"});
  onnx::Model old = linear_model();  // lists its weights among the inputs
  old.graph.inputs.push_back(floats("w", {"5", "2"}));
  old.graph.initializers[0].name = "w";
  expect_refused(run({"run", save("old.onnx", old), "--batch", "5", "--random"}), 2, {"--batch 5"});
}

TEST(Run, ComputesWhatTheModelSays) {
  const std::string model = save("m.onnx", linear_model());
  const std::string inputs =
      save_arrays("x.npz", {{"x", float_tensor({2, 3}, {1, 0, 0, 1, 1, 2})}});
  const std::string output = output_path();
  const Finished result = run({"run", model, "--inputs", inputs, "--output", output});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "y f32[2,2] min 11 max 38 mean 23.75\n");
  EXPECT_EQ(result.err, "");
  const NamedTensors arrays = load_arrays(output);
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "y");
  EXPECT_EQ(mismatch(arrays[0].tensor, float_tensor({2, 2}, {11, 22, 24, 38}), 0), "");
}

TEST(Run, AGpuComputesTheSame) {
  const std::string model = save("m.onnx", linear_model());
  const std::string inputs =
      save_arrays("x.npz", {{"x", float_tensor({2, 3}, {1, 0, 0, 1, 1, 2})}});
  for (const std::string target : {"cuda", "opencl"}) {
    const Finished result = run({"run", model, "--inputs", inputs, "--target", target});
    if (result.code == 6) {
      expect_refused(result, 6, {"target " + target + ": no "});
      continue;
    }
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out, "y f32[2,2] min 11 max 38 mean 23.75\n");
  }
}

TEST(Run, SaysOnceWhatIsWrongWithTheFile) {
  onnx::Model model = make_model(make_graph({floats("x", {"2"})}, {}, {"y", "n"}));
  // Data-dependent, so that the model is imported twice.
  model.graph.nodes = {make_node("Neg", {"a"}, {"y"}), make_node("Abs", {"x"}, {"a"}),
                       make_node("NonZero", {"x"}, {"n"})};
  const std::string inputs = save_arrays("x.npz", {{"x", float_tensor({2}, {-3, 4})}});
  const Finished result = run({"run", save("m.onnx", model), "--inputs", inputs});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string warning =
      "tessera: warning: node '' (Neg, output 'y') stands before node '' (Abs, output 'a'), which "
      "it needs: nodes were sorted\n";
  EXPECT_EQ(result.err.find(warning), 0u) << result.err;
  EXPECT_EQ(result.err.rfind(warning), 0u) << result.err;
}

// The interpreter gives the meaning; the program runs optimised, compiled code, on two threads.
TEST(Run, EqualsTheInterpreterOnANetwork) {
  const std::string file = write_file("lenet.onnx", "");
  ASSERT_EQ(run({"zoo", "--export", "lenet", "--output", file}).code, 0);
  Rng rng(7);
  const HostTensor x = random_tensor(DType::kF32, {1, 1, 28, 28}, rng);
  const Result<onnx::Model> model = onnx::load_model(file);
  ASSERT_TRUE(model.ok());
  const Result<graph::Graph> graph = onnx::import_model(*model);
  ASSERT_TRUE(graph.ok());
  const Result<std::vector<HostTensor>> want = graph::evaluate(*graph, {x});
  ASSERT_TRUE(want.ok());

  const std::string inputs = save_arrays("x.npz", {{model->graph.inputs[0].name, x}});
  for (const char* flag : {"--no-optimize", "--random"}) {
    const std::string output = output_path();
    const Finished result =
        run({"run", file, "--inputs", inputs, "--output", output, "--threads", "2", flag});
    EXPECT_EQ(result.code, 0) << result.err;
    const NamedTensors arrays = load_arrays(output);
    ASSERT_EQ(arrays.size(), 1u);
    EXPECT_EQ(arrays[0].name, model->graph.outputs[0].name);
    EXPECT_EQ(mismatch(arrays[0].tensor, (*want)[0], 1e-5), "") << flag;
  }
}

TEST(Run, ThreadsDoNotChangeTheNumbers) {
  const std::string one = output_path(), three = write_file("three.npz", "");
  EXPECT_EQ(run({"run", "zoo:lenet", "--random", "--threads", "1", "--output", one}).code, 0);
  EXPECT_EQ(run({"run", "zoo:lenet", "--random", "--threads", "3", "--output", three}).code, 0);
  EXPECT_NE(read_file(one), "");
  EXPECT_EQ(read_file(one), read_file(three));
}

TEST(Run, OutputsOfOneRunAreInputsOfTheNext) {
  const std::string model =
      save("m.onnx",
           make_model(make_graph({floats("v", {"3"})}, {make_node("Neg", {"v"}, {"w"})}, {"w"})));
  const std::string back =
      save("back.onnx",
           make_model(make_graph({floats("w", {"3"})}, {make_node("Neg", {"w"}, {"v"})}, {"v"})));
  const HostTensor v = float_tensor({3}, {1, -2, 0.5});
  const std::string there = save_arrays("v.npz", {{"v", v}}), here = output_path();
  EXPECT_EQ(run({"run", model, "--inputs", there, "--output", here}).code, 0);
  EXPECT_EQ(run({"run", back, "--inputs", here, "--output", there}).code, 0);
  EXPECT_EQ(mismatch(load_arrays(there).at(0).tensor, v, 0), "");
}

TEST(Run, ArraysGiveTheSymbolicSizes) {
  const std::string model = save("m.onnx", symbolic_model());
  const std::string inputs =
      save_arrays("x.npz", {{"x", float_tensor({1, 2, 4}, {-1, 1, -2, 2, -3, 3, -4, 4})}});
  const Finished result = run({"run", model, "--inputs", inputs});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "y f32[1,2,4] min 0 max 4 mean 1.25\n");
}

TEST(Run, SizesAndSeededValues) {
  const std::string model = save("m.onnx", symbolic_model());
  const Finished result = run({"run", model, "--random", "--dim", "N=2", "--dim", "C=3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("y f32[2,3,4] min 0 ", 0), 0u) << result.out;
  EXPECT_EQ(result.out, run({"run", model, "--random", "--shape", "x:2x3x4"}).out);
}

// y = Reshape(fast ? -x : |x|, to): branch and shape come from inputs.
onnx::Model steered_model() {
  const auto body = [](const char* op) {
    return make_graph({}, {make_node(op, {"x"}, {"r"})}, {"r"});
  };
  onnx::ValueInfo fast{"fast", "bool", true, {}}, to{"to", "i64", true, {{-1, "k"}}};
  return make_model(
      make_graph({floats("x", {"2", "3"}), fast, to},
                 {make_node("If", {"fast"}, {"b"},
                            {onnx::testing::body_attribute("then_branch", body("Neg")),
                             onnx::testing::body_attribute("else_branch", body("Abs"))}),
                  make_node("Reshape", {"b", "to"}, {"y"})},
                 {"y"}));
}

TEST(Run, ValuesFixInputs) {
  const std::string model = save("m.onnx", steered_model());
  const std::string inputs =
      save_arrays("x.npz", {{"x", float_tensor({2, 3}, {1, 2, 3, 4, 5, 6})}});
  const Finished fixed =
      run({"run", model, "--inputs", inputs, "--value", "fast=true", "--value", "to=[6]"});
  EXPECT_EQ(fixed.code, 0) << fixed.err;
  EXPECT_EQ(fixed.out, "y f32[6] min -6 max -1 mean -3.5\n");
  EXPECT_EQ(fixed.err, "") << "compiled, not node by node";
  const std::string array = write_file("to.npy", npy_bytes(int_tensor({2}, {3, 2})));
  const Finished file =
      run({"run", model, "--inputs", inputs, "--value", "fast=false", "--value", "to=@" + array});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(file.out, "y f32[3,2] min 1 max 6 mean 3.5\n");
}

TEST(Run, OtherCommandsTakeValuesToo) {
  const std::string model = save("m.onnx", steered_model());
  const std::vector<std::string> flags = {"--value", "fast=true", "--value", "to=[6]"};
  const std::string out = write_file("out", "");
  for (std::vector<std::string> args :
       {std::vector<std::string>{"tasks", model}, quick_bench({model}),
        std::vector<std::string>{"check", model},
        std::vector<std::string>{"show", model, "--stage", "graph"},
        std::vector<std::string>{"compile", model, "-o", out + ".d"}}) {
    const std::string command = args[0];
    args.insert(args.end(), flags.begin(), flags.end());
    const Finished result = run(args);
    EXPECT_EQ(result.code, 0) << command << result.err;
    EXPECT_EQ(result.out.find("follow from data"), std::string::npos) << command << result.out;
  }
}

TEST(Run, AnInputHasOneSource) {
  const std::string model = save("m.onnx", steered_model());
  const std::string inputs = save_arrays("x.npz", {{"fast", onnx::testing::bool_scalar(true)}});
  expect_refused(run({"run", model, "--inputs", inputs, "--random", "--value", "fast=true",
                      "--value", "to=[6]"}),
                 2, {"'fast'", "--inputs", "--value"});
}

TEST(Run, EmptyTensors) {
  const Finished result =
      run({"run", save("m.onnx", symbolic_model()), "--random", "--dim", "N=0", "--dim", "C=1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("y f32[0,1,4]", 0), 0u) << result.out;
}

TEST(Run, MissingInputsAreNamedWithTheirTypes) {
  const std::string model = save("m.onnx", linear_model());
  expect_refused(run({"run", model}), 2, {"'x'", "f32[2,3]", "--inputs", "--random"});
  const std::string wrong = save_arrays("w.npz", {{"X", float_tensor({2, 3}, {})}});
  expect_refused(run({"run", model, "--inputs", wrong}), 2, {"no input 'X'"});
}

TEST(Run, ArraysOfTheWrongType) {
  const std::string model = save("m.onnx", linear_model());
  const std::string integers = save_arrays("x.npz", {{"x", int_tensor({2, 3}, {})}});
  expect_refused(run({"run", model, "--inputs", integers}), 2, {"x", "i64", "f32"});
}

TEST(Run, ArraysOfTheWrongShape) {
  const std::string model = save("m.onnx", linear_model());
  const std::string inputs = save_arrays("x.npz", {{"x", float_tensor({3, 2}, {})}});
  expect_refused(run({"run", model, "--inputs", inputs}), 2, {"'x'", "3x2", "f32[2,3]"});
}

TEST(Run, InputsThatAreNoArchive) {
  const std::string model = save("m.onnx", linear_model());
  expect_refused(run({"run", model, "--inputs", model}), 2, {"m.onnx"});
  expect_refused(run({"run", model, "--inputs", "/no/such.npz"}), 2, {"/no/such.npz"});
}

TEST(Run, OneArrayNeedsNoName) {
  const std::string model =
      save("m.onnx",
           make_model(make_graph({floats("v", {"n"})}, {make_node("Neg", {"v"}, {"w"})}, {"w"})));
  const std::string input = write_file("x.npy", npy_bytes(float_tensor({3}, {1, -2, 3})));
  const std::string output = write_file("y.npy", "");
  const Finished result = run({"run", model, "--inputs", input, "-o", output});
  EXPECT_EQ(result.code, 0) << result.err;
  const Result<HostTensor> got = read_npy(output);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(mismatch(*got, float_tensor({3}, {-1, 2, -3}), 0), "");
  EXPECT_EQ(run({"bench", model, "--inputs", input, "--samples", "1"}).code, 0);
}

TEST(Run, SeveralArraysNeedAnArchive) {
  const std::string model = save(
      "m.onnx", make_model(make_graph(
                    {floats("a", {"2"}), floats("b", {"2"})},
                    {make_node("Neg", {"a"}, {"c"}), make_node("Neg", {"b"}, {"d"})}, {"c", "d"})));
  const std::string input = write_file("x.npy", npy_bytes(float_tensor({2}, {1, 2})));
  expect_refused(run({"run", model, "--inputs", input}), 2, {"x.npy holds one array", "a b"});
  expect_refused(run({"run", model, "--random", "-o", write_file("y.npy", "")}), 2,
                 {"y.npy holds one array", "2 outputs"});
}

// y is listed twice: it is written once, by the model, its artifact and node by node alike.
TEST(Run, AnOutputThatIsListedTwice) {
  const std::vector<onnx::Node> negation = {make_node("Neg", {"x"}, {"y"})};
  std::vector<onnx::Node> waiting = negation;
  waiting.push_back(make_node("NonZero", {"y"}, {"n"}));
  const std::string compiled =
      save("m.onnx", make_model(make_graph({floats("x", {"2"})}, negation, {"y", "y"})));
  const std::string in_parts = save(
      "parts.onnx", make_model(make_graph({floats("x", {"2"})}, waiting, {"y", "n", "y", "n"})));
  const std::string folder = compiled + ".d";
  ASSERT_EQ(run({"compile", compiled, "-o", folder}).code, 0);
  const std::string inputs = save_arrays("x.npz", {{"x", float_tensor({2}, {-3, 4})}});
  const std::string line = "y f32[2] min -4 max 3 mean -0.5\n";
  for (const std::string& model : {compiled, folder, in_parts}) {
    const std::string output = output_path();
    const Finished result = run({"run", model, "--inputs", inputs, "-o", output});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out.find(line), 0u) << result.out;
    EXPECT_NE(result.out.rfind(line), 0u) << "once for each time that it is listed: " << result.out;
    const NamedTensors arrays = load_arrays(output);
    ASSERT_EQ(arrays.size(), model == in_parts ? 2u : 1u);
    EXPECT_EQ(arrays[0].name, "y");
    EXPECT_EQ(mismatch(arrays[0].tensor, float_tensor({2}, {3, -4}), 0), "");
  }
  const std::string array = write_file("y.npy", "");
  EXPECT_EQ(run({"run", compiled, "--inputs", inputs, "-o", array}).code, 0);
  const Result<HostTensor> got = read_npy(array);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(mismatch(*got, float_tensor({2}, {3, -4}), 0), "");
}

// By the model, by the one kept in the cache, by its artifact and node by node.
TEST(Run, IndicesOutOfRangeAreRefused) {
  onnx::Model model = make_model(make_graph({}, {make_node("Gather", {"t", "ids"}, {"y"})}, {"y"},
                                            {{"t", float_tensor({3}, {5, 6, 7})}}));
  model.graph.inputs.push_back({"ids", "i64", true, {{4, ""}}});
  model.graph.nodes[0].name = "embed";
  onnx::Model waiting = model;
  waiting.graph.nodes.push_back(make_node("NonZero", {"y"}, {"n"}));
  waiting.graph.outputs.push_back(onnx::testing::output("n"));
  const std::string file = save("m.onnx", model), in_parts = save("parts.onnx", waiting);
  const std::string folder = file + ".d";
  ASSERT_EQ(run({"compile", file, "-o", folder}).code, 0);
  const std::string good = save_arrays("x.npz", {{"ids", int_tensor({4}, {0, 2, -1, -3})}});
  const std::string bad = save_arrays("bad.npz", {{"ids", int_tensor({4}, {0, 1, 3, -1})}});
  for (const std::string& path : {file, file, folder, in_parts}) {
    const Finished right = run({"run", path, "--inputs", good});
    EXPECT_EQ(right.code, 0) << right.err;
    EXPECT_EQ(right.out.find("y f32[4] min 5 max 7 mean 6\n"), 0u) << right.out;
    expect_refused(run({"run", path, "--inputs", bad}), 2, {"embed", "index 3", "size 3"});
  }
  model.graph.initializers.push_back({"ids", int_tensor({4}, {0, 1, 3, -1})});
  const std::string known = save("known.onnx", model);
  for (const char* command : {"run", "compile", "check"}) {
    std::vector<std::string> args = {command, known};
    if (args[0] == "compile") args.insert(args.end(), {"-o", file + ".e"});
    expect_refused(run(args), 2, {"embed", "index 3", "size 3"});
  }
}

// By the model and by the one kept in the cache; an artifact clamps them.
TEST(Run, IndicesThatTheModelComputesAreRefusedToo) {
  onnx::Model model = make_model(make_graph(
      {}, {make_node("Add", {"ids", "one"}, {"next"}), make_node("Gather", {"t", "next"}, {"y"})},
      {"y"}, {{"t", float_tensor({3}, {5, 6, 7})}, {"one", int_tensor({}, {1})}}));
  model.graph.inputs.push_back({"ids", "i64", true, {{2, ""}}});
  model.graph.nodes[1].name = "embed";
  const std::string file = save("computed.onnx", model), folder = file + ".d";
  ASSERT_EQ(run({"compile", file, "-o", folder}).code, 0);
  const std::string good = save_arrays("x.npz", {{"ids", int_tensor({2}, {1, -4})}});
  const std::string bad = save_arrays("bad.npz", {{"ids", int_tensor({2}, {1, 2})}});
  const std::string cached = "TESSERA_CACHE=" + file + ".cache tessera run " + file + " --inputs ";
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(run_shell(cached + good).out.find("y f32[2] min 5 max 7"), 0u);
    expect_refused(run_shell(cached + bad), 2, {"embed", "index 3", "size 3"});
  }
  EXPECT_EQ(run({"run", folder, "--inputs", bad}).out.find("y f32[2] min 7 max 7"), 0u);
}

TEST(Run, LongLoopsRunTheirBodyStepByStep) {
  const onnx::Graph body = make_graph({floats("s", {"2"}), floats("e", {"2"})},
                                      {make_node("Add", {"s", "e"}, {"t"})}, {"t", "t"});
  const std::string model =
      save("m.onnx", make_model(make_graph({floats("s0", {"2"}), floats("x", {"1080", "2"})},
                                           {make_node("Scan", {"s0", "x"}, {"last", "all"},
                                                      {onnx::testing::body_attribute("body", body),
                                                       {"num_scan_inputs", std::int64_t{1}, ""}})},
                                           {"last", "all"})));
  const std::string inputs =
      save_arrays("x.npz", {{"s0", float_tensor({2}, {1, 2})},
                            {"x", float_tensor({1080, 2}, std::vector<double>(2160, 1))}});
  const Finished result = run({"run", model, "--inputs", inputs});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find("last f32[2] min 1081 max 1082 mean 1081.5\nall f32[1080,2] "), 0u)
      << result.out;
  EXPECT_NE(result.err.find("1080 or more steps of 1 nodes"), std::string::npos) << result.err;
  for (const char* command : {"run", "check", "tasks"}) {
    std::vector<std::string> args = {command, model, "--max-loop-steps", "1079"};
    if (args[0] == "run") args.insert(args.end(), {"--inputs", inputs});
    const Finished refused = run(args);
    EXPECT_EQ(refused.code, 5) << refused.err;
    EXPECT_NE((refused.out + refused.err).find("more than 1079 steps; --max-loop-steps N"),
              std::string::npos)
        << refused.out << refused.err;
  }
}

TEST(Run, PlacesThatCannotBeWritten) {
  const std::string model = save("m.onnx", linear_model());
  const auto to = [&](const std::string& path) {
    return run({"run", model, "--random", "--output", path});
  };
  expect_refused(to("/dev/full"), 2, {"/dev/full", "No space left on device"});
  expect_refused(to("/no/such/y.npz"), 2, {"/no/such/y.npz", "No such file"});
  expect_refused(to(TESSERA_ROOT), 2, {"Is a directory"});
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(Run, DataDependentNodesRunOnTheHost) {
  const std::string model = save("m.onnx", nonzero_model());
  const std::string inputs = save_arrays("x.npz", {{"x", float_tensor({2, 2}, {0, 1, 2, 3})}});
  const std::string output = output_path();
  const Finished result = run({"run", model, "--inputs", inputs, "--output", output});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("1 of 1 nodes ran on the host: "), std::string::npos) << result.err;
  const NamedTensors arrays = load_arrays(output);
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "y");
  EXPECT_EQ(mismatch(arrays[0].tensor, int_tensor({2, 3}, {0, 1, 1, 1, 0, 1}), 0), "");
}

TEST(Run, DataDependentModelsTakeRandomInputsToo) {
  const std::string model = save("m.onnx", nonzero_model());
  const Finished result = run({"run", model, "--random"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("y i64[2,4] ", 0), 0u) << result.out;
  const Finished without = run({"run", model});
  EXPECT_EQ(without.code, 2) << without.err;
  EXPECT_NE(without.err.find("input 'x' f32[2,2] is not given"), std::string::npos) << without.err;
}

// Positions of ones, then a sum over a shape that only the values decide.
TEST(Run, NodesBehindADataDependentOneAreComputed) {
  const std::string model = save(
      "m.onnx",
      make_model(make_graph(
          {floats("x", {"2", "2"})},
          {make_node("NonZero", {"x"}, {"at"}), make_node("Shape", {"at"}, {"size"}),
           make_node("Transpose", {"at"}, {"pairs"}),
           make_node("GatherND", {"x", "pairs"}, {"picked"}), make_node("Exp", {"picked"}, {"y"})},
          {"y", "size"})));
  const std::string inputs = save_arrays("x.npz", {{"x", float_tensor({2, 2}, {0, 1, 2, 0})}});
  const std::string output = output_path();
  const Finished result = run({"run", model, "--inputs", inputs, "--output", output});
  EXPECT_EQ(result.code, 0) << result.err;
  const NamedTensors arrays = load_arrays(output);
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(mismatch(arrays[0].tensor, float_tensor({2}, {std::exp(1.0), std::exp(2.0)}), 1e-6),
            "");
  EXPECT_EQ(mismatch(arrays[1].tensor, int_tensor({2}, {2, 2}), 0), "");
}

}  // namespace
}  // namespace tessera::cli

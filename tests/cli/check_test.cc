// tessera check and tessera zoo.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/model_files.h"
#include "tests/cli/process.h"
#include "tests/testing/testing.h"

namespace tessera::cli {
namespace {

using nlohmann::json;
using tessera::testing::expect_golden;

TEST(Check, CountsOperatorsOfABuiltInNetwork) {
  const Finished result = run({"check", "zoo:lenet"});
  EXPECT_EQ(result.code, 0) << result.err;
  expect_golden("cli/check_lenet.txt", result.out);
}

TEST(Check, JsonOfASupportedModel) {
  const Finished result = run({"check", "zoo:mlp", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report, json::parse(R"({"model": "zoo:mlp", "nodes": 5, "supported": true,
      "operators": {"Gemm-17": 3, "Relu-17": 2}, "unsupported": [], "data_dependent": [],
      "host": [], "implied": {}, "assumed": {},
      "runs": {"run": "yes", "library": "yes", "artifact": "yes", "gpu": "yes",
               "gpu_artifact": "yes"}})"));
}

TEST(Check, UnsupportedModelIsAnAnswerWithItsOwnCode) {
  const std::string file = save("m.onnx", unsupported_model());
  const Finished text = run({"check", file});
  EXPECT_EQ(text.code, 5);
  for (const char* part : {"not supported", "Mystery-17", "riddle", "not supported yet"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << text.out;
  }
  EXPECT_EQ(text.out.find("\nsupported"), std::string::npos) << text.out;

  const Finished result = run({"check", file, "--json"});
  EXPECT_EQ(result.code, 5);
  const json report = json::parse(result.out);
  EXPECT_EQ(report.at("supported"), false);
  ASSERT_EQ(report.at("unsupported").size(), 1u);
  const json& issue = report.at("unsupported").at(0);
  EXPECT_EQ(issue.at("node"), "riddle");
  EXPECT_EQ(issue.at("op"), "Mystery-17");
  EXPECT_NE(issue.at("reason").get<std::string>(), "");
}

TEST(Check, OldVersionsKeepTheirNumbers) {
  onnx::Model model = linear_model();
  model.opsets[""] = 9;
  const Finished result = run({"check", save("m.onnx", model), "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("operators"), json::parse(R"({"Gemm-9": 1})"));
}

TEST(Check, DataDependentNodesAreNamed) {
  const std::string file = save("m.onnx", nonzero_model());
  const Finished timed = run(quick_bench({file, "--json"}));
  ASSERT_EQ(timed.code, 0) << timed.err;
  EXPECT_EQ(json::parse(timed.out).at("results").at(0).at("verified"), true) << timed.out;
  const Finished profiled = run(quick_bench({file, "--profile"}));
  EXPECT_EQ(profiled.code, 2) << profiled.err;
  EXPECT_NE(profiled.err.find("without a profile"), std::string::npos) << profiled.err;
  const Finished result = run({"check", file, "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report.at("supported"), true);
  ASSERT_EQ(report.at("data_dependent").size(), 1u);
  EXPECT_EQ(report.at("data_dependent").at(0).at("op"), "NonZero-17");
  EXPECT_EQ(report.at("runs").at("run"), "yes");
  EXPECT_EQ(report.at("runs").at("library"), "yes");
  for (const char* way : {"artifact", "gpu", "gpu_artifact"}) {
    EXPECT_EQ(report.at("runs").at(way).get<std::string>().rfind("no: shapes follow from", 0), 0u);
  }
}

// What check says of each way is what happens there.
TEST(Check, SaysWhatRunsAModelWithNodesOfTheHost) {
  using onnx::testing::make_node;
  onnx::Model model = onnx::testing::make_model(onnx::testing::make_graph(
      {floats("x", {"1", "8"})},
      {make_node("Relu", {"x"}, {"r"}), make_node("TopK", {"r", "k"}, {"values", "places"})},
      {"values", "places"}));
  HostTensor k(DType::kI64, {1});
  k.set_int(0, 3);
  model.graph.initializers.push_back({"k", k});
  const std::string file = save("topk.onnx", model);
  const Finished checked = run({"check", file});
  EXPECT_EQ(checked.code, 0) << checked.err;
  for (const char* line :
       {"\n  input x                      f32 [1, 8]\n", "\nsupported by functions of the host:\n",
        "\n  yes  tessera run, bench, tune, InferenceSession, Python, C, C++\n",
        "\n  yes  tessera compile, Model.save()\n", "\n  yes  GPUs, in a process\n",
        "\n  no   GPUs, as an artifact: TopK"}) {
    EXPECT_NE(checked.out.find(line), std::string::npos) << line << checked.out;
  }
  EXPECT_EQ(run({"run", file, "--random"}).code, 0);
  EXPECT_EQ(run(quick_bench({file})).code, 0);
  const Finished compiled = run({"compile", file, "-o", file + ".out", "--emit", "obj"});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  const Finished gpu =
      run({"compile", file, "-o", file + ".gpu", "--emit", "obj", "--target", "h200"});
  EXPECT_EQ(gpu.code, 5) << gpu.err;
  EXPECT_NE(gpu.err.find("TopK"), std::string::npos) << gpu.err;
}

TEST(Check, NodesOfAnOperatorWithOneReasonAreOneLine) {
  onnx::Model model = unsupported_model();
  onnx::Node again = model.graph.nodes[1];
  for (const char* name : {"second", "third"}) {
    again.name = name;
    again.outputs = {name};
    model.graph.nodes.push_back(again);
    model.graph.outputs.push_back(model.graph.outputs[0]);
    model.graph.outputs.back().name = name;
  }
  const Finished result = run({"check", save("m.onnx", model)});
  EXPECT_EQ(result.code, 5);
  EXPECT_NE(result.out.find("riddle and 2 more: this operator"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("third"), std::string::npos) << result.out;
}

TEST(Check, NamesThatAreNotUtf8DoNotBreakJson) {
  onnx::Model model = unsupported_model();
  model.graph.nodes[1].name = "bad\xff\xfe";
  const Finished result = run({"check", save("m.onnx", model), "--json"});
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_TRUE(json::accept(result.out)) << result.out;
}

TEST(Check, PathsThatAreNotUtf8DoNotBreakJson) {
  const std::string file = write_file("bad\xff.onnx", "");
  ASSERT_EQ(run({"zoo", "--export", "mlp@hidden=16", "--output", file}).code, 0);
  for (const std::vector<std::string>& args : {std::vector<std::string>{"check", file, "--json"},
                                               {"tasks", file, "--json"},
                                               quick_bench({file, "--json"})}) {
    const Finished result = run(args);
    EXPECT_EQ(result.code, 0) << args[0] << result.err;
    EXPECT_TRUE(json::accept(result.out)) << result.out;
  }
}

TEST(Check, SizesGivenTwiceAndUnknownPasses) {
  const auto refused = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"check", "zoo:mlp"});
    const Finished result = run(flags);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_NE(refused({"--shape", "input:1x784", "--shape", "input:2x784"}).find("twice"),
            std::string::npos);
  EXPECT_NE(refused({"--dim", "N=1", "--dim", "N=2"}).find("twice"), std::string::npos);
  EXPECT_NE(refused({"--skip-pass", "nope"}).find("nope"), std::string::npos);
}

TEST(Zoo, ListsEveryNetworkWithItsParameters) {
  const Finished text = run({"zoo"});
  EXPECT_EQ(text.code, 0) << text.err;
  const Finished result = run({"zoo", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const json list = json::parse(result.out);
  EXPECT_GE(list.size(), 30u);
  for (const json& network : list) {
    const std::string name = network.at("name");
    EXPECT_NE(text.out.find("zoo:" + name + " "), std::string::npos) << name;
    EXPECT_NE(network.at("doc"), "") << name;
    EXPECT_FALSE(network.at("parameters").empty()) << name;
  }
}

TEST(Zoo, ExportedFileIsTheNetwork) {
  const std::string file = write_file("mlp.onnx", "");
  const Finished exported = run({"zoo", "--export", "mlp@hidden=16", "--output", file});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.out, "");
  const Finished checked = run({"check", file, "--json"});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(json::parse(checked.out).at("nodes"), 5);
  EXPECT_EQ(run({"tasks", file}).out, run({"tasks", "zoo:mlp@hidden=16"}).out);
}

TEST(Zoo, ExportNeedsBothOptions) {
  for (const auto& args : std::vector<std::vector<std::string>>{{"zoo", "--export", "mlp"},
                                                                {"zoo", "--output", "mlp.onnx"}}) {
    const Finished result = run(args);
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find("requires"), std::string::npos) << result.err;
  }
}

TEST(Zoo, ExportOfAnUnknownNetworkSuggestsOne) {
  const std::string folder = std::filesystem::path(write_file("here", "")).parent_path().string();
  const Finished result = run({"zoo", "--export", "lenett", "--output", folder + "/m.onnx"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("did you mean 'lenet'?"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder + "/m.onnx"));
}

TEST(Zoo, ExportToAPlaceThatCannotBeWritten) {
  for (const char* path : {"/no/such/folder/m.onnx", "/"}) {
    const Finished result = run({"zoo", "--export", "mlp@hidden=4", "--output", path});
    EXPECT_EQ(result.code, 2) << path;
    EXPECT_NE(result.err.find(std::string("cannot write ") + path), std::string::npos)
        << result.err;
  }
}

}  // namespace
}  // namespace tessera::cli

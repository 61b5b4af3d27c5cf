// tessera info: every kind of file, and the page of operators.
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/model_files.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::json;

Json info_of(const std::string& path) {
  const Finished done = run({"info", path, "--json"});
  EXPECT_EQ(done.code, 0) << done.err;
  Json json = Json::parse(done.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << done.out;
  return json;
}

TEST(Info, Model) {
  const Json mlp = info_of("zoo:mlp");
  EXPECT_EQ(mlp["kind"], "model");
  EXPECT_EQ(mlp["inputs"].size(), 1u);
  EXPECT_EQ(mlp["inputs"][0]["type"], "f32");
  EXPECT_EQ(mlp["inputs"][0]["shape"], Json({1, 784}));
  EXPECT_GT(mlp["parameters"], 1000);
  const Json symbolic = info_of("docs/reference/examples/symbolic.onnx");
  EXPECT_GT(symbolic["bytes"], 0);
  EXPECT_FALSE(symbolic["symbolic_dims"].empty()) << symbolic;
  EXPECT_FALSE(symbolic["operators"].empty());
  const Finished text = run({"info", "docs/reference/examples/symbolic.onnx"});
  EXPECT_NE(text.out.find("symbolic dims: "), std::string::npos) << text.out;
  EXPECT_LT(text.out.find("inputs:"), text.out.find("outputs:")) << text.out;
}

TEST(Info, ShapesCanBeRead) {
  using onnx::testing::make_node;
  const std::string path =
      save("shapes.onnx", onnx::testing::make_model(onnx::testing::make_graph(
                              {floats("past", {"batch_size", "4", "past_sequence_length", "16"}),
                               floats("scale", {}), floats("row", {"n"})},
                              {make_node("Mul", {"past", "scale"}, {"y"})}, {"y", "row"})));
  const Finished text = run({"info", path});
  EXPECT_NE(text.out.find("past  f32  [batch_size, 4, past_sequence_length, 16]\n"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("scale  f32  scalar\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("row  f32  [n]\n"), std::string::npos) << text.out;
}

// Weights that are nodes count as those that are not; "?" is no name of a size.
TEST(Info, WeightsInNodesAndNamelessSizes) {
  using onnx::testing::float_tensor;
  using onnx::testing::make_node;
  const std::string path =
      save("nodes.onnx",
           onnx::testing::make_model(onnx::testing::make_graph(
               {floats("x", {"?", "?"})},
               {make_node("Constant", {}, {"c"}, {{"value", float_tensor({1, 3}, {1, 2, 3}), ""}}),
                make_node("Add", {"x", "c"}, {"y"})},
               {"y"})));
  const Json info = info_of(path);
  EXPECT_EQ(info["parameters"], 3);
  EXPECT_EQ(info["parameter_bytes"], 12);
  EXPECT_TRUE(info["symbolic_dims"].empty()) << info;
  EXPECT_EQ(info["inputs"][0]["shape"], Json({"?", "?"}));
}

TEST(Info, ArtifactPlanAndDatabase) {
  const std::string file = write_file("marker", "");
  const std::string folder = file.substr(0, file.rfind('/'));
  const std::string out = folder + "/out", plan = folder + "/t.plan", db = folder + "/t.db";
  ASSERT_EQ(run({"compile", "zoo:mlp", "-o", out, "--cost-model", "none"}).code, 0);
  const Json artifact = info_of(out);
  EXPECT_EQ(artifact["kind"], "artifact");
  EXPECT_EQ(artifact["inputs"][0]["shape"], Json({1, 784}));
  EXPECT_EQ(artifact["outputs"].size(), 1u);
  EXPECT_EQ(info_of(out + "/mlp.json")["name"], "mlp");
  const Finished tuned = run_shell(
      "rm -f " + db +
      "*; tessera tune --op matmul:M=8,N=8,K=8 --threads 1 --trials 4 --peers none --db " + db +
      " --plan " + plan);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Json of_plan = info_of(plan);
  EXPECT_EQ(of_plan["kind"], "plan");
  EXPECT_EQ(of_plan["threads"], 1);
  EXPECT_EQ(of_plan["tasks"].size(), 1u);
  const Json of_db = info_of(db);
  EXPECT_EQ(of_db["kind"], "database of records");
  EXPECT_GE(of_db["records"], 4);
  EXPECT_EQ(of_db["sessions"][0]["state"], "done");
}

TEST(Info, Weights) {
  const Json weights = info_of("weights/x86_64-default.safetensors");
  EXPECT_EQ(weights["kind"], "weights");
  EXPECT_EQ(weights["notes"]["network"], "mlp");
  EXPECT_GT(weights["parameters"], 1000);
  EXPECT_EQ(weights["made_for"][0], "neoverse-v1 with threads=1");
}

TEST(Info, SaysWhatItCannotRead) {
  EXPECT_EQ(run({"info"}).code, 2);
  const Finished absent = run({"info", "no/such/file"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.err.find("no/such/file"), std::string::npos) << absent.err;
  EXPECT_NE(run({"info", "docs"}).err.find("no artifact"), std::string::npos);
  EXPECT_EQ(run({"info", write_file("x.plan", "{}")}).code, 2);
  EXPECT_EQ(run({"info", write_file("x.onnx", "nonsense of some length")}).code, 2);
}

TEST(Info, TheOperatorsInTheDocumentsAreThoseOfTheImporter) {
  const std::string path = std::string(TESSERA_ROOT) + "/docs/reference/operators.md";
  const Finished page = run({"info", "--operators"});
  ASSERT_EQ(page.code, 0) << page.err;
  if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << page.out;
  EXPECT_EQ(page.out, read_file(path))
      << "refresh: tessera info --operators > docs/reference/operators.md";
  for (const char* text : {", Conv, ", ", Clip (11), ", "- DFT (from 17, 20), ", "- Cast*, "}) {
    EXPECT_NE(page.out.find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera::cli

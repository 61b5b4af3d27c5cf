// Commands on graphs in TpuGraphs' schema.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/graphset/npz_file.h"
#include "tests/cli/process.h"
#include "tests/graphset/graph_case.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::json;

std::string graph_file() {
  std::string path = graphset::testing::temp_file("chain.npz");
  EXPECT_TRUE(graphset::write_graph(path, graphset::testing::layout_graph(18, 200, 1)).ok());
  return path;
}

TEST(Graphs, ShowSaysWhatIsInside) {
  const std::string file = graph_file();
  const Finished text = run({"dataset", "show", file});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("chain: layout set, 18 nodes of 8 numbers, 17 edges\n"
                          "  6 nodes can be configured (6 convolution), 1 major parts\n"),
            std::string::npos)
      << text.out;
  const Json json = Json::parse(run({"dataset", "show", file, "--json"}).out)["graphs"][0];
  EXPECT_EQ(json["configs"], 200);
  EXPECT_LE(json["distinct"], 64);
  EXPECT_NEAR(json["tau_ceiling"].get<double>(), 1, 1e-9);
}

TEST(Graphs, WrongFilesAreUsageErrors) {
  const std::string text = write_file("text.npz", "no archive");
  const Finished shown = run({"dataset", "show", text});
  EXPECT_EQ(shown.code, 2);
  EXPECT_NE(shown.err.find("text.npz"), std::string::npos) << shown.err;
  const std::string bad = write_file("bad.pb", "\xff\xff");
  const Finished imported =
      run({"dataset", "import", "--from", "tpugraphs", bad, "-o", bad + ".npz"});
  EXPECT_EQ(imported.code, 2);
  EXPECT_NE(imported.err.find("bad.pb: protobuf"), std::string::npos) << imported.err;
  EXPECT_EQ(run({"dataset", "import", "--from", "nowhere", bad, "-o", "x"}).code, 2);
}

}  // namespace
}  // namespace tessera::cli

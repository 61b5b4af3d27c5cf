// One library for several processors.
#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/machine/target/match.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

// y = x * w + c: w is packed for each processor in its own way, c lies as it is.
graph::Graph product_and_table() {
  graph::GraphBuilder b("net");
  Rng rng(3);
  const graph::ValueId x = b.input("x", {DType::kF32, {64, 64}});
  const graph::ValueId w = b.constant(random_tensor(DType::kF32, {64, 64}, rng), "w");
  const graph::ValueId c = b.constant(random_tensor(DType::kF32, {64, 64}, rng), "c");
  const graph::ValueId p = *b.add("contract", {x, w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}});
  return b.finish({*b.add("add", {p, c})}, {"y"});
}

ArtifactVariant variant(const std::string& name, const target::Target& target) {
  graph::Graph graph = product_and_table();
  task::TaskGraph tasks = *task::extract_tasks(graph);
  return {name, std::move(graph), std::move(tasks), target, {}};
}

// Of the architecture of this machine: what it has, and less.
std::vector<ArtifactVariant> two_variants() {
  target::Target least = target::host();
  const bool x86 = least.arch == target::Arch::kX86_64;
  least = *target::find_target(x86 ? "x86-64-v3" : "neoverse-n1");
  std::vector<ArtifactVariant> out;
  out.push_back(variant("least", least));
  out.push_back(variant("host", target::host()));
  return out;
}

bool has_two() {
  const std::vector<ArtifactVariant> v = two_variants();
  return target::runs_on_host(v[0].target) && v[0].target.features != v[1].target.features;
}

Result<ArtifactReport> write(std::vector<ArtifactVariant> variants, const std::string& folder,
                             const ArtifactOptions& options = {.name = "net"}) {
  return compile_variants(std::move(variants), folder, options);
}

TEST(Variants, TheBestThatFitsIsChosenAndOthersCanBeAskedFor) {
  if (!has_two()) GTEST_SKIP() << "this machine has the least features itself";
  const graph::Graph graph = product_and_table();
  const auto inputs = inputs_for(graph);
  for (const WeightsPlace place : {WeightsPlace::kEmbedded, WeightsPlace::kFile}) {
    const std::string folder = fresh_folder() + "/net";
    const auto report = write(two_variants(), folder, {.name = "net", .weights = place});
    ASSERT_TRUE(report.ok()) << report.error().message;
    const Metadata m = *read_metadata(folder + "/libnet.so");
    ASSERT_EQ(m.variants.size(), 2u);
    EXPECT_EQ(m.variants[0].name, "host");  // whatever the order that was given
    EXPECT_EQ(m.variants[1].name, "least");
    EXPECT_EQ(m.features, m.variants[1].features);
    EXPECT_GT(report->shared_weights, 64 * 64 * 4 - 2048);  // less what a header takes
    for (const int number : {0, 1, 2}) {
      const auto loaded = load_artifact(folder, {.threads = 2, .variant = number});
      ASSERT_TRUE(loaded.ok()) << loaded.error().message;
      const auto outputs = (*loaded)->run(inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.error().message;
      expect_close(*outputs, expected(graph, inputs));
    }
    const auto third = load_artifact(folder, {.variant = 3});
    ASSERT_FALSE(third.ok());
    EXPECT_EQ(third.error().message, "net has no variant 3");
  }
}

TEST(Variants, ProgramsInCSeeWhichWasChosen) {
  if (!has_two()) GTEST_SKIP() << "this machine has the least features itself";
  const std::string folder = fresh_folder();
  const auto report =
      write(two_variants(), folder + "/net", {.name = "net", .emit = Emit::kStatic});
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_TRUE(
      write_file(folder + "/use.c",
                 {"#include \"net/net.h\"\n"
                  "int main(void) {\n"
                  "  tsr_context *a, *b;\n"
                  "  if (net_open(NULL, &a).code || net_variant(a) != 1) return 1;\n"
                  "  if (net_open_variant(2, NULL, &b).code || net_variant(b) != 2) return 2;\n"
                  "  if (net_memory_bytes(b) > NET_MEMORY_BYTES(256)) return 3;\n"
                  "  net_close(a);\n  net_close(b);\n"
                  "  return net_open_variant(3, NULL, &a).code == TSR_INVALID_ARGUMENT ? 0 : 4;\n"
                  "}\n"})
          .ok());
  const auto built = run_tool(
      {"cc", "-Wall", "-Werror", "use.c", "net/libnet.a", "-o", "use", "-lm", "-pthread"}, folder);
  ASSERT_TRUE(built.ok()) << built.error().message;
  const auto ran = run_tool({folder + "/use"}, folder);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
}

TEST(Variants, RefusesWhatOneLibraryCannotHold) {
  const auto refused = [](std::vector<ArtifactVariant> variants, const std::string& said) {
    const std::string folder = fresh_folder() + "/net";
    const auto report = write(std::move(variants), folder);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(report.error().message.find(said), std::string::npos) << report.error().message;
  };
  const auto pair = [](const char* a, const char* b) {
    std::vector<ArtifactVariant> out;
    for (const char* name : {a, b}) out.push_back(variant(name, *target::find_target(name)));
    return out;
  };
  refused(pair("x86-64-v3", "neoverse-v1"), "of one architecture");
  refused(pair("x86-64-v3", "h200"), "h200 is for a GPU");
  refused(pair("x86-64-v3", "x86-64-v3"), "need the same features");
  // With another one between them that needs as many.
  std::vector<ArtifactVariant> three = pair("x86-64-v3", "x86-64-v3");
  three.insert(three.begin() + 1, variant("other", *target::find_target("x86-64-v3")));
  three[1].target.features = "+avx2,+sse4.1";
  three[0].target.features = three[2].target.features = "+avx2,+fma";
  refused(std::move(three), "x86-64-v3 and x86-64-v3 need the same features");
}

// A library whose variants all need what this machine lacks.
TEST(Variants, SaysWhichFeatureTheLastOneLacks) {
  if (!has_two()) GTEST_SKIP() << "this machine has the least features itself";
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(write(two_variants(), folder).ok());
  Metadata m = *read_metadata(folder);
  for (VariantDescription& v : m.variants) v.features.push_back("avx9000");
  m.features.push_back("avx9000");
  ASSERT_TRUE(write_file(folder + "/net.json", {to_json(m)}).ok());
  const auto loaded = load_artifact(folder);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message,
            "this machine lacks avx9000, which the last variant of artifact net was compiled for");
}

}  // namespace
}  // namespace tessera::artifact

#include "tessera/backend/artifact/load_artifact.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/support/files.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

std::string compiled(const graph::Graph& graph, ArtifactOptions options = {}) {
  options.name = "net";
  const std::string folder = fresh_folder() + "/net";
  const auto report = compile_artifact(graph, target::host(), folder, options);
  EXPECT_TRUE(report.ok()) << report.error().message;
  return folder;
}

void expect_refused(const Result<std::unique_ptr<LoadedArtifact>>& loaded, ErrorCode code,
                    const std::string& said) {
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, code);
  EXPECT_NE(loaded.error().message.find(said), std::string::npos) << loaded.error().message;
}

TEST(LoadArtifact, ComputesTheModel) {
  const graph::Graph graph = two_layers();
  const auto inputs = inputs_for(graph);
  for (const WeightsPlace place : {WeightsPlace::kEmbedded, WeightsPlace::kFile}) {
    const std::string folder = compiled(graph, {.weights = place});
    for (const std::string& path : {folder, folder + "/libnet.so", folder + "/net.json"}) {
      const auto loaded = load_artifact(path, {.threads = 2});
      ASSERT_TRUE(loaded.ok()) << loaded.error().message;
      for (int i = 0; i < 3; ++i) {
        const auto outputs = (*loaded)->run(inputs);
        ASSERT_TRUE(outputs.ok()) << outputs.error().message;
        expect_close(*outputs, expected(graph, inputs));
      }
    }
  }
}

TEST(LoadArtifact, OnThreadsOfTheCaller) {
  const graph::Graph graph = two_layers();
  const auto inputs = inputs_for(graph);
  runtime::ThreadPool pool({.threads = 2});
  const auto loaded = load_artifact(compiled(graph), {.host = pool.host()});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto outputs = (*loaded)->run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close(*outputs, expected(graph, inputs));
}

TEST(LoadArtifact, ChecksInputs) {
  const graph::Graph graph = two_layers();
  const auto loaded = load_artifact(compiled(graph));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto none = (*loaded)->run({});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("0 inputs given"), std::string::npos);
  const auto other = (*loaded)->run({HostTensor(DType::kF32, {5, 25})});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("input 'x' must be f32 5x24, not f32 5x25"),
            std::string::npos);
}

TEST(LoadArtifact, RefusesIndicesOutOfRange) {
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    graph::GraphBuilder b("embedding");
    b.set_origin("Gather /embed");
    Rng rng(1);
    const graph::ValueId ids = b.input("ids", {dtype, {3}});
    const graph::ValueId table = b.constant(random_tensor(DType::kF32, {7, 4}, rng), "table");
    const graph::Graph graph =
        b.finish({*b.add("gather", {table, ids}, {{"axis", std::int64_t{0}}})}, {"y"});
    const auto loaded = load_artifact(compiled(graph), {.threads = 1});
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    HostTensor at(dtype, {3});
    at.set_int(0, 6);
    at.set_int(1, -7);
    const auto outputs = (*loaded)->run({at});
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    expect_close(*outputs, expected(graph, {at}));
    at.set_int(2, -8);
    const auto refused = (*loaded)->run({at});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().message,
              "Gather /embed: index -8 (element 2 of input 'ids') is outside a dimension of size "
              "7");
  }
}

TEST(LoadArtifact, RefusesDamagedWeights) {
  const std::string folder = compiled(two_layers(), {.weights = WeightsPlace::kFile});
  const std::string file = folder + "/net.safetensors";
  std::string bytes = *read_file(file);
  bytes[bytes.size() - 3] ^= 1;
  ASSERT_TRUE(write_file(file, {bytes}).ok());
  expect_refused(load_artifact(folder), ErrorCode::kInvalidArgument, "damaged");
  EXPECT_TRUE(load_artifact(folder, {.trust_weights = true}).ok());
  ASSERT_TRUE(write_file(file, {"short"}).ok());
  expect_refused(load_artifact(folder), ErrorCode::kInvalidArgument, "net.safetensors");
  std::filesystem::remove(file);
  expect_refused(load_artifact(folder), ErrorCode::kIo, "net.safetensors");
}

TEST(LoadArtifact, RefusesLibrariesThatAreCutOff) {
  const std::string folder = compiled(two_layers());
  const std::string bytes = *read_file(folder + "/libnet.so");
  for (const std::size_t size : {bytes.size() - 1, bytes.size() / 2, std::size_t{20}}) {
    ASSERT_TRUE(write_file(folder + "/libnet.so", {bytes.substr(0, size)}).ok());
    expect_refused(load_artifact(folder), ErrorCode::kInvalidArgument, "cut off");
  }
  std::filesystem::remove(folder + "/libnet.so");
  expect_refused(load_artifact(folder), ErrorCode::kIo, "libnet.so");
}

TEST(LoadArtifact, RefusesOtherMachinesAndVersions) {
  const std::string folder = compiled(two_layers());
  const auto metadata = read_metadata(folder);
  ASSERT_TRUE(metadata.ok());
  const auto with = [&](auto change) {
    Metadata m = *metadata;
    change(m);
    EXPECT_TRUE(write_file(folder + "/net.json", {to_json(m)}).ok());
    return load_artifact(folder);
  };
  expect_refused(with([](Metadata& m) { m.abi = 999; }), ErrorCode::kUnsupported, "version 999");
  expect_refused(with([](Metadata& m) { m.triple = "riscv64-unknown-linux-gnu"; }),
                 ErrorCode::kUnsupported, "riscv64");
  expect_refused(with([](Metadata& m) { m.features.push_back("avx9000"); }),
                 ErrorCode::kUnsupported, "lacks avx9000");
  expect_refused(with([](Metadata& m) { m.plan_digest = "0"; }), ErrorCode::kInvalidArgument,
                 "does not fit its metadata");
}

TEST(LoadArtifact, RefusesWhatCannotBeLoaded) {
  expect_refused(load_artifact(compiled(two_layers(), {.emit = Emit::kStatic})),
                 ErrorCode::kUnsupported, "libnet.a");
  expect_refused(load_artifact(fresh_folder()), ErrorCode::kInvalidArgument, "holds no artifact");
  expect_refused(load_artifact("/nonexistent"), ErrorCode::kIo, "/nonexistent");
}

}  // namespace
}  // namespace tessera::artifact

// What an artifact for CUDA does around its kernels, with a driver that has no device behind it.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class CudaArtifact : public ::testing::Test {
 protected:
  // run_artifact.c with a CUDA artifact of two_layers, and the driver in a folder of its own.
  void SetUp() override {
    folder_ = fresh_folder();
    const auto report =
        compile_artifact(graph_, *target::find_target("h200"), folder_ + "/net", {.name = "net"});
    ASSERT_TRUE(report.ok()) << report.error().message;
    metadata_ = report->metadata;
    fs::create_directory(folder_ + "/driver");
    build_driver({});
    const auto built =
        run_tool({"cc", "-std=c11", "-DMODEL_HEADER=\"net.h\"", "-DMODEL_API=net_api",
                  "-I" + folder_ + "/net", TESSERA_ARTIFACT_EXAMPLE, folder_ + "/net/libnet.so",
                  "-o", folder_ + "/run", "-Wl,-rpath," + folder_ + "/net"},
                 folder_);
    ASSERT_TRUE(built.ok()) << built.error().message;
  }

  void build_driver(const Words& flags) {
    Words command = {"cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"};
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {"-o", folder_ + "/driver/libcuda.so.1", TESSERA_FAKE_CUDA});
    const auto built = run_tool(command, folder_);
    ASSERT_TRUE(built.ok()) << built.error().message;
  }

  Words program(const Words& environment = {}) {
    Words out = {"env", "LD_LIBRARY_PATH=" + folder_ + "/driver"};
    out.insert(out.end(), environment.begin(), environment.end());
    out.push_back(folder_ + "/run");
    return out;
  }

  // Outputs, and what the driver said: on stderr, which a shell keeps.
  std::pair<std::vector<HostTensor>, std::string> run_five_times(
      const Words& environment, const std::vector<HostTensor>& inputs) {
    std::string line;
    for (const std::string& word : program(environment)) line += word + " ";
    EXPECT_TRUE(write_file(folder_ + "/run.sh", {"#!/bin/sh\nexec " + line +
                                                 "--repeat 5 \"$@\" 2> " + folder_ + "/said\n"})
                    .ok());
    auto outputs = run_program({"sh", folder_ + "/run.sh"}, folder_, graph_, inputs);
    return {std::move(outputs), *read_file(folder_ + "/said")};
  }

  // The message of a program that fails.
  std::string failure(Words command) {
    for (const char* file : {"/in0", "/out0", "/out1", "/out2"}) command.push_back(folder_ + file);
    const auto inputs = inputs_for(graph_);
    EXPECT_TRUE(
        write_file(folder_ + "/in0", {std::string_view(inputs[0].as<char>(), inputs[0].bytes())})
            .ok());
    const auto ran = run_tool(command, folder_);
    EXPECT_FALSE(ran.ok());
    return ran.ok() ? "" : ran.error().message;
  }

  graph::Graph graph_ = two_layers();
  Metadata metadata_;
  std::string folder_;
};

std::size_t count(const std::string& text, const std::string& line) {
  std::size_t n = 0;
  for (std::size_t at = text.find(line + "\n"); at != std::string::npos;
       at = text.find(line + "\n", at + 1)) {
    ++n;
  }
  return n;
}

// What runs often is one graph: launched once, recorded once, then replayed.
TEST_F(CudaArtifact, RepeatedRunsAreReplaysOfOneGraph) {
  const auto inputs = inputs_for(graph_);
  const auto [outputs, said] = run_five_times({}, inputs);
  const std::size_t steps = metadata_.steps.size();
  EXPECT_GE(count(said, "launched"), steps);
  EXPECT_EQ(count(said, "launched"), count(said, "recorded"));
  EXPECT_EQ(count(said, "early"), count(said, "recorded"));
  EXPECT_EQ(count(said, "replayed"), 4u);
  const bool assembled = metadata_.code.size() == 2;
  EXPECT_GT(count(said, assembled ? "module binary" : "module text"), 0u);
  EXPECT_EQ(count(said, assembled ? "module text" : "module binary"), 0u);
  EXPECT_EQ(count(said, "released 0, 0 entered"), 1u);
  // Those that no kernel writes: through the memory of the device.
  const auto want = expected(graph_, inputs);
  ASSERT_EQ(outputs.size(), 3u);
  expect_close({outputs[1], outputs[2]}, {want[1], want[2]});
}

TEST_F(CudaArtifact, DriversThatCannotStartKernelsEarlyStartThemOneByOne) {
  const auto inputs = inputs_for(graph_);
  const auto [outputs, said] = run_five_times({"FAKE_CUDA_FAIL=cuLaunchKernelEx"}, inputs);
  EXPECT_EQ(count(said, "early"), 0u) << said;
  EXPECT_EQ(count(said, "replayed"), 4u) << said;
  const auto want = expected(graph_, inputs);
  ASSERT_EQ(outputs.size(), 3u);
  expect_close({outputs[1], outputs[2]}, {want[1], want[2]});
}

// Three products of one input, side by side.
graph::Graph three_branches() {
  graph::GraphBuilder b("three branches");
  const graph::ValueId x = b.input("x", {DType::kF32, {64, 64}});
  std::vector<graph::ValueId> ends;
  for (int i = 0; i < 3; ++i) {
    HostTensor weights(DType::kF32, {64, 64});
    const graph::ValueId w = b.constant(std::move(weights), "weight");
    ends.push_back(*b.add("contract", {x, w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}}));
  }
  return b.finish({*b.add("concat", ends, {{"axis", std::int64_t{1}}})}, {"y"});
}

class BranchedCudaArtifact : public CudaArtifact {
 protected:
  BranchedCudaArtifact() { graph_ = three_branches(); }

  void expect_one_after_the_other(const Words& environment) {
    const auto [outputs, said] = run_five_times(environment, inputs_for(graph_));
    EXPECT_GE(count(said, "launched"), 4u) << said;
    EXPECT_EQ(count(said, "launched"), count(said, "recorded")) << said;
    EXPECT_EQ(count(said, "replayed"), 4u) << said;
  }
};

TEST_F(BranchedCudaArtifact, BranchesForkAndJoin) {
  const auto [outputs, said] = run_five_times({}, inputs_for(graph_));
  EXPECT_EQ(count(said, "recorded"), 0u) << said;
  const std::size_t launches = count(said, "launched");  // by the first run
  ASSERT_GE(launches, 4u) << said;
  EXPECT_EQ(count(said, "node"), launches) << said;
  EXPECT_EQ(count(said, "replayed"), 4u) << said;
  // The last one joins three, and of the others each begins without one of them.
  std::size_t edges = 0, joined = 0;
  for (std::size_t at = said.find("edge "); at != std::string::npos;
       at = said.find("edge ", at + 1))
    ++edges;
  for (std::size_t from = 1; from < launches; ++from)
    joined += count(said, fmt::format("edge {} {}", from, launches));
  EXPECT_EQ(joined, 3u) << said;
  EXPECT_EQ(edges, launches - 4 + 3) << said;
}

TEST_F(BranchedCudaArtifact, DriversThatKnowNoSuchGraphsRunOneAfterTheOther) {
  for (const char* function : {"cuGraphCreate", "cuGraphAddKernelNode_v2",
                               "cuGraphAddDependencies_v2", "cuGraphInstantiate"}) {
    SCOPED_TRACE(function);
    expect_one_after_the_other({fmt::format("FAKE_CUDA_FAIL={}", function)});
  }
}

TEST_F(BranchedCudaArtifact, DriversThatLackAFunctionForThemRunOneAfterTheOther) {
  for (const char* function :
       {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphAddDependencies_v2"}) {
    SCOPED_TRACE(function);
    build_driver({fmt::format("-D{}=named_otherwise", function)});
    expect_one_after_the_other({});
  }
}

// Three pairs of products, then one whose wide first result lies where theirs were: by memory three
// steps join, by values none.
graph::Graph reused_memory() {
  graph::GraphBuilder b("reused memory");
  const graph::ValueId x = b.input("x", {DType::kF32, {64, 64}});
  const auto product = [&](graph::ValueId a, std::int64_t k, std::int64_t n) {
    const graph::ValueId w = b.constant(HostTensor(DType::kF32, {k, n}), "weight");
    return *b.add("contract", {a, w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}});
  };
  std::vector<graph::ValueId> begun, ends;
  for (int i = 0; i < 3; ++i) begun.push_back(product(x, 64, 64));
  for (const graph::ValueId a : begun) ends.push_back(product(a, 64, 64));
  ends.push_back(product(product(x, 64, 192), 192, 64));
  return b.finish(ends, {"y0", "y1", "y2", "y3"});
}

class UnbranchedCudaArtifact : public CudaArtifact {
 protected:
  UnbranchedCudaArtifact() { graph_ = reused_memory(); }
};

TEST_F(UnbranchedCudaArtifact, StepsThatShareMemoryAreNoBranches) {
  const auto [outputs, said] = run_five_times({}, inputs_for(graph_));
  EXPECT_EQ(count(said, "node"), 0u) << said;
  EXPECT_EQ(count(said, "recorded"), 8u) << said;
}

TEST_F(CudaArtifact, FailuresOfTheDriverAreNamed) {
  const auto expect_said = [&](const Words& environment, const std::string& said) {
    const std::string message = failure(program(environment));
    EXPECT_NE(message.find(said), std::string::npos) << message;
  };
  expect_said({"FAKE_CUDA_DEVICES=0"}, "no CUDA device 0: there are 0");
  expect_said({"FAKE_CUDA_FAIL=cuInit"}, "no CUDA device: the driver says: as asked");
  expect_said({"FAKE_CUDA_CAPABILITY=80"},
              "net was compiled for compute capability 9.0, the device has 8.0");
  expect_said({"FAKE_CUDA_FAIL=cuModuleLoadDataEx"}, "line 7 is wrong");
  expect_said({"FAKE_CUDA_FAIL=cuMemAlloc"},
              "no memory on the device: as asked (CUDA_ERROR_OUT_OF_MEMORY)");
  expect_said({"FAKE_CUDA_FAIL=cuLaunchKernel"}, "CUDA_ERROR_OUT_OF_MEMORY");
}

// The text serves a newer device.
TEST_F(CudaArtifact, ADriverWithoutAFunctionIsTooOld) {
  ASSERT_TRUE(
      write_file(folder_ + "/empty.c", {"int cuInit(unsigned f) { return (int)f; }\n"}).ok());
  ASSERT_TRUE(run_tool({"cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o",
                        folder_ + "/driver/libcuda.so.1", "empty.c"},
                       folder_)
                  .ok());
  EXPECT_NE(failure(program()).find("the CUDA driver is too old: no cuGetErrorName"),
            std::string::npos);
}

TEST_F(CudaArtifact, WithoutADriverOpeningSaysSo) {
  if (runtime::open_device(target::Kind::kCuda).ok()) GTEST_SKIP() << "there is a CUDA driver";
  const auto loaded = load_artifact(folder_ + "/net");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(loaded.error().message.find("no CUDA d"), std::string::npos) << loaded.error().message;
}

}  // namespace
}  // namespace tessera::artifact

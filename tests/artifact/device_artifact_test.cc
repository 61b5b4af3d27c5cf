// Artifacts on the devices at hand: PoCL where there is no GPU.
#include <cctype>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/device_model.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/runtime/device/opencl_driver.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tests/artifact/artifact_fixture.h"
#include "tests/testing/devices.h"
#include "tests/testing/testing.h"

namespace tessera::artifact {
namespace {

Result<ArtifactReport> compile(const graph::Graph& graph, const target::Target& target,
                               const std::string& folder, ArtifactOptions options = {}) {
  options.name = "net";
  return compile_artifact(graph, target, folder, options);
}

tsr_dl_tensor tensor_of(const HostTensor& t) {
  const int code = is_float(t.dtype()) ? 2 : 0;
  return {
      const_cast<void*>(t.data()),
      {TSR_DL_CPU, 0},
      static_cast<std::int32_t>(t.shape().size()),
      {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_bytes(t.dtype())), 1},
      const_cast<std::int64_t*>(t.shape().data()),
      nullptr,
      0};
}

std::vector<tsr_dl_tensor> tensors_of(const std::vector<HostTensor>& tensors) {
  std::vector<tsr_dl_tensor> out;
  out.reserve(tensors.size());
  for (const HostTensor& t : tensors) out.push_back(tensor_of(t));
  return out;
}

std::vector<HostTensor> results_of(const graph::Graph& graph) {
  std::vector<HostTensor> out;
  for (const graph::ValueId id : graph.outputs) {
    out.emplace_back(graph.type(id).dtype, graph.shape(id));
  }
  return out;
}

class DeviceArtifact : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<target::Target> found = runtime::resolve_target(GetParam());
    if (!testing::has_device(GetParam(), found)) GTEST_SKIP() << found.error().message;
    target_ = *found;
  }

  std::unique_ptr<LoadedArtifact> loaded(const std::string& path, const LoadOptions& options = {}) {
    auto artifact = load_artifact(path, options);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    return artifact.ok() ? std::move(*artifact) : nullptr;
  }

  target::Target target_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceArtifact, ::testing::Values("cuda", "opencl"),
                         [](const auto& kind) { return std::string(kind.param); });

// With outputs that are an input and a constant, weights inside and beside the library.
TEST_P(DeviceArtifact, ComputesTheModel) {
  const graph::Graph graph = two_layers();
  const auto inputs = inputs_for(graph);
  const auto want = expected(graph, inputs);
  const std::string folder = fresh_folder();
  for (const WeightsPlace place : {WeightsPlace::kEmbedded, WeightsPlace::kFile}) {
    const auto report = compile(graph, target_, folder + "/net", {.weights = place});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->metadata.device, target_.kind);
    EXPECT_EQ(read_metadata(folder + "/net")->device, target_.kind);
    const auto artifact = loaded(folder + "/net");
    ASSERT_TRUE(artifact);
    for (int i = 0; i < 3; ++i) {
      const auto outputs = artifact->run(inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.error().message;
      expect_close(*outputs, want);
    }
    const std::vector<HostTensor> outputs = results_of(graph);
    const auto ran = artifact->run_tensors(tensors_of(inputs).data(), tensors_of(outputs).data(),
                                           /*stream=*/nullptr);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    expect_close(outputs, want);
  }
}

// Two contexts of one library at once, each with its own memory.
TEST_P(DeviceArtifact, ContextsAreIndependent) {
  const graph::Graph graph = two_layers();
  const auto inputs = inputs_for(graph);
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(graph, target_, folder).ok());
  const auto one = loaded(folder), two = loaded(folder);
  ASSERT_TRUE(one && two);
  std::vector<HostTensor> zeros = {HostTensor(DType::kF32, inputs[0].shape())};
  const auto first = one->run(inputs), second = two->run(zeros), third = one->run(inputs);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  expect_close(*first, expected(graph, inputs));
  expect_close(*second, expected(graph, zeros));
  expect_close(*third, *first);
}

TEST_P(DeviceArtifact, NetworksComputeWhatTheProcessorComputes) {
  for (const std::string model :
       {"zoo:mlp@inputs=48,hidden=24", "zoo:lenet",
        "zoo:bert_tiny@layers=1,seq=8,hidden=32,ffn=64,heads=2,vocab=50"}) {
    std::vector<std::vector<HostTensor>> results;
    for (const target::Target& target : {target::host(), target_}) {
      app::CompileOptions options;
      options.target = target;
      const auto graph = app::load_graph(model, options);
      ASSERT_TRUE(graph.ok()) << graph.error().message;
      const std::string folder = fresh_folder() + "/net";
      const auto report = compile(*graph, target, folder);
      ASSERT_TRUE(report.ok()) << model << ": " << report.error().message;
      const auto artifact = loaded(folder);
      ASSERT_TRUE(artifact);
      std::vector<std::string> names;
      std::vector<graph::TensorType> types;
      for (const TensorDescription& t : artifact->metadata().inputs) {
        names.push_back(t.name);
        types.push_back({t.dtype, t.shape});
      }
      auto outputs = artifact->run(app::random_model_inputs(names, types, 1));
      ASSERT_TRUE(outputs.ok()) << model << ": " << outputs.error().message;
      results.push_back(std::move(*outputs));
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_EQ(testing::mismatch(results[1][i], results[0][i],
                                  testing::tolerance(results[0][i].dtype(), 1024)),
                "")
          << model;
    }
  }
}

TEST_P(DeviceArtifact, WrongTensorsAreNamed) {
  const graph::Graph graph = two_layers();
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(graph, target_, folder).ok());
  const auto artifact = loaded(folder);
  ASSERT_TRUE(artifact);
  const auto inputs = inputs_for(graph);
  const auto outputs = results_of(graph);
  const auto refused = [&](auto change, const std::string& said) {
    auto in = tensors_of(inputs), out = tensors_of(outputs);
    change(in[0], out[0]);
    const auto ran = artifact->run_tensors(in.data(), out.data(), nullptr);
    ASSERT_FALSE(ran.ok());
    EXPECT_EQ(ran.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(ran.error().message.find(said), std::string::npos) << ran.error().message;
  };
  const auto in_place = [](auto set) {
    return [set](tsr_dl_tensor& in, tsr_dl_tensor&) { set(in); };
  };
  refused(in_place([](tsr_dl_tensor& t) { t.device = {12, 0}; }), "x is on DLPack device 12:0");
  const std::int32_t own = target_.kind == target::Kind::kCuda ? TSR_DL_CUDA : TSR_DL_OPENCL;
  refused(in_place([own](tsr_dl_tensor& t) {
            t.device = {own, 3};
          }),
          fmt::format("x is on DLPack device {}:3", own));
  refused(in_place([](tsr_dl_tensor& t) { t.dtype.bits = 16; }), "x must be f32");
  refused(in_place([](tsr_dl_tensor& t) { t.ndim = 1; }), "x must have 2 dimensions, not 1");
  std::int64_t shape[2] = {5, 25}, strides[2] = {1, 5};
  refused(in_place([&](tsr_dl_tensor& t) { t.shape = shape; }),
          "dimension 1 of x must be 24, not 25");
  refused(in_place([&](tsr_dl_tensor& t) { t.strides = strides; }), "row-major");
  refused(in_place([](tsr_dl_tensor& t) { t.data = nullptr; }), "no memory given for x");
  refused([](tsr_dl_tensor& in, tsr_dl_tensor& out) { out.data = in.data; },
          "output y overlaps input x");
}

TEST_P(DeviceArtifact, RefusesDevicesThatAreNotThere) {
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(two_layers(), target_, folder).ok());
  const auto missing = load_artifact(folder, {.device = 77});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(missing.error().message.find("device 77: there are "), std::string::npos)
      << missing.error().message;
  const std::string bytes = *read_file(folder + "/libnet.so");
  ASSERT_TRUE(write_file(folder + "/libnet.so", {bytes.substr(0, bytes.size() / 2)}).ok());
  const auto cut = load_artifact(folder);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().message.find("cut off"), std::string::npos) << cut.error().message;
}

TEST_P(DeviceArtifact, ModelsWithoutKernels) {
  const graph::Graph graph = nothing();
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(graph, target_, folder).ok());
  const auto artifact = loaded(folder);
  ASSERT_TRUE(artifact);
  const auto inputs = inputs_for(graph);
  const auto outputs = artifact->run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close(*outputs, inputs);
}

// Without a library around it: what the C interface to the compiler runs.
TEST_P(DeviceArtifact, RunsFromMemory) {
  const graph::Graph graph = two_layers();
  const auto inputs = inputs_for(graph);
  const auto tasks = task::extract_tasks(graph, {});
  ASSERT_TRUE(tasks.ok());
  auto model = DeviceModel::make(graph, *tasks, target_, {}, "net");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_FALSE(DeviceModel::open(*model, {.device = 77}).ok());
  const auto opened = DeviceModel::open(*model, {});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  model->reset();
  for (int i = 0; i < 2; ++i) {
    const auto outputs = (*opened)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    expect_close(*outputs, expected(graph, inputs));
  }
}

// The library with examples/c/run_artifact.c and nothing of Tessera.
TEST_P(DeviceArtifact, ExampleProgramComputesTheModel) {
  const graph::Graph graph = two_layers();
  const std::string folder = fresh_folder();
  const auto report = compile(graph, target_, folder + "/net", {.emit = Emit::kStatic});
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto built =
      run_tool({"cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-DMODEL_HEADER=\"net.h\"",
                "-DMODEL_API=net_api", "-I" + folder + "/net", TESSERA_ARTIFACT_EXAMPLE,
                folder + "/net/libnet.a", "-o", folder + "/run", "-ldl"},
               folder);
  ASSERT_TRUE(built.ok()) << built.error().message;
  const auto inputs = inputs_for(graph);
  expect_close(run_program({folder + "/run", "--repeat", "3"}, folder, graph, inputs),
               expected(graph, inputs));
}

// Memory objects of the caller, on a queue of the caller.
TEST(OpenClArtifact, UsesMemoryOfTheCallerInPlace) {
  const Result<target::Target> target = runtime::resolve_target("opencl");
  if (!testing::has_device("opencl", target)) GTEST_SKIP() << target.error().message;
  namespace cl = runtime::opencl;
  const cl::Driver& d = **cl::driver();
  cl::Platform platform = nullptr;
  cl::DeviceId device = nullptr;
  std::int32_t code = 0;
  ASSERT_EQ(d.platforms(1, &platform, nullptr), 0);
  ASSERT_EQ(d.devices(platform, cl::kAnyDevice, 1, &device, nullptr), 0);
  cl::Context context = d.create_context(nullptr, 1, &device, nullptr, nullptr, &code);
  cl::Queue queue = d.create_queue(context, device, 0, &code);
  ASSERT_EQ(code, 0);
  const graph::Graph graph = two_layers();
  const auto inputs = inputs_for(graph);
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(graph, *target, folder).ok());
  auto artifact = load_artifact(folder, {.queue = queue});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<HostTensor> results = results_of(graph);
  auto in = tensors_of(inputs), out = tensors_of(results);
  const auto move = [&](tsr_dl_tensor& t, std::size_t bytes) {
    cl::Memory memory = d.create_buffer(context, cl::kReadWrite, bytes, nullptr, &code);
    EXPECT_EQ(code, 0);
    EXPECT_EQ(d.write(queue, memory, 1, 0, bytes, t.data, 0, nullptr, nullptr), 0);
    t.data = memory;
    t.device = {TSR_DL_OPENCL, 0};
  };
  move(in[0], inputs[0].bytes());
  for (std::size_t i = 0; i < out.size(); ++i) move(out[i], results[i].bytes());
  ASSERT_TRUE((*artifact)->run_tensors(in.data(), out.data(), queue).ok());
  for (std::size_t i = 0; i < out.size(); ++i) {
    // In the order of the queue: behind the run.
    EXPECT_EQ(d.read(queue, static_cast<cl::Memory>(out[i].data), 1, 0, results[i].bytes(),
                     results[i].data(), 0, nullptr, nullptr),
              0);
  }
  expect_close(results, expected(graph, inputs));
  const auto refused = [&](LoadedArtifact& by, const std::string& said) {
    const auto ran = by.run_tensors(in.data(), out.data(), nullptr);
    ASSERT_FALSE(ran.ok());
    EXPECT_NE(ran.error().message.find(said), std::string::npos) << ran.error().message;
  };
  const auto other = load_artifact(folder);
  ASSERT_TRUE(other.ok());
  refused(**other, "x is of another OpenCL context");
  std::swap(out[0].data, out[2].data);
  refused(**artifact, "y needs 140 bytes, its cl_mem has 24");
  std::swap(out[0].data, out[2].data);
  in[0].byte_offset = 4;
  refused(**artifact, "x: an OpenCL tensor must begin at its cl_mem");
  artifact->reset();
  d.release_buffer(static_cast<cl::Memory>(in[0].data));
  for (const tsr_dl_tensor& t : out) d.release_buffer(static_cast<cl::Memory>(t.data));
  d.release_queue(queue);
  d.release_context(context);
}

// For a machine of the table, wherever it is compiled.
class CrossDeviceArtifact : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Rows, CrossDeviceArtifact, ::testing::Values("h200", "a100", "opencl-1.2"),
                         [](const auto& row) {
                           std::string name = row.param;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

TEST_P(CrossDeviceArtifact, IsReproducibleAndHasACleanHeader) {
  const target::Target target = *target::find_target(GetParam());
  const std::string folder = fresh_folder();
  for (const std::string name : {"/one", "/two"}) {
    const auto report = compile(two_layers(), target, folder + name);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const bool cuda = target.kind == target::Kind::kCuda;
    EXPECT_EQ(report->metadata.code.front(), cuda ? "ptx" : "opencl-c");
    EXPECT_EQ(report->metadata.triple, target::host().triple);
  }
  for (const std::string file : {"/net.h", "/net.json", "/libnet.so"}) {
    EXPECT_EQ(*read_file(fmt::format("{}/one{}", folder, file)),
              *read_file(fmt::format("{}/two{}", folder, file)))
        << file;
  }
  ASSERT_TRUE(write_file(folder + "/use.cc", {"#include \"net.h\"\nint main() { return "
                                              "net_info()->num_inputs; }\n"})
                  .ok());
  const auto used = run_tool({"c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                              "-I" + folder + "/one", "use.cc"},
                             folder);
  EXPECT_TRUE(used.ok()) << used.error().message;
}

TEST_P(CrossDeviceArtifact, HostOperatorsAreNamed) {
  const auto report =
      compile(with_topk(), *target::find_target(GetParam()), fresh_folder() + "/net");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(report.error().message.find("TopK /head/topk"), std::string::npos)
      << report.error().message;
}

}  // namespace
}  // namespace tessera::artifact

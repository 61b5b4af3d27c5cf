// How much memory of its own a command takes for the weights of a model.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera_onnx.pb.h"
#include "tests/cli/model_files.h"
#include "tests/cli/process.h"
#include "tests/generate/byte_model.h"
#include "tests/onnx/model_builder.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
namespace pb = ::tessera_onnx;

// What a process holds that no file backs, in bytes; 0 when it has ended.
double anonymous_bytes(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) * 1024;
  }
  return 0;
}

// The most that `tessera ARGS` held while it ran, looked at again and again. On one processor, so
// that the number of things in the works is the same everywhere.
double peak_bytes(const std::vector<std::string>& args, const std::string& cache) {
  std::vector<std::string> command = {TESSERA_BINARY};
  command.insert(command.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::setenv("TESSERA_CACHE", cache.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    cpu_set_t one;
    ::sched_getaffinity(0, sizeof one, &one);
    for (int cpu = 0, kept = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &one) && kept++ > 0) CPU_CLR(cpu, &one);
    }
    ::sched_setaffinity(0, sizeof one, &one);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  double peak = 0;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    peak = std::max(peak, anonymous_bytes(child));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command[1] << " " << status;
  ::setenv("TESSERA_CACHE", "off", 1);
  return peak;
}

// Products of a row with square matrices.
onnx::Model products(int count, std::int64_t size) {
  Rng rng(2);
  std::vector<onnx::Node> nodes;
  std::vector<onnx::Initializer> weights;
  std::string last = "x";
  for (int i = 0; i < count; ++i) {
    const std::string w = fmt::format("w{}", i), y = fmt::format("y{}", i);
    weights.push_back({w, random_tensor(DType::kF32, {size, size}, rng)});
    nodes.push_back(onnx::testing::make_node("MatMul", {last, w}, {y}));
    last = y;
  }
  return onnx::testing::make_model(onnx::testing::make_graph(
      {onnx::testing::value_info("x", DType::kF32, {1, size})}, nodes, {last}, std::move(weights)));
}

class Memory : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int kCount = 16;
  static constexpr std::int64_t kSize = 1024;
  static constexpr double kWeights = 4.0 * kCount * kSize * kSize;

  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers hold memory of their own";
#endif
    folder_ = fs::path(write_file("here", "")).parent_path().string();
    const std::int64_t external_above = GetParam() ? 0 : std::int64_t{1} << 40;
    ASSERT_TRUE(
        onnx::save_model(products(kCount, kSize), large(), {.external_above = external_above})
            .ok());
    ASSERT_TRUE(onnx::save_model(products(kCount, 64), small()).ok());
    fs::remove_all(folder_ + "/cache");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string large() const { return folder_ + "/large.onnx"; }
  std::string small() const { return folder_ + "/small.onnx"; }
  // Of a command on the large model beyond that on the small one, in times of the weights.
  double share(const std::string& command, const std::vector<std::string>& more = {}) const {
    std::map<std::string, double> peak;
    for (const std::string& model : {small(), large()}) {
      std::vector<std::string> args = {command, model};
      args.insert(args.end(), more.begin(), more.end());
      peak[model] = peak_bytes(args, folder_ + "/cache");
    }
    const double out = (peak[large()] - peak[small()]) / kWeights;
    std::printf("%s: %.2f times the weights\n", command.c_str(), out);
    return out;
  }

  std::string folder_;
};

TEST_P(Memory, InfoAndCheckHoldNoWeights) {
  EXPECT_LT(share("info"), 0.2);
  EXPECT_LT(share("check"), 0.2);
}

TEST_P(Memory, RunHoldsWeightsOnce) {
  const double first = share("run", {"--random"});
  EXPECT_LT(first, 1.3);
  EXPECT_GT(first, 0.7) << "the weights are packed somewhere";
  EXPECT_LT(share("run", {"--random"}), 0.2) << "they are mapped";
}

TEST_P(Memory, CompileHoldsWeightsOnce) {
  EXPECT_LT(share("compile", {"-o", folder_ + "/out", "--emit", "a", "--cost-model", "none",
                              "--weights", "file"}),
            1.3);
  EXPECT_LT(share("compile", {"-o", folder_ + "/out", "--emit", "a", "--cost-model", "none",
                              "--weights", "embed"}),
            1.3);
}

INSTANTIATE_TEST_SUITE_P(Weights, Memory, ::testing::Bool(), [](const auto& how) {
  return how.param ? "InExternalData" : "InTheFile";
});

// Rows of the cache of a thousand tokens take eight megabytes.
TEST(GrowingTexts, TakeNoMoreMemoryThanAtTheirBeginning) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers hold memory of their own";
#endif
  app::testing::TinyDecoder d = app::testing::byte_model("", 0, true);
  d.hidden = 128;
  d.heads = d.kv_heads = 8;
  d.layers = 8;
  d.context = 1300;
  const std::string model = write_file("growing/m.gguf", app::testing::write_decoder(d));
  constexpr double kRows = 1000.0 * 8 * 2 * 8 * 16 * sizeof(float);
  int out[2];
  ASSERT_EQ(::pipe(out), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::close(out[0]);
    ::execl(TESSERA_BINARY, TESSERA_BINARY, "generate", model.c_str(), "--prompt", "Hello, you",
            "--max-tokens", "1200", "--threads", "1", nullptr);
    ::_exit(127);
  }
  ::close(out[1]);
  // Each token is a byte, or what stands for one that is no character.
  double early = 0, late = 0;
  std::size_t pieces = 0;
  char piece[64];
  for (ssize_t got = 0; (got = ::read(out[0], piece, sizeof piece)) > 0; ++pieces) {
    double& most = pieces < 100 ? early : late;
    most = std::max(most, anonymous_bytes(child));
  }
  ::close(out[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GT(pieces, 300U) << "or this is no test";
  std::printf("%.0f KB, and %.0f KB in the end\n", early / 1024, late / 1024);
  EXPECT_LT(late - early, kRows / 8);
}

// Weights of 2.4 GB that take no space: holes of a file.
TEST(LargeWeights, ThatALibraryCannotHoldAreRefusedAtOnce) {
  const std::string folder = fs::path(write_file("here", "")).parent_path().string();
  pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  pb::GraphProto& graph = *model.mutable_graph();
  pb::TensorProto& w = *graph.add_initializer();
  w.set_name("w");
  w.set_data_type(1);
  w.add_dims(150'000'000);
  w.add_dims(4);
  w.set_data_location(1);
  auto* location = w.add_external_data();
  location->set_key("location");
  location->set_value("w.data");
  pb::ValueInfoProto& input = *graph.add_input();
  input.set_name("i");
  input.mutable_type()->mutable_tensor_type()->set_elem_type(7);
  input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
  graph.add_output()->set_name("y");
  pb::NodeProto& node = *graph.add_node();
  node.set_op_type("Gather");
  node.add_input("w");
  node.add_input("i");
  node.add_output("y");
  const std::string file = write_file("m.onnx", model.SerializeAsString());
  write_file("w.data", "");
  fs::resize_file(folder + "/w.data", 2'400'000'000);
  for (const char* emit : {"so", "a", "obj"}) {
    const Finished done =
        run({"compile", file, "-o", folder + "/out", "--emit", emit, "--weights", "embed"});
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_NE(done.err.find("2.40 GB of weights"), std::string::npos) << done.err;
    EXPECT_NE(done.err.find("--weights file"), std::string::npos) << done.err;
    EXPECT_FALSE(fs::exists(folder + "/out"));
  }
  EXPECT_EQ(run({"check", file}).code, 0);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera::cli

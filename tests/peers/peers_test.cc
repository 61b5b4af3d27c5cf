// Every built peer module against naive loops; a peer that is not built skips visibly.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <time.h>

#include "peers/peer.h"
#include "peers/spec.h"
#include "tests/peers/peer_reference.h"

// Read by the leak sanitizer: the environment of ONNX Runtime keeps a string.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libonnxruntime"; }

namespace tessera::peers {
namespace {

const char* const kPeers[] = {"openblas", "blis",  "onednn", "acl",  "xnnpack",
                              "ort",      "torch", "cublas", "cudnn"};

struct Case {
  const char* name;
  const char* spec;
};

// Names the case in ctest's listing instead of its bytes.
void PrintTo(const Case& value, std::ostream* stream) { *stream << value.spec; }

const Case kCases[] = {
    {"matmul", "matmul:M=7,N=5,K=11"},
    {"matmul_one", "matmul:M=1,N=1,K=1"},
    {"matmul_large", "matmul:M=67,N=129,K=191,dtype=f32,unknown=key"},
    {"matmul_ta", "matmul:M=9,N=14,K=13,TA=1"},
    {"matmul_tb", "matmul:M=9,N=14,K=13,TB=1"},
    {"matmul_ta_tb", "matmul:M=9,N=14,K=13,TA=1,TB=1"},
    {"bmm", "bmm:B=3,M=5,N=7,K=9"},
    {"bmm_one", "bmm:B=1,M=31,N=33,K=17"},
    {"dense", "dense:M=5,N=13,K=9"},
    {"dense_row", "dense:M=1,N=37,K=64"},
    {"conv", "conv2d:N=1,H=9,W=7,CI=5,CO=6,KH=3,KW=3,S=1,P=1"},
    {"conv_winograd", "conv2d:N=1,H=14,W=14,CI=32,CO=48,KH=3,KW=3,S=1,P=1,algo=winograd"},
    {"conv_1x1", "conv2d:N=1,H=6,W=5,CI=19,CO=11,KH=1,KW=1,S=1,P=0"},
    {"conv_stride", "conv2d:N=1,H=12,W=11,CI=3,CO=8,KH=7,KW=7,S=2,P=3"},
    {"conv_batch_nchw", "conv2d:N=2,H=8,W=9,CI=4,CO=7,KH=3,KW=5,S=1,P=1,layout=nchw"},
    {"conv_groups", "conv2d:N=1,H=7,W=7,CI=6,CO=4,KH=3,KW=3,S=1,P=1,G=2"},
    {"conv_dilated", "conv2d:N=1,H=11,W=10,CI=4,CO=5,KH=3,KW=3,S=1,P=2,D=2"},
    {"depthwise", "depthwise:N=1,H=9,W=8,C=7,KH=3,KW=3,S=1,P=1"},
    {"depthwise_stride", "depthwise:N=2,H=9,W=10,C=20,KH=3,KW=3,S=2,P=1"},
    {"softmax", "softmax:R=3,C=17"},
    {"layernorm", "layernorm:R=5,C=19"},
};

// What a library does not have. Anything else that a peer refuses is a failure.
bool is_unsupported(const std::string& peer, const std::string& name) {
  static const std::set<std::string> kPrepacksOnly = {"matmul_ta", "matmul_ta_tb", "bmm", "bmm_one",
                                                      "layernorm"};
  static const std::set<std::string> kBlas = {
      "matmul",       "matmul_one", "matmul_large", "matmul_ta", "matmul_tb",
      "matmul_ta_tb", "bmm",        "bmm_one",      "dense",     "dense_row"};
  if (peer == "openblas" || peer == "blis" || peer == "cublas") return !kBlas.contains(name);
  if (peer == "cudnn") return kBlas.contains(name) || name == "layernorm";
  if (peer == "acl") return kPrepacksOnly.contains(name) || name == "conv_groups";
  if (peer == "xnnpack") return kPrepacksOnly.contains(name);
  return false;
}

class Module {
 public:
  // Null when the module is not built or its library is missing.
  static std::unique_ptr<Module> open(const std::string& peer) {
    const std::string path = std::string(TESSERA_PEER_DIR) + "/libtessera_peer_" + peer + ".so";
    if (!std::filesystem::exists(path)) return nullptr;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      ADD_FAILURE() << dlerror();
      return nullptr;
    }
    std::unique_ptr<Module> module(new Module(handle));
    return module->version() == nullptr ? nullptr : std::move(module);
  }

  decltype(&tessera_peer_abi) abi;
  decltype(&tessera_peer_version) version;
  decltype(&tessera_peer_create) create;
  decltype(&tessera_peer_set_input) set_input;
  decltype(&tessera_peer_run) run;
  decltype(&tessera_peer_get_output) get_output;
  decltype(&tessera_peer_error) error;
  decltype(&tessera_peer_destroy) destroy;

 private:
  explicit Module(void* handle) {
    load(handle, "tessera_peer_abi", abi);
    load(handle, "tessera_peer_version", version);
    load(handle, "tessera_peer_create", create);
    load(handle, "tessera_peer_set_input", set_input);
    load(handle, "tessera_peer_run", run);
    load(handle, "tessera_peer_get_output", get_output);
    load(handle, "tessera_peer_error", error);
    load(handle, "tessera_peer_destroy", destroy);
  }

  template <typename Function>
  static void load(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    EXPECT_NE(function, nullptr) << name;
  }
};

using Op = std::unique_ptr<TesseraPeerOp, decltype(&tessera_peer_destroy)>;

Op create(const Module& module, const std::string& spec, int threads, std::string* reason) {
  char text[256] = "";
  TesseraPeerOp* op = module.create(spec.c_str(), threads, text, sizeof text);
  *reason = text;
  return Op(op, module.destroy);
}

std::vector<std::vector<float>> random_inputs(const Spec& spec, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<std::vector<float>> inputs;
  for (const std::int64_t count : spec.input_counts) {
    auto& input = inputs.emplace_back(static_cast<std::size_t>(count));
    std::generate(input.begin(), input.end(), [&] { return uniform(generator); });
  }
  return inputs;
}

void set_inputs(const Module& module, TesseraPeerOp* op,
                const std::vector<std::vector<float>>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto count = static_cast<std::int64_t>(inputs[i].size());
    ASSERT_EQ(module.set_input(op, static_cast<int>(i), inputs[i].data(), count), 0)
        << module.error(op);
  }
}

void expect_correct(const Module& module, TesseraPeerOp* op, const Spec& spec,
                    const std::vector<std::vector<float>>& inputs) {
  const std::vector<float> expected = reference(spec, inputs);
  std::vector<float> actual(expected.size(), std::nanf(""));
  const auto count = static_cast<std::int64_t>(actual.size());
  ASSERT_EQ(module.get_output(op, actual.data(), count), 0) << module.error(op);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance(spec)) << "first bad index " << i;
  }
}

class PeerCase : public testing::TestWithParam<std::tuple<const char*, Case>> {};

TEST_P(PeerCase, MatchesNaiveLoops) {
  const auto& [peer, test_case] = GetParam();
  const std::unique_ptr<Module> module = Module::open(peer);
  if (!module) GTEST_SKIP() << "peer " << peer << " is absent";
  const Spec spec = parse_spec(test_case.spec);
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(std::string(test_case.spec) + " threads " + std::to_string(threads));
    std::string reason;
    const Op op = create(*module, test_case.spec, threads, &reason);
    if (is_unsupported(peer, test_case.name)) {
      EXPECT_EQ(op, nullptr);
      EXPECT_NE(reason, "");
      continue;
    }
    ASSERT_NE(op, nullptr) << reason;
    // The second round proves that weights packed for the first one are replaced.
    for (const unsigned seed : {1u, 2u}) {
      const auto inputs = random_inputs(spec, seed);
      ASSERT_NO_FATAL_FAILURE(set_inputs(*module, op.get(), inputs));
      for (int repeat = 0; repeat < 2; ++repeat) {
        ASSERT_EQ(module->run(op.get()), 0) << module->error(op.get());
      }
      ASSERT_NO_FATAL_FAILURE(expect_correct(*module, op.get(), spec, inputs));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Peers, PeerCase,
                         testing::Combine(testing::ValuesIn(kPeers), testing::ValuesIn(kCases)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::get<1>(test.param).name;
                         });

class Peer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    module_ = Module::open(GetParam());
    if (!module_) GTEST_SKIP() << "peer " << GetParam() << " is absent";
  }

  std::unique_ptr<Module> module_;
};

TEST_P(Peer, ReportsVersion) {
  EXPECT_EQ(module_->abi(), TESSERA_PEER_ABI);
  RecordProperty("version", module_->version());
  EXPECT_GT(std::string(module_->version()).size(), 3u);
}

TEST_P(Peer, RefusesBadSpecsWithReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no operation ''"},
      {"fft:N=8", "no operation 'fft'"},
      {"matmul", "M= is missing"},
      {"matmul:M=4,N=4", "K= is missing"},
      {"matmul:M=4,N=0,K=4", "N=0 is not an integer"},
      {"matmul:M=4,N=4x,K=4", "N=4x is not an integer"},
      {"matmul:M=16777216,N=1,K=16777216", "more than 2^34 elements"},
      {"matmul:M=4,N=4,K=4,M=5", "M is given twice"},
      {"matmul:M=4,N", "expected key=value, got 'N'"},
      {"matmul:M=4,N=4,K=4,dtype=f64", "dtype f64: peers run f32, f16 and bf16"},
      {"conv2d:N=1,H=2,W=2,CI=1,CO=1,KH=3,KW=3,S=1,P=0", "kernel exceeds"},
      {"conv2d:N=1,H=8,W=8,CI=4,CO=4,KH=3,KW=3,S=1,P=1,G=3", "G does not divide"},
      {"conv2d:N=1,H=8,W=8,CI=4,CO=4,KH=3,KW=3,S=1,P=1,layout=chwn", "layout=chwn"},
  };
  for (const auto& [spec, expected] : cases) {
    std::string reason;
    EXPECT_EQ(create(*module_, spec, 1, &reason), nullptr) << spec;
    EXPECT_NE(reason.find(expected), std::string::npos) << spec << ": " << reason;
  }
  std::string reason;
  EXPECT_EQ(create(*module_, "matmul:M=4,N=4,K=4", 0, &reason), nullptr);
  EXPECT_NE(reason.find("threads"), std::string::npos) << reason;
}

TEST_P(Peer, RefusesTypesItDoesNotRun) {
  if (is_unsupported(GetParam(), "matmul")) GTEST_SKIP() << "it has no matmul";
  std::string reason;
  const Op op = create(*module_, "matmul:M=2,N=3,K=4,dtype=f16", 1, &reason);
  if (op) {
    EXPECT_EQ(std::string(GetParam()), "cublas");
  } else {
    EXPECT_NE(reason.find("dtype f16: the peer runs f32 only"), std::string::npos) << reason;
  }
}

TEST_P(Peer, RefusesMisuse) {
  if (is_unsupported(GetParam(), "matmul")) GTEST_SKIP() << "it has no matmul";
  std::string reason;
  const Op op = create(*module_, "matmul:M=2,N=3,K=4", 1, &reason);
  ASSERT_NE(op, nullptr) << reason;
  const std::vector<float> data(12, 1.0f);
  std::vector<float> output(6);
  EXPECT_NE(module_->set_input(op.get(), 2, data.data(), 8), 0);
  EXPECT_NE(module_->set_input(op.get(), -1, data.data(), 8), 0);
  EXPECT_NE(module_->set_input(op.get(), 0, data.data(), 9), 0);
  EXPECT_EQ(std::string(module_->error(op.get())), "expected 8 elements, got 9");
  EXPECT_EQ(module_->set_input(op.get(), 0, data.data(), 8), 0);
  EXPECT_NE(module_->run(op.get()), 0);
  EXPECT_EQ(std::string(module_->error(op.get())), "not all inputs are set");
  EXPECT_EQ(module_->set_input(op.get(), 1, data.data(), 12), 0);
  EXPECT_EQ(module_->run(op.get()), 0) << module_->error(op.get());
  EXPECT_NE(module_->get_output(op.get(), output.data(), 5), 0);
  EXPECT_EQ(module_->get_output(op.get(), output.data(), 6), 0);
  EXPECT_EQ(output, std::vector<float>(6, 4.0f));
}

double seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST_P(Peer, OneThreadMeansTheCallingThread) {
  if (is_unsupported(GetParam(), "matmul")) GTEST_SKIP() << "it has no matmul";
  const std::string text = "matmul:M=384,N=384,K=384";
  std::string reason;
  const Op op = create(*module_, text, 1, &reason);
  ASSERT_NE(op, nullptr) << reason;
  ASSERT_NO_FATAL_FAILURE(set_inputs(*module_, op.get(), random_inputs(parse_spec(text), 1)));
  ASSERT_EQ(module_->run(op.get()), 0);
  // Pools created at load time spin for a while before they sleep.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double process = seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double self = seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(module_->run(op.get()), 0);
  const double self_used = seconds(CLOCK_THREAD_CPUTIME_ID) - self;
  const double others_used = seconds(CLOCK_PROCESS_CPUTIME_ID) - process - self_used;
  EXPECT_LT(others_used, 0.05 * self_used + 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Peers, Peer, testing::ValuesIn(kPeers),
                         [](const auto& test) { return std::string(test.param); });

// Several peers export the same BLAS names and share OpenMP; none may reach into another.
TEST(PeerModules, WorkSideBySideInOneProcess) {
  const std::string text = "matmul:M=33,N=47,K=21";
  const Spec spec = parse_spec(text);
  const auto inputs = random_inputs(spec, 3);
  std::vector<std::unique_ptr<Module>> modules;
  std::vector<Op> ops;
  for (const char* peer : kPeers) {
    std::unique_ptr<Module> module = Module::open(peer);
    if (!module || is_unsupported(peer, "matmul")) continue;
    std::string reason;
    ops.push_back(create(*module, text, 2, &reason));
    ASSERT_NE(ops.back(), nullptr) << peer << ": " << reason;
    ASSERT_NO_FATAL_FAILURE(set_inputs(*module, ops.back().get(), inputs));
    modules.push_back(std::move(module));
  }
  if (modules.size() < 2) GTEST_SKIP() << "fewer than two peers are present";
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < modules.size(); ++i) {
      SCOPED_TRACE(modules[i]->version());
      ASSERT_EQ(modules[i]->run(ops[i].get()), 0) << modules[i]->error(ops[i].get());
      ASSERT_NO_FATAL_FAILURE(expect_correct(*modules[i], ops[i].get(), spec, inputs));
    }
  }
}

}  // namespace
}  // namespace tessera::peers

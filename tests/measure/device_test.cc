// Candidates for a device at hand: PoCL where there is no GPU.
#include <chrono>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/scheduling/space/space.h"
#include "tessera/trials/measure/messages.h"
#include "tests/measure/workers.h"
#include "tests/testing/devices.h"

namespace tessera::measure {
namespace {

using namespace std::chrono_literals;

const char* const kMatmul = "matmul:M=32,N=32,K=32";

// Both kinds; those that this machine lacks are skipped.
class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<target::Target> found = ask_target(GetParam());
    if (!testing::has_device(GetParam(), found)) GTEST_SKIP() << found.error().message;
    target_ = *found;
  }

  std::unique_ptr<Measurer> start_for(const std::vector<te::Dag>& tasks, MeasureOptions options,
                                      bool cold = false) {
    std::vector<MeasuredTask> named;
    named.reserve(tasks.size());
    for (const te::Dag& dag : tasks) named.push_back({std::to_string(named.size()), dag, cold});
    options.run_timeout_s = 5;
    options.reference_schedule = reasoned;
    auto measurer = start_local_measurer(named, target_, options);
    EXPECT_TRUE(measurer.ok()) << measurer.error().message;
    return std::move(measurer).value();
  }

  Trial trial(std::uint64_t id, const te::Dag& dag, std::size_t task = 0) const {
    const auto space = space::make_space(dag, target_).value();
    return {.id = id, .task = std::to_string(task), .steps = *space.schedule(space.preferred())};
  }

  // Trial 1 runs a kernel fault(x, y) with this body instead of its own; trials 0 and 2 must not
  // notice.
  std::vector<Measurement> measure_around(const std::string& opencl, const std::string& ptx) {
    const bool is_cuda = target_.kind == target::Kind::kCuda;
    const std::string program =
        is_cuda ? ".version 7.0\n.target sm_70\n.address_size 64\n"
                  ".visible .entry fault(.param .u64 x, .param .u64 y) {\n"
                  ".reg .u64 %rd<4>; .reg .u32 %r<4>;\nld.param.u64 %rd0, [y];\n" +
                      ptx + "\nret;\n}\n"
                : "__kernel void fault(__global const float* x, __global float* y) {\n"
                  "const int i = get_global_id(0);\n" +
                      opencl + "\n}\n";
    const te::Dag dag = dag_of("eltwise:N=4096,fn=relu");
    MeasureOptions options;
    options.hooks.after_build = [=](const Trial& t, Built* built) {
      if (t.id != 1) return;
      built->object = program;
      built->kind = is_cuda ? runtime::BinaryKind::kPtx : runtime::BinaryKind::kOpenClC;
      built->launches.resize(1);
      built->launches[0].name = "fault";
      built->launches[0].arguments = {0, 1};
    };
    const auto measurer = start_for({dag}, options);
    measurer->submit({trial(0, dag), trial(1, dag), trial(2, dag)});
    std::vector<Measurement> all = collect_all(*measurer);
    EXPECT_EQ(all.size(), 3u);
    all.resize(3);
    EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
    EXPECT_EQ(all[2].outcome, Outcome::kOk) << all[2].reason;
    return all;
  }

  target::Target target_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, OnDevice, ::testing::Values("cuda", "opencl"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(OnDevice, TimesAndChecksCandidatesOfSeveralTasks) {
  const std::vector<te::Dag> dags = {dag_of(kMatmul), dag_of("softmax:R=8,C=64")};
  const auto measurer = start_for(dags, {});
  measurer->submit({trial(0, dags[0], 0), trial(1, dags[1], 1), trial(2, dags[0], 0)});
  for (const Measurement& m : collect_all(*measurer)) {
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
    EXPECT_GE(m.samples_s.size(), 3u);
    EXPECT_GT(m.seconds(), 0);
    EXPECT_GT(m.build_ms, 0);
  }
  EXPECT_EQ(descendants(getpid(), "tessera-run").size(), 1u);
}

TEST_P(OnDevice, ComparesSideBySideAndWithColdCaches) {
  const te::Dag dag = dag_of(kMatmul);
  for (const bool cold : {false, true}) {
    const auto measurer = start_for({dag}, {.max_samples = 4}, cold);
    const auto compared = measurer->compare({trial(0, dag), trial(1, dag)});
    ASSERT_EQ(compared.size(), 2u);
    for (const Measurement& m : compared) {
      EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
      EXPECT_EQ(m.samples_s.size(), 8u);
    }
    EXPECT_EQ(measure_one(*measurer, trial(2, dag)).outcome, Outcome::kOk);
  }
}

TEST_P(OnDevice, WhatExceedsTheLimitsIsABuildError) {
  const te::Dag dag = dag_of("eltwise:N=65536,fn=relu");
  const auto measurer = start_for({dag}, {});
  Trial wide = trial(0, dag);
  wide.steps = steps("split Y i 32768\nannotate Y i.0 blockIdx.x\nannotate Y i.1 threadIdx.x\n");
  const Measurement m = measure_one(*measurer, wide);
  EXPECT_EQ(m.outcome, Outcome::kBuildError);
  EXPECT_NE(m.reason.find("threads"), std::string::npos) << m.reason;
}

TEST_P(OnDevice, AWriteIntoAGuardZoneCostsOneTrial) {
  const auto all = measure_around("if (i < 4096) y[i] = max(x[i], 0.0f); if (i == 0) y[4098] = 1;",
                                  "mov.u32 %r0, 1; st.global.u32 [%rd0+16392], %r0;");
  EXPECT_EQ(all[1].outcome, Outcome::kOutOfBounds) << all[1].reason;
  EXPECT_NE(all[1].reason.find("output Y: 4 bytes changed, the first 8 beyond the end"),
            std::string::npos)
      << all[1].reason;
}

TEST_P(OnDevice, WrongNumbersAreFound) {
  const auto all = measure_around("if (i < 4096) y[i] = x[i] + 1.0f;",
                                  "mov.u32 %r0, 1; st.global.u32 [%rd0+8], %r0;");
  EXPECT_EQ(all[1].outcome, Outcome::kWrongResult) << all[1].reason;
}

TEST_P(OnDevice, AProgramThatDoesNotCompileIsABuildError) {
  const auto all = measure_around("nonsense", "nonsense");
  EXPECT_EQ(all[1].outcome, Outcome::kBuildError) << all[1].reason;
}

TEST_P(OnDevice, AKernelThatHangsIsStoppedAndCostsOneTrial) {
  const auto start_time = std::chrono::steady_clock::now();
  const auto all =
      measure_around("volatile __global float* v = y; while (v[0] != 12345.0f) v[1] = v[0];",
                     "again: ld.volatile.global.u32 %r0, [%rd0]; st.volatile.global.u32 [%rd0+4], "
                     "%r0; bra again;");
  EXPECT_EQ(all[1].outcome, Outcome::kRunTimeout) << all[1].reason;
  EXPECT_LT(std::chrono::steady_clock::now() - start_time, 60s);
}

// Nothing runs on a CUDA device after it: the worker ends, and another one goes on.
TEST_P(OnDevice, AnIllegalAddressCostsOneTrial) {
  if (target_.kind != target::Kind::kCuda) GTEST_SKIP() << "PoCL's addresses are the process's";
  const auto all =
      measure_around("", "mov.u64 %rd1, 64; mov.u32 %r0, 1; st.global.u32 [%rd1], %r0;");
  EXPECT_EQ(all[1].outcome, Outcome::kRunError) << all[1].reason;
  EXPECT_NE(all[1].reason.find("ILLEGAL_ADDRESS"), std::string::npos) << all[1].reason;
}

TEST_P(OnDevice, AWorkerThatDiesCostsOneTrial) {
  const te::Dag dag = dag_of(kMatmul);
  MeasureOptions options;
  options.hooks.call = [](const Trial& t, const std::function<void()>& call, auto&&) {
    if (t.id == 1) _exit(3);
    call();
  };
  const auto measurer = start_for({dag}, options);
  measurer->submit({trial(0, dag), trial(1, dag), trial(2, dag)});
  const std::vector<Measurement> all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  EXPECT_EQ(all[1].outcome, Outcome::kRunError) << all[1].reason;
  EXPECT_EQ(all[2].outcome, Outcome::kOk) << all[2].reason;
}

TEST_P(OnDevice, AnotherDeviceThanTheTargetIsNoDevice) {
  const te::Dag dag = dag_of(kMatmul);
  Trial t = trial(0, dag);
  target_.name += "-other";
  const auto measurer = start_for({dag}, {});
  const Measurement m = measure_one(*measurer, t);
  EXPECT_EQ(m.outcome, Outcome::kWorkerLost);
  EXPECT_NE(m.reason.find("the device at hand is"), std::string::npos) << m.reason;
}

TEST(AskTarget, SaysWhatIsMissing) {
  EXPECT_EQ(ask_target("h200").error().message,
            "target h200: candidates are measured on the machine at hand: host, cuda or opencl");
  EXPECT_EQ(ask_target("host")->name, "host");
  EXPECT_EQ(ask_target("h2000").error().code, ErrorCode::kInvalidArgument);
  const Result<target::Target> cuda = ask_target("cuda");
  if (!cuda.ok()) {
    EXPECT_EQ(cuda.error().code, ErrorCode::kUnavailable);
  }
}

}  // namespace
}  // namespace tessera::measure

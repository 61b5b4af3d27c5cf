// Which of its recordings a runner keeps, on a device that only says how long they take.
#include "tessera/backend/exec/model_runner.h"

#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "tessera/backend/exec/step_order.h"

namespace tessera::exec {
namespace {

using After = std::vector<std::vector<std::size_t>>;

struct FakeRecording final : runtime::Recording {
  After after;
  double seconds = 0;
};

class FakeDevice final : public runtime::Device {
 public:
  explicit FakeDevice(double beside_seconds) : beside_seconds_(beside_seconds) {}

  const target::Target& target() const override { return target_; }
  Result<void*> allocate(std::size_t bytes) override { return std::malloc(bytes + 1); }
  void free(void* memory) override { std::free(memory); }
  Result<void*> part(void* memory, std::size_t offset, std::size_t) override {
    return static_cast<void*>(static_cast<char*>(memory) + offset);
  }
  Result<void> fill(void*, std::uint8_t, std::size_t) override { return {}; }
  Result<void> upload(void*, const void*, std::size_t) override { return {}; }
  Result<void> download(void*, void*, std::size_t) override { return {}; }
  Result<std::unique_ptr<runtime::LoadedCode>> load(const runtime::Binary&) override {
    return std::make_unique<runtime::LoadedCode>();
  }
  Result<void> launch(runtime::LoadedCode&, std::span<void* const>) override { return {}; }
  Result<void> synchronise() override { return {}; }
  runtime::DeviceFeatures features() const override { return {.plans = true}; }
  Result<std::unique_ptr<runtime::Recording>> record(std::vector<runtime::Call>,
                                                     const runtime::RecordingPlan& plan) override {
    After after = plan.after;
    if (!after.empty() && beside_seconds_ == 0)
      return make_error(ErrorCode::kRunFailed, "the driver is too old");
    auto out = std::make_unique<FakeRecording>();
    out->seconds = after.empty() ? 1 : beside_seconds_;
    out->after = std::move(after);
    return std::unique_ptr<runtime::Recording>(std::move(out));
  }
  Result<void> replay(runtime::Recording& recording) override {
    replayed = static_cast<FakeRecording&>(recording).after;
    return {};
  }
  Result<double> time_replays(runtime::Recording& recording, int replays) override {
    return replays * static_cast<FakeRecording&>(recording).seconds;
  }

  After replayed;

 private:
  const double beside_seconds_;
  target::Target target_;
};

Storage arena(std::int64_t offset) { return {Place::kArena, 0, offset, 64}; }

// An input that two steps read, and one that reads what both compute.
CompiledModel forked(bool host) {
  CompiledModel model;
  model.input_types = {{DType::kF32, {16}}};
  model.output_types = {{DType::kF32, {16}}};
  model.input_names = {"x"};
  model.output_names = {"y"};
  model.arena_bytes = 128;
  model.kernels.push_back(std::make_unique<runtime::LoadedCode>());
  const Storage in{Place::kInput, 0, 0, 0}, out{Place::kOutput, 0, 0, 0};
  model.steps.resize(3);
  model.steps[0].params = {in, arena(0)};
  model.steps[1].params = {in, arena(64)};
  model.steps[2].params = {arena(0), arena(64), out};
  for (auto& step : model.steps) step.reads = step.params.size() - 1;
  if (host) model.steps[0].kind = task::GroupKind::kHost;
  return model;
}

After replayed_after(double beside_seconds, const CompiledModel& model) {
  FakeDevice device(beside_seconds);
  ModelRunner runner(model, device);
  EXPECT_TRUE(runner.run().ok());
  return device.replayed;
}

TEST(ModelRunner, StepsRunSideBySideWhereThatIsFaster) {
  const CompiledModel model = forked(false);
  EXPECT_EQ(replayed_after(0.9, model), (After{{}, {}, {0, 1}}));
  EXPECT_EQ(replayed_after(1.1, model), After{});
  EXPECT_EQ(replayed_after(0, model), After{});  // or can
}

// What a plan decided is not timed again; what a model does not have leaves its steps in order.
TEST(ModelRunner, StepsRunAsThePlanSays) {
  CompiledModel model = forked(false);
  model.launches = plan::kBranching;
  EXPECT_EQ(replayed_after(1.1, model), (After{{}, {}, {0, 1}}));
  model.launches = plan::kInOrder;
  EXPECT_EQ(replayed_after(0.9, model), After{});
  model.launches = plan::kFetching;  // there is nothing to fetch
  EXPECT_EQ(replayed_after(0.9, model), After{});
}

TEST(ModelRunner, StepsThatShareMemoryKeepTheirOrder) {
  CompiledModel model = forked(false);
  model.steps[1].params[1] = arena(32);  // beside what the first one wrote
  EXPECT_EQ(order_of(model.steps).after(), (After{{}, {0}, {1}}));
  EXPECT_EQ(replayed_after(0.5, model), After{});
}

TEST(ModelRunner, SharesInputsOfOneType) {
  const CompiledModel model = forked(false);
  FakeDevice device(0);
  ModelRunner first(model, device), second(model, device);
  EXPECT_NE(first.input_data(0), second.input_data(0));
  ASSERT_TRUE(second.share_inputs(first, {{0, 0}}).ok());
  EXPECT_EQ(first.input_data(0), second.input_data(0));
  CompiledModel other = forked(false);
  other.input_types = {{DType::kF32, {17}}};
  ModelRunner third(other, device);
  EXPECT_EQ(third.share_inputs(first, {{0, 0}}).error().message,
            "input x is f32[17], input x is f32[16]");
  // Its memory would change places with that of an output, and the other's would not.
  ModelRunner carries(model, device);
  ASSERT_TRUE(carries.carry({{.output = 0, .input = 0}}).ok());
  EXPECT_EQ(carries.share_inputs(first, {{0, 0}}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(second.share_inputs(carries, {{0, 0}}).error().code, ErrorCode::kUnsupported);
}

TEST(ModelRunner, OperatorsOfTheHostAreNotPassed) {
  const CompiledModel model = forked(true);
  EXPECT_EQ(order_of(model.steps).after(), (After{{}, {0}, {1}}));
}

}  // namespace
}  // namespace tessera::exec

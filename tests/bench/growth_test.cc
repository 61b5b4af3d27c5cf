// The models and the fit of the growth benchmark.
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "bench/growth/measure.h"
#include "bench/growth/models.h"
#include "tessera/frontend/onnx/import.h"

namespace tessera::growth {
namespace {

TEST(Growth, EveryModelIsOneThatWeRead) {
  for (const std::string& name : model_names()) {
    for (const int n : {2, 5}) {
      const auto bytes = onnx::serialize_model(make_model(name, n));
      ASSERT_TRUE(bytes.ok()) << name << ": " << bytes.error().message;
      const auto read = onnx::parse_model(*bytes, "");
      ASSERT_TRUE(read.ok()) << name << ": " << read.error().message;
      const auto imported = onnx::import_model(*read);
      EXPECT_TRUE(imported.ok()) << name << ": " << imported.error().message;
    }
  }
}

TEST(Growth, LargerNumbersAreLargerModels) {
  for (const std::string& name : model_names()) {
    const auto small = onnx::serialize_model(make_model(name, 4)).value();
    const auto large = onnx::serialize_model(make_model(name, 40)).value();
    if (name == "scan") {
      EXPECT_EQ(make_model(name, 40).graph.inputs[1].dims[0].size, 40);
    } else {
      EXPECT_GT(large.size(), 3 * small.size()) << name;
    }
  }
}

TEST(Growth, ExponentsAreThoseOfPowers) {
  EXPECT_NEAR(exponent({10, 100, 1000}, {2, 20, 200}, 0), 1, 1e-9);
  EXPECT_NEAR(exponent({10, 100, 1000}, {3, 300, 30'000}, 0), 2, 1e-9);
  EXPECT_NEAR(exponent({10, 100, 1000}, {5, 5, 5}, 0), 0, 1e-9);
  // What is below the floor says nothing.
  EXPECT_NEAR(exponent({1, 10, 100, 1000}, {0.01, 0.01, 1, 10}, 0.05), 1, 1e-9);
  EXPECT_TRUE(std::isnan(exponent({10, 100}, {0.01, 1}, 0.05)));
  EXPECT_TRUE(std::isnan(exponent({}, {}, 0)));
}

TEST(Growth, ExponentsAboveALimitAreNamed) {
  EXPECT_TRUE(steeper({{"a", 1.2}, {"b", 1.5}, {"c", std::nan("")}}, 1.5).empty());
  EXPECT_EQ(steeper({{"chain tasks CPU", 1.804}, {"b", 1.5}, {"c", std::nan("")}}, 1.5),
            std::vector<std::string>{"chain tasks CPU: 1.80"});
}

TEST(Growth, WorkApartTellsItsReason) {
  EXPECT_TRUE(run_apart([]() -> Result<void> { return {}; }).ok());
  const auto bad =
      run_apart([]() -> Result<void> { return make_error(ErrorCode::kIo, "the disk is full"); });
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "the disk is full");
  EXPECT_FALSE(run_apart([]() -> Result<void> { std::abort(); }).ok());
}

TEST(Growth, CommandsAreMeasuredAndTheirFailuresTold) {
  const auto good =
      run_command({"sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"}, 60, {0});
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_GT(good->cpu_s, 0);
  EXPECT_GT(good->peak_mb, 0);
  const auto bad = run_command({"sh", "-c", "echo begin; echo reason >&2; exit 3"}, 60, {0});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "exit code 3: reason");
  EXPECT_TRUE(run_command({"sh", "-c", "exit 3"}, 60, {0, 3}).ok());
  EXPECT_FALSE(run_command({"/nowhere/at/all"}, 60, {0}).ok());
  const auto late = run_command({"sleep", "60"}, 0.05, {0});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().message, "stopped after 0 s");
  EXPECT_FALSE(run_command({"sh", "-c", "while :; do :; done"}, 0.5, {0}).ok());
}

}  // namespace
}  // namespace tessera::growth

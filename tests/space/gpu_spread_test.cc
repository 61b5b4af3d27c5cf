// Several results of each sum, row or attention, as parts of f32 are: computed with it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tests/lower/thread_case.h"

namespace tessera::space {
namespace {

constexpr const char* kSpread = "select(part < 1, {0}, select(part < 2, {0} * 2.0, 1.0 - {0}))";

// The number of launches; what differs is an error.
std::size_t launches(const te::Dag& dag, const char* machine, bool runs) {
  const target::Target target = target::find_target(machine).value();
  const auto schedule = default_schedule(dag, target).value();
  const auto lowered = lower::lower(dag, schedule, target);
  if (!lowered.ok()) {
    ADD_FAILURE() << lowered.error().message << "\n" << schedule::to_text(schedule);
    return 0;
  }
  if (runs) {
    EXPECT_EQ(lower::run_threads(dag, lowered->program, lowered->param_layouts), "")
        << schedule::to_text(schedule);
  }
  return lowered->program.launches.size();
}

te::Dag product(int m, int n, int k, const char* type) {
  return te::dag_from_text(fmt::format(R"(dag product
  input x: {3}[{0}, {2}]
  constant w: {3}[{1}, {2}]
  constant b: f32[{1}]
  stage c: f32[{0}, {1}]
    c[i, j] = sum(k in {2}) f32(x[i, k]) * f32(w[j, k])
  stage y: f32[{0}, {1}]
    y[i, j] = tanh(c[i, j] + b[j])
  stage z: bf16[3, {0}, {1}]
    z[part, i, j] = bf16({4})
  output z
)",
                                       m, n, k, type,
                                       fmt::format(fmt::runtime(kSpread), "y[i, j]")))
      .value();
}

TEST(GpuSpread, ProductsComputeThemInTheirLaunch) {
  for (const char* machine : {"h200", "a100"}) {
    SCOPED_TRACE(machine);
    EXPECT_EQ(launches(product(66, 40, 72, "bf16"), machine, true), 1U);
    EXPECT_EQ(launches(product(17, 25, 40, "bf16"), machine, true), 1U);
  }
  EXPECT_EQ(launches(product(2048, 3072, 768, "bf16"), "h200", false), 1U);
  // Rows that are no whole vectors go through shared memory.
  EXPECT_EQ(launches(product(128, 50257, 768, "bf16"), "h200", false), 1U);
}

TEST(GpuSpread, PartsOfSumsAreAddedOnce) {
  EXPECT_EQ(launches(product(32, 40, 2048, "bf16"), "h200", true), 2U);
}

// Products of threads leave them to another launch.
TEST(GpuSpread, OtherProductsAreRight) {
  EXPECT_EQ(launches(product(37, 29, 19, "f32"), "h200", true), 2U);
}

TEST(GpuSpread, RowsComputeThemInTheirLaunch) {
  for (const auto& [rows, length] : {std::pair(5, 96), {3, 37}}) {
    const te::Dag dag =
        te::dag_from_text(fmt::format(R"(dag rows
  input x: f32[{0}, {1}]
  stage s: f32[{0}]
    s[i] = sum(j in {1}) x[i, j]
  stage y: f32[{0}, {1}]
    y[i, j] = x[i, j] - s[i] * 0.01
  stage z: bf16[3, {0}, {1}]
    z[part, i, j] = bf16({2})
  output z
)",
                                      rows, length, fmt::format(fmt::runtime(kSpread), "y[i, j]")))
            .value();
    EXPECT_EQ(launches(dag, "h200", true), 1U);
  }
}

TEST(GpuSpread, AttentionComputesThemInItsLaunch) {
  const te::Dag dag =
      te::dag_from_text(fmt::format(R"(dag attention
  input q: f32[2, 13, 12]
  input k: f32[2, 13, 12]
  input v: f32[2, 13, 12]
  stage s: f32[2, 13, 13]
    s[c, i, j] = sum(k in 12) q[c, i, k] * k[c, j, k]
  stage mx: f32[2, 13]
    mx[i1, i2] = max(i3 in 13) s[i1, i2, i3]
  stage ex: f32[2, 13, 13]
    ex[i1, i2, i3] = exp(s[i1, i2, i3] - mx[i1, i2])
  stage sm: f32[2, 13]
    sm[i1, i2] = sum(i3 in 13) ex[i1, i2, i3]
  stage p: f32[2, 13, 13]
    p[i1, i2, i3] = ex[i1, i2, i3] / sm[i1, i2]
  stage y: f32[13, 2, 12]
    y[i, c, j] = sum(k in 13) p[c, i, k] * v[c, k, j]
  stage z: bf16[3, 13, 2, 12]
    z[part, i, c, j] = bf16({0})
  output z
)",
                                    fmt::format(fmt::runtime(kSpread), "y[i, c, j]")))
          .value();
  EXPECT_EQ(launches(dag, "h200", true), 1U);
}

}  // namespace
}  // namespace tessera::space

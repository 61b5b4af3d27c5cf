// Products of bytes: columns that are not whole vectors, blocks, parts of bytes.
#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/rng.h"
#include "tests/fuzz/check_case.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

using te::at;
using te::Indices;

// y[i, j] = f32(sum over k of x[i, k] * w[j, k]) * s[j].
te::Dag scaled_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  te::DagBuilder b("scaled");
  const ir::Buffer x = b.input("x", DType::kU8, {m, k});
  const ir::Buffer w = b.constant("w", DType::kI8, {n, k});
  const ir::Buffer s = b.constant("s", DType::kF32, {n});
  const te::NamedAxes axes = {{"i", m}, {"j", n}};
  const ir::Buffer sums = b.reduce("sums", te::Reducer::kSum, axes, {{"k", k}},
                                   [&](const Indices& i, const Indices& r) {
                                     return ir::cast(DType::kI32, at(x, {i[0], r[0]})) *
                                            ir::cast(DType::kI32, at(w, {i[1], r[0]}));
                                   });
  return b.build({b.compute("y", axes, [&](const Indices& i) {
    return ir::cast(DType::kF32, at(sums, i)) * at(s, {i[1]});
  })});
}

TEST(Dots, TheRestOfTheColumnsIsAShorterVector) {
  const target::Target target = *target::find_target("icelake-server");
  struct Case {
    std::int64_t columns;
    int lanes;
  };
  for (const Case c : {Case{1000, 16}, {264, 16}, {24, 8}, {40, 8}, {20, 4}, {64, 16}, {30, 4}}) {
    for (const std::int64_t rows : {1, 7}) {
      const te::Dag dag = scaled_product(rows, c.columns, 16);
      const std::string text = schedule_text(dag, target);
      const bool dots = text.find(" dot4") != std::string::npos;
      EXPECT_EQ(dots, c.columns != 30) << c.columns << "\n" << text;
      if (dots) {
        EXPECT_NE(text.find(fmt::format("split sums j {} ", c.lanes)), std::string::npos)
            << c.columns << "\n"
            << text;
      }
      expect_correct(dag, target, false);
      expect_correct(dag);
    }
  }
}

// y[i, j] = sum over g of f32(sum over e of x[i, g, e] * (w[j, g, e] - z[j, g])): no instruction
// takes off the zero point.
TEST(Dots, BlocksWithZeroPointsAreNoInstructions) {
  constexpr std::int64_t kRows = 3, kColumns = 37, kBlocks = 4, kBlock = 16;
  te::DagBuilder b("blocks");
  const ir::Buffer x = b.input("x", DType::kU8, {kRows, kBlocks, kBlock});
  const ir::Buffer w = b.constant("w", DType::kI8, {kColumns, kBlocks, kBlock});
  const ir::Buffer z = b.constant("z", DType::kI8, {kColumns, kBlocks});
  const auto wide = [](const ir::Expr& e) { return ir::cast(DType::kI32, e); };
  const ir::Buffer dots =
      b.reduce("dots", te::Reducer::kSum, {{"g", kBlocks}, {"i", kRows}, {"j", kColumns}},
               {{"e", kBlock}}, [&](const Indices& i, const Indices& r) {
                 return wide(at(x, {i[1], i[0], r[0]})) *
                        (wide(at(w, {i[2], i[0], r[0]})) - wide(at(z, {i[2], i[0]})));
               });
  const te::Dag dag =
      b.build({b.reduce("y", te::Reducer::kSum, {{"i", kRows}, {"j", kColumns}}, {{"g", kBlocks}},
                        [&](const Indices& i, const Indices& r) {
                          return ir::cast(DType::kF32, at(dots, {r[0], i[0], i[1]}));
                        })});
  const target::Target target = *target::find_target("icelake-server");
  EXPECT_EQ(schedule_text(dag, target).find(" dot4"), std::string::npos);
  expect_correct(dag, target, false);
  expect_correct(dag);
}

// Both halves of the bytes, and their highest bits.
TEST(Dots, AllBitsOfRoundedWeightsAreRead) {
  const target::Target machine = *target::find_target("icelake-server");
  for (const char* storage : {"int4-rounded", "int8-rounded"}) {
    fuzz::RandomDag checked{.dag = dag_of(fmt::format("dense:M=3,N=37,K=64,storage={}", storage)),
                            .inputs = {},
                            .tolerance = 0};
    checked.tolerance = 64 * allowed_error(checked.dag);  // a wrong bit is far more
    Rng rng(7);
    for (const te::Input& in : checked.dag.inputs) {
      HostTensor t = random_tensor(in.buffer->dtype, in.buffer->shape, rng);
      for (std::int64_t i = 0; i < t.size() && t.dtype() == DType::kU8; ++i)
        t.set_int(i, rng.below(256));
      checked.inputs.push_back(std::move(t));
    }
    for (const target::Target* target : {&machine, &target::host()}) {
      const auto schedule = default_schedule(checked.dag, *target);
      ASSERT_TRUE(schedule.ok()) << schedule.error().message;
      EXPECT_EQ(fuzz::check_case(checked, *schedule, {.compile = target != &machine}), "")
          << storage << "\n"
          << schedule::to_text(*schedule);
    }
  }
}

}  // namespace
}  // namespace tessera::space

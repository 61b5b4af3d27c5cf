// Products of bytes whose columns are not whole vectors.
#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
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

}  // namespace
}  // namespace tessera::space

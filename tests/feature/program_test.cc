// Strides, regions and order of statements, in the layout that is stored.
#include "tessera/scheduling/feature/program.h"

#include <gtest/gtest.h>

#include "feature_case.h"
#include "tessera/lang/te/builder.h"

namespace tessera::feature {
namespace {

struct Built {
  std::pmr::monotonic_buffer_resource memory;
  schedule::State state;
  Program program{&memory};
};

std::unique_ptr<Built> build(const te::Dag& dag, const std::string& schedule) {
  auto out = std::make_unique<Built>();
  out->state = state_of(dag, schedule);
  const auto result = build_program(out->state, 64, &out->program, &out->memory);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return out;
}

const Access& access(const Statement& s, const std::string& name) {
  for (const Access& a : s.accesses) {
    if (a.buffer->name == name) return a;
  }
  ADD_FAILURE() << "no access to " << name;
  return s.accesses.front();
}

std::vector<double> plain(const Numbers& n) { return {n.begin(), n.end()}; }

using Values = std::vector<double>;

TEST(Program, PackedConstantIsReadInItsPanels) {
  const auto b = build(product_dag(8, 32, 16),
                       "layout B d1/16 d0 d1%16\nsplit C j 16\nreorder C j.0 i k j.1\n");
  const Statement& s = b->program.statements.at(0);
  const Access& w = access(s, "B");
  EXPECT_EQ(plain(w.shape), (Values{2, 16, 16}));
  EXPECT_EQ(plain(w.stride), (Values{256, 0, 16, 1}));  // j.0, i, k, j.1
  EXPECT_EQ(plain(w.elements), (Values{512, 256, 256, 16, 1}));
  EXPECT_EQ(plain(w.lines), (Values{32, 16, 16, 1, 1}));
  EXPECT_TRUE(w.packed);
  const Access& c = access(s, "C");
  EXPECT_EQ(plain(c.stride), (Values{16, 32, 0, 1}));
  EXPECT_EQ(plain(c.lines), (Values{16, 8, 1, 1, 1}));
}

TEST(Program, FusedLoopSelectsByBothParts) {
  const auto b = build(product_dag(8, 32, 16),
                       "split C i 2\nsplit C j 8\nreorder C i.0 j.0 i.1 j.1 k\n"
                       "fuse C i.0 j.0\n");
  const Statement& s = b->program.statements.at(0);
  EXPECT_EQ(s.loops.size(), 4u);
  const Access& a = access(s, "A");
  EXPECT_EQ(plain(a.elements), (Values{128, 32, 16, 16, 1}));
  EXPECT_EQ(a.stride[0], 0);  // the first step moves along j only
  EXPECT_TRUE(a.uses(0));     // but the loop as a whole moves along i too
  EXPECT_FALSE(a.uses(2));
  EXPECT_EQ(plain(access(s, "C").stride), (Values{8, 32, 1, 0}));
}

TEST(Program, SplitOfAFusedLoopStandsInPartOfARow) {
  const auto b = build(product_dag(8, 32, 16), "fuse C i j\nsplit C i@j 16\n");
  const Statement& s = b->program.statements.at(0);
  EXPECT_EQ(plain(access(s, "C").elements), (Values{256, 16, 1, 1}));
  EXPECT_EQ(plain(access(s, "A").elements), (Values{128, 16, 16, 1}));
  EXPECT_EQ(plain(access(s, "B").elements), (Values{512, 256, 16, 1}));
}

TEST(Program, AStageInLoopsOfOneStepIsWhole) {
  const te::Dag dag = dag_of("conv2d:N=1,H=10,W=12,CI=4,CO=8,KH=3,KW=3,P=1");
  const auto b = build(dag, "compute_at pad Y n\n");
  const Statement& pad = b->program.statements.at(0);
  EXPECT_EQ(plain(pad.extents), (Values{1, 12, 14, 4}));
  EXPECT_EQ(access(b->program.statements.at(1), "pad").elements[0], 12 * 14 * 4);
}

TEST(Program, AttachedStagesComeFirstAndShareLoops) {
  const te::Dag dag = dag_of("conv2d:N=1,H=10,W=12,CI=4,CO=8,KH=3,KW=3,P=1");
  const auto b = build(dag,
                       "split Y oh 2\nreorder Y n oh.0 oh.1 ow co kh kw ci\n"
                       "compute_at pad Y oh.0\n");
  ASSERT_EQ(b->program.statements.size(), 2u);
  const Statement& pad = b->program.statements[0];
  const Statement& sum = b->program.statements[1];
  EXPECT_EQ(pad.stage->name(), "pad");
  EXPECT_EQ(plain(pad.extents), (Values{1, 4, 14, 4}));
  EXPECT_EQ(pad.own, 1u);
  EXPECT_EQ(pad.loops[0].id, sum.loops[0].id);
  // Its storage is the same in each iteration of oh.0; what it reads moves by two rows.
  EXPECT_EQ(access(pad, "pad").stride[0], 0);
  EXPECT_EQ(access(pad, "X").stride[0], 2 * 12 * 4);
  EXPECT_EQ(access(sum, "pad").stored, 4 * 14 * 4);
  EXPECT_EQ(access(sum, "pad").stride[0], 0);
  EXPECT_EQ(access(sum, "pad").stride[1], 14 * 4);
  // Five visits of four rows compute twenty of the twelve rows there are.
  EXPECT_EQ(pad.useful_points / pad.domain, 20.0 / 12);
}

TEST(Program, UseOutsideTheLoopIsRefused) {
  te::DagBuilder builder("two");
  const ir::Buffer x = builder.input("X", DType::kF32, {16});
  const ir::Buffer p = builder.compute(
      "P", {{"i", 16}}, [&](const te::Indices& i) { return te::at(x, i) + te::at(x, i); });
  const ir::Buffer y = builder.compute(
      "Y", {{"i", 16}}, [&](const te::Indices& i) { return te::at(p, i) * te::at(p, i); });
  const ir::Buffer z = builder.compute(
      "Z", {{"i", 16}}, [&](const te::Indices& i) { return te::at(p, i) * te::at(y, i); });
  const schedule::State state = state_of(builder.build({y, z}), "compute_at P Y i\n");
  std::vector<float> out;
  const auto result = extract(state, test_target(), FeatureKind::kStatement, &out);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kIllegalSchedule);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace tessera::feature

// What steps do to a State.
#include "tessera/scheduling/schedule/state.h"

#include <map>

#include <gtest/gtest.h>

#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/schedule/inline_stages.h"
#include "tessera/scheduling/schedule/iter_map.h"
#include "tessera/scheduling/schedule/step.h"
#include "tests/testing/testing.h"

namespace tessera::schedule {
namespace {

te::Dag dag_of(const char* spec) { return te::make_dag(te::parse_op_spec(spec).value()).value(); }

// mx, ex, sm, Y: the stages of a softmax over rows of X.
te::Dag softmax(std::int64_t rows, std::int64_t columns) {
  te::DagBuilder b("softmax");
  const ir::Buffer x = b.input("X", DType::kF32, {rows, columns});
  const te::NamedAxes both = {{"r", rows}, {"c", columns}};
  const auto whole = [](const te::Indices& r, const te::Indices& c) {
    return te::Indices{r[0], c[0]};
  };
  const ir::Buffer mx =
      b.reduce("mx", te::Reducer::kMax, {both[0]}, {both[1]},
               [&](const te::Indices& r, const te::Indices& c) { return te::at(x, whole(r, c)); });
  const ir::Buffer ex = b.compute("ex", both, [&](const te::Indices& i) {
    return ir::call(ir::Intrinsic::kExp, {te::at(x, i) - te::at(mx, {i[0]})});
  });
  const ir::Buffer sm =
      b.reduce("sm", te::Reducer::kSum, {both[0]}, {both[1]},
               [&](const te::Indices& r, const te::Indices& c) { return te::at(ex, whole(r, c)); });
  return b.build({b.compute("Y", both, [&](const te::Indices& i) {
    return ir::div(te::at(ex, i), te::at(sm, {i[0]}));
  })});
}

State state_of(const te::Dag& dag, const std::string& text) {
  const auto schedule = schedule_from_text(text);
  EXPECT_TRUE(schedule.ok()) << schedule.error().message;
  const auto state = apply(dag, *schedule);
  EXPECT_TRUE(state.ok()) << state.error().message;
  return *state;
}

constexpr const char* kTiledMatmul =
    "split C i 4 tail=peel\nsplit C j 12\nsplit C k 16 outer\nreorder C i.0 j.0 k.0 k.1 i.1 "
    "j.1\nfuse C i.0 j.0\n"
    "annotate C i.0@j.0 parallel\nannotate C i.1 unroll\nannotate C j.1 vectorize\npragma C k.1 "
    "auto_unroll_max_step 4\n";
constexpr const char* kFusedConv =
    "split Y oh 4\nsplit Y ow 5\nreorder Y n oh.0 ow.0 co kh kw ci oh.1 ow.1\ncompute_at pad Y "
    "ow.0\n"
    "split pad c 2 tail=pad\nfollow_split pad h 0 1\nstorage_align pad 2 8 1\n";
constexpr const char* kSoftmax =
    "compute_inline ex\nsplit sm c 8\nrfactor sm c.1 1\nannotate sm.rf c.1 vectorize\ncache_write "
    "Y local\n"
    "compute_at Y.local Y r\ncache_read X local mx\n";

TEST(State, AStageThatBecomesACopyKeepsItsScope) {
  const State state =
      state_of(softmax(4, 8), "cache_write ex shared\ncache_write ex.shared shared\n");
  EXPECT_EQ(state.find("ex.shared.shared")->scope, "shared");
  EXPECT_EQ(state.find("ex.shared")->scope, "shared");
  EXPECT_NE(state.find("ex")->scope, "shared");
}

TEST(StateText, Golden) {
  testing::expect_golden("schedule/matmul.txt",
                         to_text(state_of(dag_of("matmul:M=30,N=50,K=70"), kTiledMatmul)));
  testing::expect_golden(
      "schedule/conv2d.txt",
      to_text(state_of(dag_of("conv2d:N=1,H=10,W=11,CI=3,CO=4,KH=3,KW=3,P=1"), kFusedConv)));
  testing::expect_golden("schedule/softmax.txt", to_text(state_of(softmax(5, 30), kSoftmax)));
}

TEST(Replay, GivesTheSameState) {
  for (const char* text : {kTiledMatmul, ""}) {
    const te::Dag dag = dag_of("matmul:M=30,N=50,K=70");
    EXPECT_EQ(to_text(state_of(dag, text)),
              to_text(state_of(dag, to_text(schedule_from_text(text).value()))));
  }
  const te::Dag rows = softmax(5, 30);
  EXPECT_EQ(to_text(state_of(rows, kSoftmax)), to_text(state_of(rows, kSoftmax)));
}

TEST(Replay, LeavesTheDagAlone) {
  const te::Dag dag = softmax(5, 30);
  const std::string before = te::to_text(dag);
  state_of(dag, kSoftmax);
  EXPECT_EQ(te::to_text(dag), before);
}

TEST(Split, MovesAttachedStagesToTheInnermostPart) {
  const State state = state_of(softmax(6, 8), "compute_at ex Y r\nsplit Y r 2\n");
  const Stage* y = state.find("Y");
  EXPECT_EQ(y->iters[static_cast<std::size_t>(state.find("ex")->attach.iter)].name, "r.1");
}

TEST(Fuse, MovesAttachedStages) {
  const State state = state_of(softmax(6, 8), "compute_at ex Y c\nfuse Y r c\n");
  EXPECT_EQ(state.find("Y")->iters[static_cast<std::size_t>(state.find("ex")->attach.iter)].name,
            "r@c");
}

TEST(FollowSplit, MergesTheLastLengths) {
  const State state = state_of(softmax(64, 8), "split mx r 2 4 2\nfollow_split Y r 0 2\n");
  const Stage* y = state.find("Y");
  std::vector<std::int64_t> extents;
  for (const int id : y->leaves) extents.push_back(y->iters[static_cast<std::size_t>(id)].extent);
  EXPECT_EQ(extents, (std::vector<std::int64_t>{4, 2, 8, 8}));
}

TEST(FollowFusedSplit, MultipliesTheLengthsOfALevel) {
  const State state = state_of(
      softmax(64, 64), "split mx r 4\nsplit mx c 8\nfuse Y r c\nfollow_fused_split Y r@c 0 0,1\n");
  EXPECT_EQ(state.find("Y")->iters.back().extent, 32);
}

TEST(RFactor, SeveralTimesGivesSeveralStages) {
  const State state = state_of(
      softmax(4, 64), "split sm c 8\nrfactor sm c.1 0\nsplit sm c.1 2\nrfactor sm c.1.1 0\n");
  ASSERT_NE(state.find("sm.rf"), nullptr);
  ASSERT_NE(state.find("sm.rf2"), nullptr);
  EXPECT_LT(state.index_of("sm.rf"), state.index_of("sm.rf2"));
  EXPECT_LT(state.index_of("sm.rf2"), state.index_of("sm"));
}

TEST(IterExtents, ShrinkToWhatIsThere) {
  const State state = state_of(softmax(64, 64), "split Y r 8 4\n");
  const Stage& y = *state.find("Y");
  EXPECT_EQ(iter_extents(y, {5, 64}), (std::vector<std::int64_t>{5, 64, 1, 2, 4}));
  EXPECT_EQ(iter_extents(y, {3, 64}), (std::vector<std::int64_t>{3, 64, 1, 1, 3}));
}

// Every point of the axes is visited exactly once where all guards hold.
TEST(MapIters, CoversEveryPointOnce) {
  const State state = state_of(
      softmax(7, 11),
      "split Y r 3\nsplit Y c 2 2 outer\nreorder Y c.1 r.1 c.0 r.0 c.2\nfuse Y r.1 c.0 r.0\n");
  const Stage& y = *state.find("Y");
  const std::vector<std::int64_t> extents = iter_extents(y, {7, 11});
  std::vector<ir::Expr> vars(y.iters.size());
  for (const int id : y.leaves) vars[static_cast<std::size_t>(id)] = ir::Var::make("v");
  const IterMap map = map_iters(y, extents, vars);
  std::map<std::pair<std::int64_t, std::int64_t>, int> visits;
  std::vector<std::int64_t> at(y.leaves.size(), 0);
  for (bool more = true; more;) {
    ir::VarMap point;
    for (std::size_t l = 0; l < at.size(); ++l)
      point[vars[static_cast<std::size_t>(y.leaves[l])].get()] = ir::int_imm(at[l]);
    bool inside = true;
    for (const Guard& g : map.guards)
      inside = inside && *ir::as_const_int(ir::substitute(g.value, point)) < g.extent;
    if (inside) {
      ++visits[{*ir::as_const_int(ir::substitute(map.values[0], point)),
                *ir::as_const_int(ir::substitute(map.values[1], point))}];
    }
    more = false;
    for (std::size_t l = at.size(); l-- > 0 && !more;) {
      more = ++at[l] < extents[static_cast<std::size_t>(y.leaves[l])];
      if (!more) at[l] = 0;
    }
  }
  EXPECT_EQ(visits.size(), 77u);
  for (const auto& [point, count] : visits)
    EXPECT_EQ(count, 1) << point.first << ", " << point.second;
}

TEST(Layout, ShapeRoundsUp) {
  const Layout layout = layout_from_text("d0/12 d1 d0%12").value();
  EXPECT_EQ(layout_shape(layout, {30, 7}), (std::vector<std::int64_t>{3, 7, 12}));
  EXPECT_TRUE(check_layout(layout, 2).ok());
  EXPECT_EQ(to_text(layout), "d0/12 d1 d0%12");
}

TEST(InlineStages, ChainsCollapseIntoTheirReader) {
  te::DagBuilder b("chain");
  const ir::Buffer x = b.input("X", DType::kF32, {8});
  const te::NamedAxes axes = {{"i", 8}};
  const auto twice = [&](const char* name, const ir::Buffer& of) {
    return b.compute(name, axes,
                     [&](const te::Indices& i) { return te::at(of, i) + te::at(of, i); });
  };
  const ir::Buffer first = twice("A", x), second = twice("B", first);
  const te::Dag dag = b.build({twice("C", second)});
  const auto steps = schedule_from_text("compute_inline A\ncompute_inline B\n").value();
  const State inlined = inline_stages(apply(dag, steps).value());
  ASSERT_EQ(inlined.stages.size(), 1u);
  EXPECT_EQ(inlined.stages[0].name(), "C");
  int reads = 0;
  ir::for_each_expr(inlined.stages[0].op.values[0], [&](const ir::Expr& e) {
    const auto* load = e.as<ir::Load>();
    if (!load) return;
    EXPECT_EQ(load->buffer, x);
    ++reads;
  });
  EXPECT_EQ(reads, 8);
}

}  // namespace
}  // namespace tessera::schedule

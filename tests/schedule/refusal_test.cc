// Every reason for which a step is refused; the message names the step and the thing.
#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::schedule {
namespace {

// P = A + 1; C = sum over k, l of P * W; M, M.index = argmax of C; Y copies C; outputs Y and
// M.index.
te::Dag sample() {
  te::DagBuilder b("sample");
  const ir::Buffer a = b.input("A", DType::kF32, {300, 16});
  const ir::Buffer w = b.constant("W", DType::kF32, {16, 8});
  const ir::Buffer p = b.compute("P", {{"i", 300}, {"k", 16}}, [&](const te::Indices& i) {
    return te::at(a, i) + ir::imm(DType::kF32, 1);
  });
  const ir::Buffer c =
      b.reduce("C", te::Reducer::kSum, {{"i", 300}, {"j", 8}}, {{"k", 16}, {"l", 600}},
               [&](const te::Indices& i, const te::Indices& r) {
                 return te::at(p, {i[0], r[0]}) * te::at(w, {r[0], i[1]});
               });
  const auto [best, where] = b.arg_reduce("M", te::Reducer::kArgMax, {{"i", 300}}, {{"r", 8}},
                                          [&](const te::Indices& i, const te::Indices& r) {
                                            return std::make_pair(te::at(c, {i[0], r[0]}), r[0]);
                                          });
  const ir::Buffer index = where;
  const ir::Buffer y =
      b.compute("Y", {{"i", 300}, {"j", 8}}, [&](const te::Indices& i) { return te::at(c, i); });
  return b.build({y, index});
}

struct Refusal {
  const char* name;
  const char* steps;  // the last one is refused
  const char* part;
};

void PrintTo(const Refusal& r, std::ostream* out) { *out << r.steps; }

class StepRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(StepRefusal, NamesStepAndReason) {
  const auto schedule = schedule_from_text(GetParam().steps);
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  const auto state = apply(sample(), *schedule);
  ASSERT_FALSE(state.ok()) << "not refused";
  EXPECT_EQ(state.error().code, ErrorCode::kIllegalSchedule);
  const std::string prefix =
      fmt::format("step {} '{}': ", schedule->steps.size() - 1, to_text(schedule->steps.back()));
  EXPECT_EQ(state.error().message.rfind(prefix, 0), 0u) << state.error().message;
  EXPECT_NE(state.error().message.find(GetParam().part, prefix.size()), std::string::npos)
      << state.error().message;
}

std::string name_of(const ::testing::TestParamInfo<Refusal>& param) { return param.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Split, StepRefusal,
    ::testing::Values(
        Refusal{"UnknownStage", "split D i 4", "no stage D; stages are: P C M Y"},
        Refusal{"UnknownLoop", "split C m 4", "stage C has no loop m; its loops are: i j k l"},
        Refusal{"LoopGone", "split C i 4\nsplit C i 4",
                "stage C has no loop i; its loops are: i.0 i.1 j k l"},
        Refusal{"Annotated", "annotate C i parallel\nsplit C i 4", "loop i is already annotated"},
        Refusal{"ZeroLength", "split C i 0", "length 0 is not positive"},
        Refusal{"LengthsTooLarge", "split C i 2000000000 2", "lengths are too large"},
        Refusal{"PaddedReduction", "split C k 5 tail=pad", "a reduce loop cannot be padded"},
        Refusal{"PaddedOutput", "split Y i 7 tail=pad", "output stage Y cannot be padded"},
        Refusal{"PaddedSecondOutput", "split M i 7 tail=pad", "output stage M cannot be padded"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Follow, StepRefusal,
    ::testing::Values(
        Refusal{"NoSource", "follow_split C i 0 1", "step 0 is not an earlier split"},
        Refusal{"NotASplit", "annotate C i parallel\nfollow_split C j 0 1",
                "step 0 is not an earlier split"},
        Refusal{"Negative", "split C i 4\nfollow_split C j -1 1",
                "step -1 is not an earlier split"},
        Refusal{"TooManyParts", "split C i 4\nfollow_split Y i 0 2", "step 0 has 1 lengths, not 2"},
        Refusal{"NoParts", "split C i 4\nfollow_split Y i 0 0", "step 0 has 1 lengths, not 0"},
        Refusal{"FusedNoSource", "follow_fused_split Y i 0 3", "step 3 is not an earlier split"},
        Refusal{"FusedEmpty", "follow_fused_split Y i 0 ,", "no source steps given"},
        Refusal{"FusedLevel", "split C i 4\nfollow_fused_split Y i 1 0",
                "step 0 has no length at level 1"},
        Refusal{"FusedTooLarge", "split C i 60000\nfollow_fused_split Y i 0 0,0",
                "lengths are too large"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Order, StepRefusal,
    ::testing::Values(
        Refusal{"FuseOne", "fuse C i", "fuse needs at least two loops"},
        Refusal{"FuseNotAdjacent", "fuse C i k", "loops i and k are not adjacent"},
        Refusal{"FuseBackwards", "fuse C j i", "loops j and i are not adjacent"},
        Refusal{"FuseAnnotated", "annotate C j unroll\nfuse C i j", "loop j is already annotated"},
        Refusal{"FuseReduceAndSpatial", "fuse C j k", "cannot fuse reduce and spatial loops"},
        Refusal{"FuseAttached", "compute_at P C i\nfuse C i j",
                "stage P is computed at i, which is not the last of the fused loops"},
        Refusal{"ReorderTwice", "reorder C i i k l", "loop i is listed twice"},
        Refusal{"ReorderSome", "reorder C j i", "reorder lists 2 of the 4 loops of C"},
        Refusal{"ReorderUnknown", "reorder C j i k m", "stage C has no loop m"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Annotate, StepRefusal,
    ::testing::Values(
        Refusal{"ParallelReduction", "annotate C k parallel", "loop k is a reduction"},
        Refusal{"VectorReduction", "annotate C k vectorize", "loop k is a reduction"},
        Refusal{"LongVector", "annotate Y i vectorize",
                "cannot vectorize 300 iterations of i; split it first"},
        Refusal{"LongUnroll", "annotate C l unroll",
                "cannot unroll 600 iterations of l; split it first"},
        Refusal{"TensorizeUnknown", "tensorize C m dot4", "stage C has no loop m"},
        Refusal{"PragmaRange", "pragma C i auto_unroll_max_step 5000",
                "must be in 0..4096, not 5000"},
        Refusal{"PipelineRange", "pragma C k pipeline 1", "pipeline must be in 2..8, not 1"},
        Refusal{"PiecesRange", "pragma C k pipeline_pieces 9",
                "pipeline_pieces must be in 2..8, not 9"},
        Refusal{"PragmaLoop", "pragma C m auto_unroll_max_step 5", "stage C has no loop m"},
        Refusal{"PrefetchDistance", "prefetch C i W 5000", "distance must be in 0..4096, not 5000"},
        Refusal{"PrefetchUnread", "prefetch C i A 4", "stage C does not read A"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Compute, StepRefusal,
    ::testing::Values(Refusal{"AtOutput", "compute_at Y C i", "stage Y is an output"},
                      Refusal{"AtOutputOfTwo", "compute_at M Y i", "stage M is an output"},
                      Refusal{"AtEarlier", "compute_at C P i", "stage P does not use C"},
                      Refusal{"AtItself", "compute_at C C i", "stage C does not use C"},
                      Refusal{"AtLoop", "compute_at P C m", "stage C has no loop m"},
                      Refusal{"AtInlined",
                              "compute_inline P\ncache_read A local P\ncompute_at A.local P i",
                              "stage P is inlined and has no loops"},
                      Refusal{"InlineOutput", "compute_inline Y", "stage Y is an output"},
                      Refusal{"InlineReduction", "compute_inline C",
                              "stage C is a reduction and cannot be inlined"},
                      Refusal{"InlineTarget",
                              "cache_read A local P\ncompute_at A.local P i\ncompute_inline P",
                              "other stages are computed at P"},
                      Refusal{"RootUnknown", "compute_root D", "no stage D"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    NewStage, StepRefusal,
    ::testing::Values(
        Refusal{"ReadScope", "cache_read A global P", "scope must be local or shared, not global"},
        Refusal{"ReadUnknown", "cache_read B local P", "no tensor B"},
        Refusal{"ReadTwice", "cache_read A local P\ncache_read A local P",
                "stage A.local exists already"},
        Refusal{"ReadNobody", "cache_read A local", "no reading stages given"},
        Refusal{"ReadUnread", "cache_read A local C", "stage C does not read A"},
        Refusal{"ReadUnknownReader", "cache_read A local D", "no stage D"},
        Refusal{"WriteScope", "cache_write C global", "scope must be local or shared, not global"},
        Refusal{"WriteSplit", "split C i 4\ncache_write C local",
                "stage C is split or fused already"},
        Refusal{"WriteTarget", "compute_at P C i\ncache_write C local", "stage P is computed at C"},
        Refusal{"WriteTwice", "cache_write C local\ncache_write C local",
                "stage C.local exists already"},
        Refusal{"RFactorSpatial", "rfactor C i 0", "loop i is not a reduction"},
        Refusal{"RFactorAxis", "rfactor C k 3", "axis 3 is outside 0..2"},
        Refusal{"RFactorSplitAxis", "split C i 4\nrfactor C k 0", "axis i of C is split already"},
        Refusal{"RFactorTarget", "compute_at P C i\nrfactor C k 0", "stage P is computed at C"},
        Refusal{"RFactorNothingLeft", "rfactor M r 0",
                "nothing is left to reduce before r; split it first"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Storage, StepRefusal,
    ::testing::Values(Refusal{"LayoutInput", "layout A d1 d0", "input A is not constant"},
                      Refusal{"LayoutOutput", "layout Y d1 d0", "Y is an output"},
                      Refusal{"LayoutSecondOutput", "layout M.index d0", "M.index is an output"},
                      Refusal{"LayoutUnknown", "layout B d0", "no tensor B"},
                      Refusal{"LayoutMissing", "layout W d0", "layout 'd0' leaves out d1"},
                      Refusal{"LayoutTwice", "layout W d0 d1 d1",
                              "layout 'd0 d1 d1' does not store d1 exactly once"},
                      Refusal{"LayoutGap", "layout W d0/4 d1 d0%2",
                              "does not store d0 exactly once"},
                      Refusal{"LayoutRank", "layout W d0 d1 d2", "names d2 of a tensor of rank 2"},
                      Refusal{"AlignOutput", "storage_align Y 0 8 0", "Y is an output"},
                      Refusal{"AlignLast", "storage_align C 1 8 0",
                              "dimension 1 has no stride to align (rank 2)"},
                      Refusal{"AlignFactor", "storage_align C 0 0 0", "factor must be in 1..4096"},
                      Refusal{"AlignOffset", "storage_align C 0 8 8", "offset in 0..factor-1"}),
    name_of);

TEST(ScalarRefusal, ALaidOutScalarHasNoStrideToAlign) {
  te::DagBuilder b("scalar");
  const ir::Buffer a = b.input("A", DType::kF32, {4});
  const ir::Buffer s =
      b.reduce("S", te::Reducer::kSum, {}, {{"k", 4}},
               [&](const te::Indices&, const te::Indices& r) { return te::at(a, {r[0]}); });
  const ir::Buffer y = b.compute("Y", {}, [&](const te::Indices&) { return te::at(s, {}); });
  const auto schedule = schedule_from_text("layout S\nstorage_align S 0 8 0\n");
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  const auto state = apply(b.build({y}), *schedule);
  ASSERT_FALSE(state.ok()) << "not refused";
  EXPECT_NE(state.error().message.find("dimension 0 has no stride to align (rank 0)"),
            std::string::npos)
      << state.error().message;
}

}  // namespace
}  // namespace tessera::schedule

// What each pass does to a small function, and that it leaves alone what does not concern it.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/scheduling/lower/drop_roundings.h"
#include "tessera/scheduling/lower/flatten_buffers.h"
#include "tessera/scheduling/lower/partition_loops.h"
#include "tessera/scheduling/lower/tensorize_loops.h"
#include "tessera/scheduling/lower/unroll_loops.h"
#include "tessera/scheduling/lower/vectorize_loops.h"
#include "tests/fuzz/check_case.h"
#include "tests/testing/testing.h"

namespace tessera::lower {
namespace {

struct PassCase {
  const char* name;
  const char* pass;
  const char* spec;
  const char* schedule;
};

// NOLINTNEXTLINE(readability-identifier-naming): found by this name
void PrintTo(const PassCase& c, std::ostream* out) { *out << c.pass << " of " << c.spec; }

constexpr const char* kConv = "conv2d:N=1,H=6,W=7,CI=3,CO=4,KH=3,KW=3,P=1";

const PassCase kCases[] = {
    {"Attached", "build_loop_nest", kConv,
     "split Y oh 2\nreorder Y n oh.0 oh.1 ow co kh kw ci\ncompute_at pad Y oh.0\n"},
    {"Accumulators", "build_loop_nest", "matmul:M=6,N=8,K=5",
     "split C i 2\nsplit C j 4\nreorder C i.0 j.0 k i.1 j.1\nannotate C i.1 unroll\nannotate C j.1 "
     "vectorize\n"},
    {"ResumedAccumulators", "build_loop_nest", "matmul:M=6,N=8,K=10",
     "split C k 5\nsplit C j 4\nreorder C k.0 i j.0 k.1 j.1\nannotate C j.1 vectorize\n"},
    {"Inlined", "build_loop_nest", "conv1d:N=1,W=6,CI=2,CO=3,KW=3,P=1", "compute_inline pad\n"},
    {"RFactor", "simplify_loops", "reduce:R=3,C=11",
     "split Y c 4\nrfactor Y c.1 1\nannotate Y.rf c.1 vectorize\n"},
    {"Pragma", "mark_auto_unroll", "matmul:M=6,N=8,K=4", "pragma C j auto_unroll_max_step 32\n"},
    {"Padding", "partition_loops", kConv, "compute_inline pad\n"},
    {"Peel", "partition_loops", "matmul:M=6,N=8,K=10",
     "split C i 4 tail=peel\nreorder C i.0 j i.1 k\n"},
    {"PeelParallel", "partition_loops", "eltwise:N=30,fn=relu",
     "split Y i 8 tail=peel\nannotate Y i.0 parallel\n"},
    {"PeelFused", "partition_loops", "matmul:M=6,N=10,K=3",
     "split C i 4 tail=peel\nsplit C j 4 tail=peel\nreorder C i.0 j.0 i.1 j.1 k\n"
     "fuse C i.0 j.0\nannotate C i.0@j.0 parallel\n"},
    {"PaddingFused", "partition_loops", kConv,
     "compute_inline pad\nfuse Y oh ow\nannotate Y oh@ow parallel\n"},
    {"Guard", "trim_loops", "matmul:M=6,N=8,K=10", "split C i 4\n"},
    {"Flat", "flatten_buffers", "transpose:A=2,B=3,C=4,perm=021", ""},
    {"Packed", "simplify_indices", "dense:M=4,N=10,K=3", "layout W d0 d1/4 d1%4\n"},
    {"Vector", "vectorize_loops", "matmul:M=2,N=7,K=3",
     "reorder C i k j\nannotate C j vectorize\n"},
    {"NotAVector", "vectorize_loops", "matmul:M=6,N=2,K=3",
     "split C i 4\nannotate C i.1 vectorize\nreorder C i.0 j k i.1\n"},
    {"Unrolled", "unroll_loops", "matmul:M=4,N=8,K=4",
     "split C i 2\nsplit C j 4\nreorder C i.0 j.0 k i.1 j.1\nannotate C i.1 unroll\nannotate C j.1 "
     "vectorize\n"},
    {"Whole", "simplify", "matmul:M=5,N=9,K=4",
     "split C i 2 tail=peel\nsplit C j 4\nreorder C i.0 j.0 k i.1 j.1\nannotate C i.0 "
     "parallel\nannotate C i.1 unroll\n"
     "annotate C j.1 vectorize\nprefetch C k B 2\n"},
    // Three tiles of rows use a panel of W: each step asks for a third of what it reads.
    {"NextPanel", "simplify", "dense:M=6,N=128,K=4",
     "layout W d0/32 d1 d0%32\nsplit Y j 32\nsplit Y i 2\nprefetch C k W 0\n"
     "reorder Y j.0 i.0 i.1 j.1\nannotate Y i.1 unroll\nannotate Y j.1 vectorize\n"
     "compute_at C Y i.0\nannotate C i unroll\nannotate C j vectorize\nreorder C k i j\n"},
    // The steps of a panel do not lie side by side.
    {"NoPanel", "simplify", "dense:M=6,N=8,K=4",
     "layout W d1 d0\nsplit Y j 4\nsplit Y i 2\nprefetch C k W 0\n"
     "reorder Y j.0 i.0 i.1 j.1\nannotate Y i.1 unroll\nannotate Y j.1 vectorize\n"
     "compute_at C Y i.0\nannotate C i unroll\nannotate C j vectorize\nreorder C k i j\n"},
    // One tile reads it: what a distance is for.
    {"NoNextPanel", "simplify", "dense:M=2,N=8,K=4",
     "layout W d0/4 d1 d0%4\nsplit Y j 4\nprefetch C k W 0\nreorder Y j.0 i j.1\n"
     "annotate Y i unroll\nannotate Y j.1 vectorize\ncompute_at C Y j.0\n"
     "annotate C i unroll\nannotate C j vectorize\nreorder C k i j\n"},
};

class Pass : public ::testing::TestWithParam<PassCase> {};

TEST_P(Pass, Golden) {
  const PassCase& c = GetParam();
  const ir::Func func = lower_to(dag_of(c.spec), c.schedule, c.pass);
  ASSERT_TRUE(func.body);
  testing::expect_golden(fmt::format("lower/{}/{}.txt", c.pass, c.name), ir::to_text(func));
}

TEST_P(Pass, ComputesTheSame) { expect_agrees(dag_of(GetParam().spec), GetParam().schedule); }

INSTANTIATE_TEST_SUITE_P(All, Pass, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Passes, EveryPassHasACase) {
  for (const std::string& pass : pass_names(target::host())) {
    if (pass == "simplify_parts" || pass == "tensorize_loops" || pass == "tensorize_tiles" ||
        pass == "drop_roundings")
      continue;  // arith's tests; tensorize_test.cc, tensorize_tiles_test.cc; below
    EXPECT_TRUE(std::any_of(std::begin(kCases), std::end(kCases), [&](const PassCase& c) {
      return c.pass == pass;
    })) << pass;
  }
}

// Flat, serial, simplified, without conditions: nothing for any pass to do.
ir::Func plain() {
  const ir::Buffer x = ir::Buffer::make("X", DType::kF32, {64});
  const ir::Buffer y = ir::Buffer::make("Y", DType::kF32, {64});
  const ir::Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const ir::Expr index = i * 8 + j;
  const ir::Stmt store = ir::Store::make(y, {index}, ir::Load::make(x, {index}));
  return {.name = "plain",
          .params = {x, y},
          .num_outputs = 1,
          .body = ir::For::make(i, 8, ir::LoopKind::kParallel,
                                ir::For::make(j, 8, ir::LoopKind::kSerial, store))};
}

// Of kernels that read short floats; others were told to round by the model.
TEST(Passes, RoundingsBetweenOperationsOfAKernelAreDropped) {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    for (const bool reads_short : {true, false}) {
      const ir::Buffer x = ir::Buffer::make("X", reads_short ? t : DType::kF32, {4});
      const ir::Expr read = ir::Load::make(x, {ir::int_imm(0)});
      const ir::Expr value = reads_short ? ir::cast(DType::kF32, read) : read;
      const auto dropped = [&](const ir::Expr& e) {
        const ir::Buffer y = ir::Buffer::make("Y", e.dtype(), {4});
        const ir::Func func{.name = "f",
                            .params = {x, y},
                            .num_outputs = 1,
                            .body = ir::Store::make(y, {ir::int_imm(0)}, e)};
        return drop_roundings(func).body.as<ir::Store>()->value;
      };
      const ir::Expr inside = ir::cast(DType::kF32, ir::cast(t, value + value)) + value;
      EXPECT_TRUE(ir::equal(dropped(inside), reads_short ? value + value + value : inside));
      const ir::Expr last = ir::cast(t, value + value);
      EXPECT_TRUE(ir::equal(dropped(last), last)) << "what is stored is rounded";
      const ir::Expr most = ir::max(last, ir::imm(t, 6));
      const ir::Expr once =
          ir::cast(t, ir::max(value + value, ir::cast(DType::kF32, ir::imm(t, 6))));
      EXPECT_TRUE(ir::equal(dropped(most), reads_short && t == DType::kBF16 ? once : most));
    }
  }
}

TEST(Passes, ReturnTheSameHandleWhenNothingChanges) {
  const ir::Func func = plain();
  LoopAttrs attrs;
  attrs.peel.insert(func.body.as<ir::For>()->var.get());
  attrs.auto_unroll[func.body.as<ir::For>()->var.get()] = 4;
  EXPECT_TRUE(mark_auto_unroll(func.body, attrs).same_as(func.body));
  EXPECT_TRUE(partition_loops(func.body, attrs).same_as(func.body));
  EXPECT_TRUE(trim_loops(func.body).same_as(func.body));
  EXPECT_TRUE(flatten_buffers(func).body.same_as(func.body));
  EXPECT_TRUE(flatten_buffers(func).params[0].same_as(func.params[0]));
  EXPECT_TRUE(vectorize_loops(func.body, target::host().vector_bytes).same_as(func.body));
  EXPECT_TRUE(unroll_loops(func.body).same_as(func.body));
  EXPECT_TRUE(arith::simplify(func.body).same_as(func.body));
  const ir::Expr other = ir::Var::make("other");
  attrs.tensorize[other.get()] = "dot4";
  Result<void> result;
  EXPECT_TRUE(tensorize_loops(func.body, attrs, &result).same_as(func.body));
}

TEST(PassRunner, StopsSkipsTimesAndPrints) {
  const te::Dag dag = dag_of("matmul:M=4,N=4,K=4");
  const auto all = lower(dag, {}, target::host()).value();
  ASSERT_EQ(all.times.size(), pass_names(target::host()).size());
  for (std::size_t i = 0; i < all.times.size(); ++i)
    EXPECT_EQ(all.times[i].name, pass_names(target::host())[i]);
  EXPECT_EQ(all.printed, "");
  const auto some = lower(dag, {}, target::host(),
                          {.print_after = {"flatten_buffers"},
                           .stop_after = "simplify_indices",
                           .skip = {"simplify_loops"}})
                        .value();
  EXPECT_EQ(some.times.size(), 8u);
  EXPECT_EQ(some.printed.rfind("// after flatten_buffers\nfunc matmul(", 0), 0u) << some.printed;
  const auto printed =
      lower(dag, {}, target::host(), {.print_after = {"all"}, .stop_after = "", .skip = {}})
          .value()
          .printed;
  for (const std::string& pass : pass_names(target::host()))
    EXPECT_NE(printed.find("// after " + pass + "\n"), std::string::npos) << pass;
}

TEST(Lower, RefusesBindingsOfAGpu) {
  expect_refused(dag_of("matmul:M=4,N=4,K=4"), "annotate C i threadIdx.x\n",
                 "loop i of C is bound to GPU threads");
  expect_refused(dag_of("matmul:M=4,N=4,K=4"), "annotate C i vthread\n",
                 "loop i of C is bound to GPU threads");
  expect_refused(dag_of("matmul:M=4,N=4,K=4"), "cache_read A shared C\n",
                 "stage A.shared uses shared memory");
}

}  // namespace
}  // namespace tessera::lower

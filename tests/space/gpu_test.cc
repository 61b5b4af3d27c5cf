// Schedules for GPUs: whatever is picked lowers to launches within the limits of the device, and
// the interpreter, which runs them block by block, finds no race and the right result.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/roundings.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/scheduling/decide/walk.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/scheduling/space/gpu/gpu_tensor.h"
#include "tessera/scheduling/space/gpu/gpu_tile.h"
#include "tests/lower/thread_case.h"
#include "tests/space/sketch_case.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

target::Target gpu() { return target::find_target("h200").value(); }

// Lowers within the limits; with `runs` also computes what the Dag means.
void expect_runs(const te::Dag& dag, const schedule::Schedule& schedule, bool runs) {
  const auto lowered = lower::lower(dag, schedule, gpu());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message << "\n" << schedule::to_text(schedule);
  if (runs) {
    EXPECT_EQ(lower::run_threads(dag, lowered->program, lowered->param_layouts), "")
        << schedule::to_text(schedule);
  }
}

TEST(Gpu, EveryChoiceComputesTheOperation) {
  for (const char* spec : {"matmul:M=37,N=29,K=19",
                           "matmul:M=5,N=70,K=33,TA=1,TB=1",
                           "dense:M=9,N=21,K=13",
                           "bmm:B=3,M=11,N=17,K=13",
                           "conv2d:N=1,H=9,W=7,CI=5,CO=7,KH=3,KW=3,P=1",
                           "conv2d:N=2,H=8,W=8,CI=4,CO=8,KH=3,KW=3,P=1,S=2",
                           "depthwise:N=1,H=9,W=7,C=5,KH=3,KW=3,P=1",
                           "depthwise:N=1,H=8,W=8,C=8,KH=3,KW=3,P=1,S=2",
                           "maxpool2d:N=1,H=7,W=9,C=5,KH=3,KW=3,P=1",
                           "avgpool2d:N=1,H=7,W=7,C=36,KH=7,KW=7",
                           "matmul:M=1,N=13,K=70",
                           "dense:M=1,N=9,K=64",
                           "conv2d:N=1,H=6,W=7,CI=8,CO=12,KH=3,KW=3,P=1,G=2",
                           "conv2d:N=1,H=9,W=7,CI=5,CO=7,KH=3,KW=3,P=1,algo=winograd2",
                           "conv2d:N=1,H=5,W=6,CI=4,CO=6,KH=1,KW=1,layout=nchw",
                           "conv_transpose2d:N=1,H=4,W=3,CI=4,CO=5,KH=4,KW=4,S=2,P=1",
                           "attention:B=2,M=19,N=45,D=20",
                           "attention:B=1,M=9,N=150,D=7,mask=causal",
                           "softmax:R=5,C=70",
                           "softmax:R=3,C=64",
                           "layernorm:R=3,C=50",
                           "reduce:R=7,C=101,op=sum",
                           "reduce:R=13,C=33,axis=0",
                           "transpose:A=19,B=37,C=1,perm=102",
                           "transpose:A=3,B=18,C=21,perm=021",
                           "eltwise:N=1000,fn=mul+add+relu"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, gpu()).value();
    expect_runs(dag, default_schedule(dag, gpu()).value(), true);
    Rng rng(5);
    for (std::size_t s = 0; s < space.sketches().size(); ++s) {
      for (int i = 0; i < 3; ++i) {
        const Candidate c{.sketch = static_cast<std::int32_t>(s),
                          .choice = legal_choice(*space.sketches()[s], rng)};
        SCOPED_TRACE(space.to_text(c));
        expect_runs(dag, space.schedule(c).value(), true);
      }
    }
  }
}

TEST(Gpu, LayersOfNetworksStayWithinTheLimits) {
  for (const char* spec :
       {"matmul:M=1024,N=1024,K=1024", "dense:M=128,N=768,K=3072", "dense:M=1,N=1000,K=2048",
        "bmm:B=12,M=128,N=64,K=128", "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1",
        "conv2d:N=1,H=224,W=224,CI=3,CO=64,KH=7,KW=7,S=2,P=3", "softmax:R=1536,C=128",
        "layernorm:R=128,C=768", "maxpool2d:N=1,H=112,W=112,C=64,KH=3,KW=3,S=2,P=1",
        "conv2d:N=1,H=14,W=14,CI=256,CO=256,KH=3,KW=3,P=1,algo=winograd4",
        "conv2d:N=1,H=7,W=7,CI=512,CO=512,KH=3,KW=3,P=1",
        "depthwise:N=1,H=56,W=56,C=144,KH=3,KW=3,P=1", "transpose:A=1024,B=1024,C=1,perm=102",
        "softmax:R=16,C=50257"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, gpu()).value();
    expect_runs(dag, space.schedule(space.preferred()).value(), false);
    Rng rng(5);
    for (int i = 0; i < 8; ++i) expect_runs(dag, space.schedule(space.sample(rng)).value(), false);
  }
}

// Threads and tensor cores cut their tiles by decisions of their own: what one may take does not
// limit the other.
// 14 rows of 56 x 2 vectors in rounds of 896 threads: the second round reaches 16 rows, for which
// 7 threads take three each.
TEST(Gpu, GroupsMakeRoomForAllThreadsOfTheLastRound) {
  const GpuTile tile{.outer_rows = 2,
                     .outer_threads = 7,
                     .rows = 2,
                     .row_threads = 32,
                     .column_threads = 2,
                     .groups = 2};
  const GpuLowered lowered = lower_gpu_tile(tile, 56, 56, 64);
  EXPECT_EQ(lowered.tile.outer_rows, 3);
  EXPECT_EQ(lowered.tile.rows, 2);
  EXPECT_EQ(lowered.exchange_bytes, 4 * 2 * 16 * 56 * 8);
  EXPECT_TRUE(lowered.in_turn);
  // The axis ends before, or the only round is not full.
  EXPECT_EQ(lower_gpu_tile(tile, 14, 56, 64).tile.outer_rows, 2);
  EXPECT_EQ(lower_gpu_tile(tile, 7, 56, 64).exchange_bytes, 4 * 2 * 7 * 56 * 8);
  // One row of threads: those beyond it are another turn of a loop.
  GpuTile flat = tile;
  flat.outer_rows = 1;
  flat.chunks = 2;
  EXPECT_EQ(lower_gpu_tile(flat, 56, 56, 64).tile.outer_rows, 2);
  EXPECT_FALSE(lower_gpu_tile(flat, 56, 56, 64).in_turn);
}

TEST(Gpu, AnyDrawOfAHalfPrecisionLayerIsLegal) {
  for (const char* spec : {"conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=1,KW=1,dtype=f16",
                           "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1,dtype=f16,algo=direct",
                           "matmul:M=128,N=768,K=768,dtype=f16"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, gpu()).value();
    Rng rng(7);
    for (int i = 0; i < 400; ++i) {
      const Candidate c = space.sample(rng);
      ASSERT_TRUE(space.check(c).ok()) << space.to_text(c);
      if (i < 8) expect_runs(dag, space.schedule(c).value(), false);
    }
  }
}

TEST(Gpu, OperandsOfABlockGoThroughSharedMemory) {
  const std::string text = schedule_text(dag_of("matmul:M=4096,N=4096,K=4096"), gpu());
  for (const char* step :
       {"cache_write C local\n", "cache_read A shared C.local\n", "cache_read B shared C.local\n",
        "annotate C i.0@j.0 blockIdx.x\n", "annotate C i.1 vthread\n",
        "annotate C i.2@j.2@i.3@j.3@i.4 threadIdx.x\n", "compute_at A.shared C.local k.0\n",
        "annotate B.shared d0@d1.2 vectorize\n", "pragma C.local k.0 pipeline "}) {
    EXPECT_NE(text.find(step), std::string::npos) << step << "in\n" << text;
  }
}

// Results whose rows begin anywhere are stored by lanes side by side, one element each.
TEST(Gpu, OddRowsOfLargeTilesGoThroughSharedMemory) {
  const auto staged = [](const schedule::Schedule& schedule) {
    return schedule::to_text(schedule).find("cache_write C.shared local\n") != std::string::npos;
  };
  const auto by_default = [](const char* spec) {
    return default_schedule(dag_of(spec), gpu()).value();
  };
  EXPECT_TRUE(staged(by_default("dense:M=128,N=50257,K=768")));
  EXPECT_TRUE(staged(by_default("dense:M=128,N=50257,K=768,dtype=f16")));
  EXPECT_FALSE(staged(by_default("dense:M=128,N=50304,K=768")));
  const te::Dag dag = dag_of("dense:M=70,N=131,K=24");
  const Space space = make_space(dag, gpu()).value();
  Rng rng(3);
  int seen = 0;
  for (int i = 0; i < 4000 && seen < 3; ++i) {
    const schedule::Schedule schedule = space.schedule(space.sample(rng)).value();
    if (!staged(schedule)) continue;
    ++seen;
    expect_runs(dag, schedule, false);
  }
  EXPECT_EQ(seen, 3);
}

TEST(Gpu, FewTilesShareTheReductionAmongBlocks) {
  const std::string text =
      schedule_text(dag_of("conv2d:N=1,H=7,W=7,CI=512,CO=512,KH=3,KW=3,P=1,algo=direct"), gpu());
  EXPECT_NE(text.find("rfactor Y ci.0 0\n"), std::string::npos) << text;
  // The padding is part of the copy.
  EXPECT_NE(text.find("compute_inline pad\n"), std::string::npos) << text;
}

TEST(Gpu, PartsOfSumsStayInTheCache) {
  const te::Dag dag = dag_of("matmul:M=128,N=11264,K=2048");
  const auto lowered = lower::lower(dag, default_schedule(dag, gpu()).value(), gpu());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  std::int64_t bytes = 0;
  for (const ir::Buffer& b : lowered->program.temporaries) bytes += 4 * b.size();
  EXPECT_LE(bytes, gpu().l2_bytes / 2);
}

// Where nothing else hides the wait for copies, there are few of them.
TEST(Gpu, FewBlocksWaitSeldom) {
  const auto text = [](const char* spec) {
    return schedule::to_text(default_schedule(dag_of(spec), gpu()).value());
  };
  const std::string product = text("matmul:M=49,N=960,K=160");
  EXPECT_NE(product.find("split C.local k 8 4\n"), std::string::npos) << product;
  const std::string attention = text("attention:B=12,M=128,N=128,D=64,dtype=f16");
  EXPECT_EQ(attention.find("pipeline"), std::string::npos) << attention;
  const std::string many = text("attention:B=96,M=128,N=128,D=64,dtype=f16");
  EXPECT_NE(many.find("pipeline 2\n"), std::string::npos) << many;
}

TEST(Gpu, RowsAreReducedAndUsedInOneLaunch) {
  for (const char* spec : {"softmax:R=1536,C=128", "layernorm:R=128,C=768"}) {
    const te::Dag dag = dag_of(spec);
    const auto lowered = lower::lower_device(dag, default_schedule(dag, gpu()).value());
    ASSERT_TRUE(lowered.ok()) << lowered.error().message;
    EXPECT_EQ(lowered->program.launches.size(), 1U) << spec;
  }
}

TEST(Gpu, AttentionIsOneLaunch) {
  for (const char* spec :
       {"attention:B=12,M=128,N=128,D=64", "attention:B=12,M=197,N=197,D=64",
        "attention:B=12,M=128,N=128,D=64,mask=causal", "attention:B=16,M=384,N=384,D=80",
        "attention:B=12,M=128,N=128,D=64,dtype=f16", "attention:B=12,M=197,N=197,D=64,dtype=f16",
        "attention:B=12,M=1024,N=1024,D=64,dtype=f16"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const schedule::Schedule schedule = default_schedule(dag, gpu()).value();
    expect_runs(dag, schedule, false);
    EXPECT_EQ(lower::lower_device(dag, schedule)->program.launches.size(), 1U);
  }
  // The scores of a block do not fit.
  const te::Dag dag = dag_of("attention:B=1,M=64,N=8192,D=64");
  const schedule::Schedule schedule = default_schedule(dag, gpu()).value();
  EXPECT_GT(lower::lower_device(dag, schedule)->program.launches.size(), 1U);
}

// As a model has it: heads are parts of one value, and the scores have an epilogue.
TEST(Gpu, AttentionOfAModelIsOneLaunch) {
  const auto dag = [](int tokens, int heads, int size) {
    return te::dag_from_text(fmt::format(R"(dag attention
  input q: f32[1, {0}, {2}, {3}]
  input k: f32[1, {0}, {2}, {3}]
  input mask: f32[1, 1, 1, {0}]
  input v: f32[1, {0}, {2}, {3}]
  stage s: f32[1, {1}, {0}, {0}]
    s[b, c, i, j] = sum(k in {3}) q[b, i, c, k] * k[b, j, c + {1}, k]
  stage mul: f32[1, {1}, {0}, {0}]
    mul[i0, i1, i2, i3] = s[0, i1, i2, i3] * 0.125
  stage add: f32[1, {1}, {0}, {0}]
    add[i0, i1, i2, i3] = mul[0, i1, i2, i3] + mask[0, 0, 0, i3]
  stage mx: f32[1, {1}, {0}]
    mx[i0, i1, i2] = max(i3 in {0}) add[i0, i1, i2, i3]
  stage ex: f32[1, {1}, {0}, {0}]
    ex[i0, i1, i2, i3] = exp(add[i0, i1, i2, i3] - mx[i0, i1, i2])
  stage sm: f32[1, {1}, {0}]
    sm[i0, i1, i2] = sum(i3 in {0}) ex[i0, i1, i2, i3]
  stage p: f32[1, {1}, {0}, {0}]
    p[i0, i1, i2, i3] = ex[i0, i1, i2, i3] / sm[i0, i1, i2]
  stage y: f32[1, {0}, {1}, {3}]
    y[b, i, c, j] = sum(k in {0}) p[b, c, i, k] * v[b, k, c + {4}, j]
  output y
)",
                                         tokens, heads, 3 * heads, size, 2 * heads))
        .value();
  };
  for (const auto& [made, runs] : {std::pair(dag(128, 12, 64), false), {dag(13, 2, 12), true}}) {
    const schedule::Schedule schedule = default_schedule(made, gpu()).value();
    expect_runs(made, schedule, runs);
    EXPECT_EQ(lower::lower_device(made, schedule)->program.launches.size(), 1U);
  }
}

bool uses_tensor_cores(const schedule::Schedule& schedule) {
  return schedule::to_text(schedule).find("tensorize") != std::string::npos;
}

// Weights lie along the window, maps along the channels: neighbouring threads take neighbouring
// channels. The epilogue reads the only image by number.
TEST(Gpu, DepthwiseWindowsAreNoRows) {
  for (const int size : {10, 112}) {
    const te::Dag dag = te::dag_from_text(fmt::format(R"(dag depthwise+add
  input x: f32[1, {1}, {1}, 32]
  constant w: f32[32, 1, 3, 3]
  constant b: f32[1, 1, 1, 32]
  stage conv: f32[1, {0}, {0}, 32]
    conv[n, oh, ow, c] = sum(kh in 3, kw in 3) x[n, oh + kh, ow + kw, c] * w[c, 0, kh, kw]
  stage add: f32[1, {0}, {0}, 32]
    add[i0, i1, i2, i3] = conv[0, i1, i2, i3] + b[0, 0, 0, i3]
  output add
)",
                                                      size, size + 2))
                            .value();
    const schedule::Schedule schedule = default_schedule(dag, gpu()).value();
    expect_runs(dag, schedule, size == 10);
    const auto lowered = lower::lower_device(dag, schedule).value();
    ASSERT_EQ(lowered.program.launches.size(), 1u);
    EXPECT_GE(lowered.program.launches[0].threads(), 64);
    EXPECT_EQ(schedule::to_text(schedule).find("threadIdx.x"),
              schedule::to_text(schedule).rfind("threadIdx.x"))
        << "the window is not shared along x";
  }
}

TEST(Gpu, ProductsOfHalvesGoToTensorCores) {
  for (const char* spec :
       {"matmul:M=37,N=70,K=45,dtype=f16", "matmul:M=64,N=48,K=64,TA=1,dtype=bf16",
        "dense:M=33,N=64,K=130,dtype=f16", "bmm:B=2,M=32,N=24,K=40,dtype=f16",
        "conv2d:N=1,H=3,W=20,CI=16,CO=32,KH=3,KW=3,P=1,dtype=f16,algo=direct",
        "matmul:M=7,N=10,K=19,dtype=f16", "attention:B=2,M=20,N=32,D=24,dtype=f16",
        "attention:B=1,M=18,N=85,D=40,mask=causal,dtype=f16",
        "conv2d:N=2,H=3,W=7,CI=16,CO=24,KH=3,KW=3,P=1,dtype=f16,algo=direct",
        "conv2d:N=1,H=5,W=36,CI=24,CO=16,KH=3,KW=3,P=1,S=2,dtype=bf16,algo=direct",
        "conv2d:N=1,H=9,W=21,CI=3,CO=24,KH=5,KW=5,S=2,P=2,dtype=f16,algo=im2col",
        "dense:M=33,N=64,K=160,dtype=i8", "matmul:M=20,N=40,K=64,TB=1,dtype=u8",
        "conv2d:N=1,H=3,W=20,CI=32,CO=24,KH=3,KW=3,P=1,dtype=i8"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const schedule::Schedule preferred = default_schedule(dag, gpu()).value();
    EXPECT_TRUE(uses_tensor_cores(preferred)) << schedule::to_text(preferred);
    expect_runs(dag, preferred, true);
    const Space space = make_space(dag, gpu()).value();
    Rng rng(5);
    int seen = 0;
    for (int i = 0; i < 12 && seen < 3; ++i) {
      const schedule::Schedule other = space.schedule(space.sample(rng)).value();
      // Some tiles of attention are refused only when they are lowered.
      if (!uses_tensor_cores(other) || !lower::lower(dag, other, gpu()).ok()) continue;
      ++seen;
      expect_runs(dag, other, true);
    }
  }
}

// Threads multiply: what a block copies of rows of 133 elements is stored together.
TEST(Gpu, ColumnsThatAreNoWholeVectorsAreStoredInBlocks) {
  const auto dag = [](int columns) {
    return te::dag_from_text(fmt::format(R"(dag head
  input X: f32[16, 32]
  constant W: f32[{0}, 32]
  stage C: f32[16, {0}]
    C[i, j] = sum(k in 32) X[i, k] * W[j, k]
  output C
)",
                                         columns))
        .value();
  };
  const schedule::Schedule schedule = default_schedule(dag(133), gpu()).value();
  const std::string text = schedule::to_text(schedule);
  const std::size_t layout = text.find("layout W d0/");
  ASSERT_NE(layout, std::string::npos) << text;
  EXPECT_NE(text.find(" d1 d0%", layout), std::string::npos) << text;
  EXPECT_NE(text.find("annotate W.shared d1@d0.2 vectorize"), std::string::npos) << text;
  expect_runs(dag(133), schedule, true);
  EXPECT_EQ(schedule::to_text(default_schedule(dag(132), gpu()).value()).find("layout W d0/"),
            std::string::npos);
}

// The left operand lies along its rows in shared memory, and a thread reads four of them at once.
TEST(Gpu, ProductsTurnTheirLeftOperandRound) {
  for (const char* spec : {"matmul:M=64,N=96,K=32", "dense:M=72,N=64,K=24",
                           "bmm:B=2,M=32,N=64,K=16", "matmul:M=70,N=68,K=20"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, gpu()).value();
    Rng rng(11);
    int transposed = 0;
    for (int i = 0; i < 200 && transposed < 2; ++i) {
      const Candidate c{.sketch = 0, .choice = legal_choice(*space.sketches()[0], rng)};
      const schedule::Schedule schedule = space.schedule(c).value();
      const std::string text = schedule::to_text(schedule);
      if (text.find(".shared d1 d0\n") == std::string::npos &&
          text.find(".shared d0 d2 d1\n") == std::string::npos)
        continue;
      ++transposed;
      expect_runs(dag, schedule, true);
    }
    EXPECT_EQ(transposed, 2);
  }
}

// Groups of threads share the steps of a tile for each multiprocessor, and wait for themselves.
TEST(Gpu, GroupsThatCopyForThemselvesFillTheDevice) {
  const auto check = [](const char* large, const char* small, const char* split, const char* wait) {
    SCOPED_TRACE(large);
    const te::Dag dag = dag_of(large);
    const auto schedule = default_schedule(dag, gpu()).value();
    const std::string text = schedule::to_text(schedule);
    EXPECT_NE(text.find(split), std::string::npos) << text;
    const auto lowered = lower::lower(dag, schedule, gpu());
    ASSERT_TRUE(lowered.ok()) << lowered.error().message;
    const ir::Launch& launch = lowered->program.launches[0];
    EXPECT_LE(launch.blocks(), gpu().cores);
    EXPECT_GE(launch.blocks(), gpu().cores * 9 / 10);
    EXPECT_NE(ir::to_text(lowered->program).find(wait), std::string::npos) << text;
    expect_runs(dag_of(small), schedule, true);
  };
  check("dense:M=128,N=3072,K=768", "dense:M=40,N=100,K=64", "split C k 8 4\n", "wait(2, 32)");
  check("dense:M=128,N=2304,K=768", "dense:M=40,N=76,K=128", ".shared j 6 4\n", "wait(1, 96)");
  check("dense:M=128,N=768,K=3072", "dense:M=40,N=100,K=64", "rfactor C.rf ", ", 64)");
}

// Several rows of a map share the weights that a block copies.
TEST(Gpu, WindowsOfHalvesShareTheirWeights) {
  const target::Target h200 = gpu();
  const TensorProblem small{.row = 7, .column = 512, .reduce = 512, .taps = 9, .outer = 7};
  EXPECT_EQ(choose_tensor_tile(h200, small).outer_warps, 7);
  TensorTile tile{.outer_warps = 8};
  EXPECT_STREQ(refuse_tensor_tile(h200, small, tile), "more than the axis has");
  for (const char* spec :
       {"conv2d:N=1,H=7,W=7,CI=32,CO=32,KH=3,KW=3,P=1,dtype=f16,algo=direct",
        "conv2d:N=1,H=9,W=11,CI=32,CO=32,KH=3,KW=3,S=2,P=1,dtype=f16,algo=direct"}) {
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, h200).value();
    Rng rng(7);
    int seen = 0;
    for (int i = 0; i < 200 && seen < 3; ++i) {
      const schedule::Schedule other = space.schedule(space.sample(rng)).value();
      const std::string text = schedule::to_text(other);
      if (!uses_tensor_cores(other) || text.find("oh.1@ow.1@co.1 threadIdx.y") == std::string::npos)
        continue;
      ++seen;
      expect_runs(dag, other, true);
    }
    EXPECT_GT(seen, 0) << spec;
  }
}

// What the taps of a window read of the image is copied once; tiles that end beyond a padded image
// are still copied while others compute.
TEST(Gpu, WindowsAreCopiedWhole) {
  for (const char* spec :
       {"conv2d:N=1,H=3,W=18,CI=64,CO=16,KH=3,KW=3,P=1,dtype=f16,algo=direct",
        "conv2d:N=1,H=5,W=11,CI=64,CO=16,KH=3,KW=2,S=2,P=1,dtype=f16,algo=direct"}) {
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, gpu()).value();
    Rng rng(11);
    int seen = 0;
    for (int i = 0; i < 200 && seen < 2; ++i) {
      const schedule::Schedule other = space.schedule(space.sample(rng)).value();
      const std::string text = schedule::to_text(other);
      if (!uses_tensor_cores(other) || text.find("kh@kw@") != std::string::npos) continue;
      ++seen;
      expect_runs(dag, other, true);
      const std::string program = ir::to_text(lower::lower(dag, other, gpu())->program);
      // One step leaves nothing to copy ahead.
      const bool ahead = program.find("async_commit") != std::string::npos;
      EXPECT_EQ(program.find("async_copy(pad.shared[") != std::string::npos, ahead) << program;
    }
    EXPECT_GT(seen, 0) << spec;
  }
  const TensorProblem window{.row = 28,
                             .column = 128,
                             .reduce = 128,
                             .taps = 9,
                             .outer = 28,
                             .row_reach = 2,
                             .outer_reach = 2};
  TensorTile tile{.warp_rows = 16, .warp_columns = 32, .column_warps = 2, .outer_warps = 4};
  const std::int64_t by_taps = tensor_shared_bytes(window, tile);
  tile.whole_windows = true;
  EXPECT_GT(tensor_shared_bytes(window, tile), by_taps);
  EXPECT_STREQ(refuse_tensor_tile(gpu(), {.row = 64, .column = 64, .reduce = 64, .outer = 4}, tile),
               "windows of one element");
}

// Winograd with depth: the product takes several frames, which share their window.
TEST(Gpu, TransformsOfFrames) {
  te::DagBuilder b("frames");
  const ir::Buffer x = b.input("X", DType::kF32, {1, 3, 8, 8, 8});
  const ir::Buffer u = b.constant("U", DType::kF32, {6, 6, 3, 8, 8});
  std::vector<te::Window> windows;
  for (const auto& [axis, size] : {std::pair("d", 3), {"h", 8}, {"w", 8}}) {
    te::Window w{.axis = axis, .size = size, .kernel = 3, .pad_lo = 1, .pad_hi = 1, .out = size};
    windows.push_back(w);
  }
  const ir::Buffer y = te::winograd_stages(b, "", "Y", x, u, windows, 4, DType::kF32).value();
  const te::Dag dag = b.build({y});
  const schedule::Schedule schedule = default_schedule(dag, gpu()).value();
  expect_runs(dag, schedule, true);
  EXPECT_EQ(lower::lower_device(dag, schedule)->program.launches.size(), 3U);
}

// Rows of 33 elements are no whole vectors: the constant is stored by columns, which are.
TEST(Gpu, ConstantsThatAreNoWholeVectorsAreStoredOtherwise) {
  const te::Dag dag = te::dag_from_text(R"(dag head
  input X: f16[32, 64]
  constant W: f16[64, 33]
  stage C: f32[32, 33]
    C[i, j] = sum(k in 64) f32(X[i, k]) * f32(W[k, j])
  stage Y: f16[32, 33]
    Y[i, j] = f16(C[i, j])
  output Y
)")
                          .value();
  const schedule::Schedule schedule = default_schedule(dag, gpu()).value();
  const std::string text = schedule::to_text(schedule);
  EXPECT_NE(text.find("tensorize"), std::string::npos) << text;
  EXPECT_NE(text.find("layout W d1 d0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("storage_align W.shared 1 16 8\n"), std::string::npos) << text;
  expect_runs(dag, schedule, true);
}

TEST(Gpu, WithoutTensorCoresForTheTypeThreadsMultiply) {
  const target::Target t4 = target::find_target("t4").value();
  for (const char* spec : {"matmul:M=64,N=64,K=64,dtype=bf16", "matmul:M=64,N=64,K=64",
                           "dense:M=64,N=64,K=64,dtype=i8"}) {
    const te::Dag dag = dag_of(spec);
    EXPECT_FALSE(uses_tensor_cores(default_schedule(dag, t4).value())) << spec;
  }
  // Bytes that do not lie along the sums, and cannot be stored otherwise.
  EXPECT_FALSE(
      uses_tensor_cores(default_schedule(dag_of("matmul:M=64,N=64,K=64,dtype=i8"), gpu()).value()));
  // Too short for a tile.
  EXPECT_FALSE(
      uses_tensor_cores(default_schedule(dag_of("matmul:M=3,N=64,K=64,dtype=f16"), gpu()).value()));
}

// Products of f32 go there only where rounding to tf32 is allowed. Inputs that tf32 holds give what
// f32 gives; others differ by no more than the table allows.
TEST(Gpu, ProductsOfSinglesGoToTensorCoresWhereAllowed) {
  const target::Target fast = target::allow_fast_math(gpu(), "tf32").value();
  for (const char* spec :
       {"matmul:M=37,N=40,K=44,TB=1", "matmul:M=20,N=36,K=24", "matmul:M=7,N=10,K=19,TA=1",
        "dense:M=17,N=24,K=36", "conv2d:N=1,H=3,W=20,CI=16,CO=16,KH=3,KW=3,P=1,algo=direct"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    EXPECT_FALSE(uses_tensor_cores(default_schedule(dag, gpu()).value()));
    std::vector<schedule::Schedule> schedules = {default_schedule(dag, fast).value()};
    EXPECT_TRUE(uses_tensor_cores(schedules[0])) << schedule::to_text(schedules[0]);
    const Space space = make_space(dag, fast).value();
    Rng rng(5);
    for (int i = 0; i < 8 && schedules.size() < 2; ++i) {
      const schedule::Schedule other = space.schedule(space.sample(rng)).value();
      if (uses_tensor_cores(other)) schedules.push_back(other);
    }
    std::vector<HostTensor> inputs, held;
    for (const te::Input& in : dag.inputs) {
      inputs.push_back(random_tensor(in.buffer->dtype, in.buffer->shape, rng));
      held.emplace_back(in.buffer->dtype, in.buffer->shape);
      for (std::int64_t i = 0; i < held.back().size(); ++i)
        held.back().set_float(i, std::round(inputs.back().get_float(i) * 64) / 64);
    }
    const double scale = 4;  // of the outputs, which are sums of products of at most 1
    const double allowed = scale * tolerance(te::roundings_of_node(dag, Products::kTf32));
    for (const schedule::Schedule& s : schedules) {
      const auto lowered = lower::lower(dag, s, fast);
      ASSERT_TRUE(lowered.ok()) << lowered.error().message << "\n" << schedule::to_text(s);
      const auto run = [&](const std::vector<HostTensor>& given, double most) {
        return lower::run_threads(dag, lowered->program, given, most, lowered->param_layouts);
      };
      EXPECT_EQ(run(held, 1e-5), "") << schedule::to_text(s);
      EXPECT_EQ(run(inputs, allowed), "") << schedule::to_text(s);
    }
  }
}

// Six products of bf16 for one of f32, by groups of warps or by warps.
TEST(Gpu, ProductsOfPartsGoToTensorCores) {
  for (const char* name : {"h200", "a100"}) {
    const target::Target device = target::find_target(name).value();
    for (const char* spec :
         {"matmul:M=130,N=36,K=72,algo=bf16x6", "dense:M=129,N=37,K=65,algo=bf16x6",
          "dense:M=17,N=24,K=40,algo=bf16x6", "matmul:M=20,N=36,K=24,TA=1,TB=1,algo=bf16x6"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, spec));
      const te::Dag dag = dag_of(spec);
      const auto schedule = default_schedule(dag, device).value();
      EXPECT_TRUE(uses_tensor_cores(schedule)) << schedule::to_text(schedule);
      expect_runs(dag, schedule, true);
    }
  }
}

// Tiles of large products, of which a small one has few: columns that lie side by side are cut.
TEST(Gpu, LargeTilesOfPartsAreRight) {
  const te::Dag large = dag_of("matmul:M=2048,N=2048,K=2048,algo=bf16x6");
  const Space space = make_space(large, gpu()).value();
  Rng rng(5);
  bool found = false;
  for (int i = 0; i < 1000 && !found; ++i) {
    const schedule::Schedule schedule = space.schedule(space.sample(rng)).value();
    const std::string text = schedule::to_text(schedule);
    found = text.find("split C.local j 128\n") != std::string::npos &&
            text.find("wgmma") != std::string::npos;
    if (found) expect_runs(dag_of("matmul:M=66,N=136,K=72,algo=bf16x6"), schedule, true);
  }
  EXPECT_TRUE(found);
  const auto staged = default_schedule(dag_of("dense:M=128,N=50257,K=768,algo=bf16x6"), gpu());
  expect_runs(dag_of("dense:M=66,N=67,K=72,algo=bf16x6"), staged.value(), true);
}

TEST(Gpu, DefaultsOfConvolutions) {
  const auto text_of = [](const char* spec) {
    return schedule::to_text(default_schedule(dag_of(spec), gpu()).value());
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  // All taps of a strided window at once, for two rows of the map.
  const std::string strided =
      text_of("conv2d:N=1,H=28,W=28,CI=128,CO=256,KH=3,KW=3,S=2,P=1,dtype=f16");
  EXPECT_TRUE(has(strided, "split out oh 2\n") && has(strided, "pragma Y ci.0 pipeline 3\n"))
      << strided;
  const std::string wide = text_of("conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,S=1,P=1,dtype=f16");
  EXPECT_TRUE(has(wide, "wgmma")) << wide;
  const std::string gathered =
      text_of("conv2d:N=1,H=224,W=224,CI=3,CO=64,KH=7,KW=7,S=2,P=3,algo=im2col,dtype=f16");
  EXPECT_FALSE(has(gathered, "compute_inline columns\n")) << gathered;
  // Small blocks, so that every core has some; transformed once, not by eight blocks of columns.
  const std::string transformed =
      text_of("conv2d:N=1,H=14,W=14,CI=256,CO=256,KH=3,KW=3,S=1,P=1,algo=winograd2");
  EXPECT_TRUE(has(transformed, "split Y oh.0@ow.0@co 32\n")) << transformed;
  EXPECT_FALSE(has(transformed, "compute_inline V\n")) << transformed;
}

TEST(Gpu, TensorTilesFillTheDevice) {
  const target::Target h200 = gpu();
  const TensorProblem large{.row = 4096, .column = 4096, .reduce = 4096};
  const TensorTile tile = choose_tensor_tile(h200, large);
  EXPECT_EQ(refuse_tensor_tile(h200, large, tile), nullptr);
  EXPECT_GE(tile.rows() * tile.columns(), 128 * 128);
  EXPECT_EQ(tile.split_k, 1);
  // Few outputs: the sum is cut into parts rather than leaving most of the device idle.
  const TensorProblem deep{.row = 128, .column = 768, .reduce = 3072};
  const TensorTile cut = choose_tensor_tile(h200, deep);
  EXPECT_GE(128 * 768 / (cut.rows() * cut.columns()) * cut.split_k, h200.cores / 2);
  const TensorTile wide{.warp_rows = 128, .warp_columns = 128};
  EXPECT_STREQ(refuse_tensor_tile(h200, large, wide), "more sums than registers");
}

}  // namespace
}  // namespace tessera::space

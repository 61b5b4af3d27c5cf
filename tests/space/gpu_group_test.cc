// Products by warp groups: every tile computes the operation, and the estimate takes them where
// they are worth it.
#include "tessera/scheduling/space/gpu/gpu_group.h"

#include <gtest/gtest.h>

#include "tessera/machine/target/fast_math.h"
#include "tessera/scheduling/decide/walk.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/scheduling/space/space.h"
#include "tests/lower/thread_case.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

const target::Target& h200() {
  static const target::Target target = target::find_target("h200").value();
  return target;
}

bool uses_groups(const schedule::Schedule& schedule) {
  return schedule::to_text(schedule).find("wgmma") != std::string::npos;
}

TEST(GpuGroup, EveryTileComputesTheOperation) {
  for (const char* spec :
       {"matmul:M=130,N=72,K=136,dtype=f16", "matmul:M=64,N=64,K=130,TA=1,dtype=bf16",
        "dense:M=70,N=96,K=200,dtype=f16", "dense:M=70,N=97,K=200,dtype=f16",
        "bmm:B=2,M=40,N=64,K=128,dtype=f16", "matmul:M=66,N=40,K=72,algo=bf16x6",
        "conv2d:N=1,H=3,W=50,CI=64,CO=40,KH=3,KW=3,P=1,dtype=f16,algo=direct",
        "dense:M=66,N=40,K=144,dtype=i8", "dense:M=66,N=40,K=144,dtype=f8e4m3",
        "conv2d:N=1,H=1,W=40,CI=128,CO=40,KH=3,KW=3,P=1,dtype=u8"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, h200()).value();
    Rng rng(5);
    int seen = 0;
    for (int i = 0; i < 200 && seen < 4; ++i) {
      const schedule::Schedule schedule = space.schedule(space.sample(rng)).value();
      if (!uses_groups(schedule)) continue;
      const auto lowered = lower::lower(dag, schedule, h200());
      ASSERT_TRUE(lowered.ok()) << lowered.error().message << "\n" << schedule::to_text(schedule);
      if (++seen > 2) continue;
      EXPECT_EQ(lower::run_threads(dag, lowered->program, lowered->param_layouts), "")
          << schedule::to_text(schedule);
    }
    EXPECT_GE(seen, 2);
  }
}

TEST(GpuGroup, LargeProductsOfHalvesTakeThem) {
  for (const char* spec :
       {"matmul:M=4096,N=4096,K=4096,dtype=f16", "dense:M=2048,N=3072,K=768,dtype=bf16",
        "dense:M=128,N=3072,K=768,dtype=f16", "matmul:M=128,N=768,K=3072,dtype=f16"}) {
    const schedule::Schedule schedule = default_schedule(dag_of(spec), h200()).value();
    EXPECT_TRUE(uses_groups(schedule)) << schedule::to_text(schedule);
    EXPECT_TRUE(lower::lower(dag_of(spec), schedule, h200()).ok());
    const auto a100 = target::find_target("a100").value();
    EXPECT_FALSE(uses_groups(default_schedule(dag_of(spec), a100).value()));
  }
  // Few rows, or nothing to copy ahead.
  for (const char* spec : {"matmul:M=16,N=4096,K=4096,dtype=f16",
                           "matmul:M=128,N=128,K=64,dtype=f16", "matmul:M=1024,N=1024,K=1024"})
    EXPECT_FALSE(uses_groups(default_schedule(dag_of(spec), h200()).value())) << spec;
}

// Products of numbers that tf32 holds are exact.
TEST(GpuGroup, SinglesWhereTf32IsAllowed) {
  const target::Target fast = target::allow_fast_math(h200(), "tf32").value();
  for (const char* spec : {"dense:M=70,N=96,K=100", "matmul:M=130,N=40,K=68,TB=1",
                           "conv2d:N=1,H=3,W=50,CI=32,CO=40,KH=3,KW=3,P=1,algo=direct"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, fast).value();
    Rng rng(5);
    std::vector<HostTensor> inputs;
    for (const te::Input& in : dag.inputs) {
      inputs.push_back(random_tensor(in.buffer->dtype, in.buffer->shape, rng));
      for (std::int64_t i = 0; i < inputs.back().size(); ++i)
        inputs.back().set_float(i, std::round(inputs.back().get_float(i) * 64) / 64);
    }
    int seen = 0;
    for (int i = 0; i < 200 && seen < 2; ++i) {
      const schedule::Schedule schedule = space.schedule(space.sample(rng)).value();
      if (!uses_groups(schedule)) continue;
      ++seen;
      const auto lowered = lower::lower(dag, schedule, fast);
      ASSERT_TRUE(lowered.ok()) << lowered.error().message << "\n" << schedule::to_text(schedule);
      EXPECT_EQ(lower::run_threads(dag, lowered->program, inputs, 1e-5, lowered->param_layouts), "")
          << schedule::to_text(schedule);
    }
    EXPECT_EQ(seen, 2);
  }
}

TEST(GpuGroup, DefaultsOfOtherTypesTakeGroupsToo) {
  const target::Target fast = target::allow_fast_math(h200(), "tf32").value();
  const auto large = default_schedule(dag_of("dense:M=2048,N=3072,K=768"), fast);
  EXPECT_TRUE(uses_groups(large.value())) << schedule::to_text(large.value());
  const auto bytes = default_schedule(dag_of("dense:M=4096,N=4096,K=4096,dtype=i8"), h200());
  EXPECT_TRUE(uses_groups(bytes.value())) << schedule::to_text(bytes.value());
}

TEST(GpuGroup, TilesFitTheDevice) {
  const TensorProblem large{.row = 4096, .column = 4096, .reduce = 4096, .depth = 64};
  const GroupTile tile = choose_group_tile(h200(), large);
  EXPECT_EQ(refuse_group_tile(h200(), large, tile), nullptr);
  EXPECT_GE(tile.rows() * tile.all_columns(), 128 * 128);
  const auto refused = [&](const GroupTile& t, const TensorProblem& p) {
    return std::string(refuse_group_tile(h200(), p, t));
  };
  EXPECT_EQ(refused({.row_tiles = 2, .columns = 256}, large), "more sums than registers");
  EXPECT_EQ(refused({.row_groups = 2, .columns = 256, .pipeline_stages = 6}, large),
            "more than the shared memory of a block");
  EXPECT_EQ(refused({.row_groups = 8, .column_groups = 2}, large), "more threads than a block has");
  EXPECT_EQ(refused({.column_groups = 2, .columns = 96}, large),
            "groups do not begin with a row of copies");
  EXPECT_EQ(refused({.row_groups = 2}, {.row = 64, .column = 64}), "more than the axis has");
  // Few outputs of long sums: parts of them keep the multiprocessors busy.
  const TensorProblem deep{.row = 128, .column = 768, .reduce = 3072, .depth = 64};
  const GroupTile cut = choose_group_tile(h200(), deep);
  EXPECT_GT(cut.split_k, 1);
  EXPECT_GE(128 * 768 / (cut.rows() * cut.all_columns()) * cut.split_k, h200().cores / 2);
  EXPECT_EQ(refused({.split_k = 5}, deep), "parts of the sum are not whole steps");
}

}  // namespace
}  // namespace tessera::space

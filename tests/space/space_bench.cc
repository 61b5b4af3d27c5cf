// Time of a whole candidate: drawn in one pass, or decision by decision with every legal value.
#include <benchmark/benchmark.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/decide/walk.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::space {
namespace {

constexpr const char* kSpecs[] = {
    "matmul:M=1024,N=1024,K=1024",
    "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1",
    "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1,algo=winograd4",
    "depthwise:N=1,H=56,W=56,C=144,KH=3,KW=3,P=1",
    "softmax:R=1536,C=128",
};

Space space_of(const char* spec) {
  const te::Dag dag = te::make_dag(te::parse_op_spec(spec).value()).value();
  return make_space(dag, target::code_target(target::find_target("neoverse-v1").value(), 16))
      .value();
}

void BM_Sample(benchmark::State& run, const char* spec) {
  const Space space = space_of(spec);
  Rng rng(1);
  for (auto _ : run) benchmark::DoNotOptimize(space.sample(rng));
  run.SetItemsProcessed(run.iterations());
}

void BM_Walk(benchmark::State& run, const char* spec) {
  const Space space = space_of(spec);
  Rng rng(1);
  std::size_t sketch = 0;
  for (auto _ : run) {
    decide::Walk walk(*space.sketches()[sketch++ % space.sketches().size()]);
    while (!walk.done()) {
      const auto& legal = walk.legal();
      walk.take(legal[static_cast<std::size_t>(rng.below(std::ssize(legal)))]);
    }
    benchmark::DoNotOptimize(walk.choice());
  }
  run.SetItemsProcessed(run.iterations());
}

const bool kRegistered = [] {
  for (const char* spec : kSpecs) {
    benchmark::RegisterBenchmark((std::string("sample/") + spec).c_str(), BM_Sample, spec);
    benchmark::RegisterBenchmark((std::string("walk/") + spec).c_str(), BM_Walk, spec);
  }
  return true;
}();

}  // namespace
}  // namespace tessera::space

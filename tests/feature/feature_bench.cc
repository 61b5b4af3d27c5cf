// Time of what a policy does to a candidate before a model sees it.
#include <benchmark/benchmark.h>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::feature {
namespace {

struct Workload {
  const char* name;
  const char* spec;
  bool epilogue = false;  // bias and relu follow
};

constexpr Workload kWorkloads[] = {
    {"matmul", "matmul:M=1024,N=1024,K=1024"},
    {"conv", "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1", true},
    {"winograd", "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1,algo=winograd4", true},
    {"softmax", "softmax:R=64,C=1000"},
};

struct Prepared {
  te::Dag dag;
  std::unique_ptr<space::Space> space;
  std::vector<decide::Candidate> candidates;
  std::vector<schedule::Schedule> schedules;
  std::vector<schedule::State> states;
};

te::Dag with_bias_relu(te::Dag dag) {
  const ir::Buffer y = dag.outputs[0];
  const ir::Buffer bias = ir::Buffer::make("bias", y->dtype, {y->shape.back()});
  dag.inputs.push_back({.buffer = bias, .constant = true});
  te::Indices index;
  te::Op op{.name = "relu"};
  for (std::size_t d = 0; d < y->shape.size(); ++d) {
    op.axes.push_back({ir::Var::make(fmt::format("z{}", d)), y->shape[d]});
    index.push_back(op.axes.back().var);
  }
  op.values = {ir::max(te::at(y, index) + te::at(bias, {index.back()}), ir::imm(y->dtype, 0))};
  op.outputs = {ir::Buffer::make("relu", y->dtype, y->shape)};
  dag.outputs = op.outputs;
  dag.ops.push_back(std::move(op));
  return dag;
}

Prepared prepare(const Workload& w) {
  Prepared p;
  const auto spec = te::parse_op_spec(w.spec);
  TESSERA_CHECK(spec.ok(), "{}", spec.error().message);
  p.dag = te::make_dag(*spec).value();
  if (w.epilogue) p.dag = with_bias_relu(p.dag);
  p.space = std::make_unique<space::Space>(space::make_space(p.dag, target::host()).value());
  Rng rng(1);
  for (int i = 0; i < 200; ++i) {
    const decide::Candidate candidate = p.space->sample(rng);
    auto schedule = p.space->schedule(candidate);
    if (!schedule.ok()) continue;
    auto state = schedule::apply(p.space->dag(), *schedule);
    if (!state.ok()) continue;
    p.candidates.push_back(candidate);
    p.schedules.push_back(*schedule);
    p.states.push_back(*state);
  }
  return p;
}

void BM_Mutate(benchmark::State& run, const Workload& w) {
  const Prepared p = prepare(w);
  Rng rng(2);
  std::size_t i = 0;
  for (auto _ : run)
    benchmark::DoNotOptimize(p.space->mutate(p.candidates[i++ % p.candidates.size()], rng));
}

void BM_Write(benchmark::State& run, const Workload& w) {
  const Prepared p = prepare(w);
  std::size_t i = 0;
  for (auto _ : run)
    benchmark::DoNotOptimize(p.space->schedule(p.candidates[i++ % p.candidates.size()]));
}

void BM_Apply(benchmark::State& run, const Workload& w) {
  const Prepared p = prepare(w);
  std::size_t i = 0, steps = 0;
  for (auto _ : run) {
    const schedule::Schedule& s = p.schedules[i++ % p.schedules.size()];
    steps += s.steps.size();
    benchmark::DoNotOptimize(schedule::apply(p.space->dag(), s));
  }
  run.counters["steps"] = static_cast<double>(steps) / static_cast<double>(i);
}

template <FeatureKind kKind>
void BM_Extract(benchmark::State& run, const Workload& w) {
  const Prepared p = prepare(w);
  Extractor extractor(target::host());
  extractor.remember(p.space->dag());
  std::vector<float> rows;
  std::size_t i = 0, values = 0;
  for (auto _ : run) {
    rows.clear();
    TESSERA_CHECK(extractor.extract(p.states[i++ % p.states.size()], kKind, &rows).ok(), "extract");
    values += rows.size();
  }
  run.counters["rows"] =
      static_cast<double>(values / feature_names(kKind).size()) / static_cast<double>(i);
}

const bool kRegistered = [] {
  for (const Workload& w : kWorkloads) {
    const std::string name = w.name;
    const auto add = [&](const char* what, void (*fn)(benchmark::State&, const Workload&)) {
      benchmark::RegisterBenchmark((std::string(what) + "/" + name).c_str(),
                                   [fn, &w](benchmark::State& run) { fn(run, w); })
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.2);
    };
    add("mutate", BM_Mutate);
    add("write", BM_Write);
    add("apply", BM_Apply);
    add("statement", BM_Extract<FeatureKind::kStatement>);
    add("loop", BM_Extract<FeatureKind::kLoop>);
    add("curve", BM_Extract<FeatureKind::kCurve>);
  }
  return true;
}();

}  // namespace
}  // namespace tessera::feature

#include "dataset_case.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/hash.h"

namespace tessera::dataset {

std::string test_folder(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(::testing::TempDir()) /
                      fmt::format("dataset_{}_{}", test->test_suite_name(), test->name()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder.parent_path());
  return folder.string();
}

Dataset small_dataset(std::size_t per_task) {
  const target::Target target = target::find_target("neoverse-v1").value();
  Dataset d;
  d.machines.push_back({target::to_text(target), 1});
  for (const char* spec :
       {"matmul:M=64,N=96,K=128", "conv2d:N=1,H=28,W=28,CI=32,CO=64,KH=3,KW=3,P=1",
        "softmax:R=64,C=128"}) {
    const te::Dag dag = te::make_dag(te::parse_op_spec(spec).value()).value();
    const space::Space space = space::make_space(dag, target).value();
    TaskInfo task;
    task.definition = te::to_text(dag);
    task.key = to_hex(hash_bytes(task.definition));
    task.name = dag.name;
    task.format = "tessera";
    task.flops = te::flop_count(dag);
    d.tasks.push_back(task);
    Rng rng(7);
    std::set<std::string> seen;
    for (int tries = 0; seen.size() < per_task && tries < 10000; ++tries) {
      const decide::Candidate candidate = space.sample(rng);
      if (!seen.insert(space.to_text(candidate)).second) continue;
      Example e;
      e.task = static_cast<std::int32_t>(d.tasks.size()) - 1;
      e.candidate = space.to_text(candidate);
      e.schedule = schedule::to_text(space.schedule(candidate).value());
      e.quiet = seen.size() % 2 == 0;
      e.outcome = seen.size() % 8 == 0 ? "run_error" : "ok";
      e.seconds = e.outcome == "ok" ? static_cast<float>(1e-5 * (1 + rng.uniform())) : 0.f;
      d.examples.push_back(std::move(e));
    }
  }
  d.networks.push_back({"resnet50", {{d.tasks[0].key, 2}, {d.tasks[1].key, 5}}});
  d.networks.push_back({"tiny", {{d.tasks[2].key, 1}, {d.tasks[0].key, 1}, {"absent", 3}}});
  return d;
}

Dataset plain_dataset(std::size_t tasks, std::size_t per_task) {
  Dataset d;
  d.machines.push_back({"somewhere", 1});
  for (std::size_t t = 0; t < tasks; ++t) {
    d.tasks.push_back({fmt::format("key{:03}", t), fmt::format("task {}", t), "ansor", "", 1, 1});
    for (std::size_t i = 0; i < per_task; ++i) {
      d.examples.push_back({static_cast<std::int32_t>(t), 0, fmt::format("[{}]", i),
                            static_cast<float>(i + 1), "ok", "", false});
    }
  }
  for (std::size_t t = 0; t + 1 < tasks; ++t) {
    d.networks.push_back({fmt::format("n{}", t), {{d.tasks[t].key, 1}, {d.tasks[t + 1].key, 2}}});
  }
  return d;
}

}  // namespace tessera::dataset

// tessera tasks, tessera show MODEL, tessera bench MODEL.
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/model_files.h"
#include "tests/cli/process.h"
#include "tests/testing/testing.h"

namespace tessera::cli {
namespace {

using nlohmann::json;
using tessera::testing::expect_golden;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Keys name tasks in records that outlive the program: they change only on purpose.
TEST(Tasks, KeysOfMlpAndLenet) {
  for (const char* name : {"mlp", "lenet"}) {
    const Finished result =
        run({"tasks", std::string("zoo:") + name, "--no-space", "--target", "x86-64-v3"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    expect_golden(std::string("cli/tasks_") + name + ".txt", result.out);
  }
}

TEST(Tasks, JsonHasTheSameTasks) {
  const Finished result = run({"tasks", "zoo:lenet", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report.at("model"), "zoo:lenet");
  const std::string text = run({"tasks", "zoo:lenet"}).out;
  EXPECT_GE(report.at("tasks").size(), 4u);
  for (const json& task : report.at("tasks")) {
    EXPECT_TRUE(contains(text, task.at("key").get<std::string>())) << task;
    EXPECT_GT(task.at("flops").get<double>(), 0);
    EXPECT_GT(task.at("bytes").get<double>(), 0);
    EXPECT_GE(task.at("weight").get<int>(), 1);
    EXPECT_GE(task.at("space").get<double>(), 1);
  }
}

TEST(Tasks, EqualKernelsAreOneTaskWithTheirNumberAsWeight) {
  const Finished result = run({"tasks", "zoo:mlp@inputs=64,hidden=64,layers=3", "--json"});
  const json tasks = json::parse(result.out).at("tasks");
  ASSERT_EQ(tasks.size(), 2u) << result.out;
  EXPECT_EQ(tasks.at(0).at("weight"), 3);
  EXPECT_EQ(tasks.at(1).at("weight"), 1);
}

TEST(Tasks, WithoutFusionEveryNodeIsATask) {
  const json fused = json::parse(run({"tasks", "zoo:mlp", "--json"}).out);
  const json plain = json::parse(run({"tasks", "zoo:mlp", "--json", "--no-fuse"}).out);
  EXPECT_GT(plain.at("tasks").size(), fused.at("tasks").size());
  for (const json& task : plain.at("tasks")) {
    EXPECT_FALSE(contains(task.at("name"), "+")) << task;
  }
}

TEST(Tasks, ShowPrintsTheExpression) {
  const json tasks = json::parse(run({"tasks", "zoo:mlp", "--json"}).out).at("tasks");
  const Finished result = run({"tasks", "zoo:mlp", "--show", tasks.at(0).at("key")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("dag ", 0), 0u) << result.out;
  EXPECT_TRUE(contains(result.out, "sum(")) << result.out;
  const Finished unknown = run({"tasks", "zoo:mlp", "--show", "0123456789abcdef"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "no task 0123456789abcdef")) << unknown.err;
}

TEST(ShowGraph, TypesFollowTheGivenSizes) {
  const Finished result = run({"show", save("m.onnx", symbolic_model()), "--stage", "graph",
                               "--dim", "N=3", "--dim", "C=5"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "graph g {\n  input %x : f32[3,5,4]\n  %y = max(%x, 0) : f32[3,5,4]\n"
            "  output y = %y\n}\n");
}

TEST(ShowGraph, AfterEachPassThatIsAskedFor) {
  const Finished one = run({"show", "zoo:lenet", "--stage", "graph", "--print-after=fold_scales"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out.rfind("// after fold_scales\ngraph lenet {\n", 0), 0u) << one.out;
  const Finished all = run({"show", "zoo:lenet", "--stage", "graph", "--print-after=all"});
  EXPECT_TRUE(contains(all.out, one.out.substr(0, one.out.find("}\n")))) << all.out;
  EXPECT_TRUE(contains(all.out, "// after remove_dead\n"));
}

TEST(ShowGraph, UnknownPassesAreRefusedWithTheList) {
  for (const char* flag : {"--print-after", "--skip", "--stop-after", "--skip-pass"}) {
    SCOPED_TRACE(flag);
    const Finished result = run({"show", "zoo:mlp", "--stage", "graph", flag, "fold_scale"});
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_TRUE(contains(result.err, "fold_scale")) << result.err;
    EXPECT_TRUE(contains(result.err, "select_algorithms")) << result.err;
  }
}

TEST(ShowGraph, SkippedPassesLeaveTheirWorkUndone) {
  const std::string layout = run({"show", "zoo:lenet", "--stage", "graph"}).out;
  const std::string plain =
      run({"show", "zoo:lenet", "--stage", "graph", "--skip", "channels_last,select_algorithms"})
          .out;
  EXPECT_TRUE(contains(layout, "layout=nhwc")) << layout;
  EXPECT_FALSE(contains(plain, "layout=nhwc")) << plain;
  EXPECT_EQ(plain, run({"show", "zoo:lenet", "--stage", "graph", "--skip-pass", "channels_last",
                        "--skip-pass", "select_algorithms"})
                       .out);
}

TEST(ShowGraph, PassTimesGoToStderr) {
  const Finished result = run({"show", "zoo:mlp", "--stage", "graph", "--time-passes"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.err, " ms  fold_scales")) << result.err;
  EXPECT_EQ(result.out, run({"show", "zoo:mlp", "--stage", "graph"}).out);
}

TEST(ShowGraph, AModelHasNoOtherStage) {
  for (const char* stage : {"te", "ir", "asm"}) {
    const Finished result = run({"show", "zoo:mlp", "--stage", stage});
    EXPECT_EQ(result.code, 2);
    EXPECT_TRUE(contains(result.err, "its kernels: --task KEY")) << result.err;
  }
  const Finished both = run({"show", "zoo:mlp", "--op", "matmul:M=4,N=4,K=4"});
  EXPECT_EQ(both.code, 2);
}

TEST(ShowTask, StagesOfOneKernelOfAModel) {
  const json tasks = json::parse(run({"tasks", "zoo:mlp", "--json"}).out).at("tasks");
  const std::string key = tasks.at(0).at("key");
  const auto show = [&](const char* stage) {
    return run({"show", "zoo:mlp", "--task", key, "--stage", stage});
  };
  EXPECT_EQ(show("te").out, run({"tasks", "zoo:mlp", "--show", key}).out);
  EXPECT_TRUE(contains(show("schedule").out, "vectorize")) << show("schedule").err;
  EXPECT_TRUE(contains(show("ir").out, "func ")) << show("ir").err;
  EXPECT_TRUE(contains(show("graph").err, "--stage graph needs a model, not a task of it"));
  const Finished unknown = run({"show", "zoo:mlp", "--task", "0123456789abcdef"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "no task 0123456789abcdef")) << unknown.err;
  EXPECT_EQ(run({"show", "--op", "matmul:M=4,N=4,K=4", "--task", key}).code, 2);
}

TEST(ShowLayouts, KernelsByLayoutAsTextAndAsAPicture) {
  const Finished rules = run({"show", "zoo:lenet", "--stage", "layouts"});
  EXPECT_EQ(rules.code, 0) << rules.err;
  EXPECT_TRUE(contains(rules.out, "channels last ")) << rules.out;
  EXPECT_FALSE(contains(rules.out, "channels first")) << rules.out;
  const Finished shown = run({"targets", "--json"});
  const std::string plan =
      write_file("first.plan", json{{"format", "tessera plan"},
                                    {"version", 2},
                                    {"model", "zoo:lenet"},
                                    {"target", json::parse(shown.out)[0]["text"]},
                                    {"threads", 1},
                                    {"decisions", {{"layouts", "first"}}},
                                    {"tasks", json::object()}}
                                   .dump());
  const Finished both = run({"show", "zoo:lenet", "--stage", "layouts", "--plan", plan});
  EXPECT_TRUE(contains(both.out, "channels first")) << both.out << both.err;
  const std::string svg = plan + ".svg";
  EXPECT_EQ(run({"show", "zoo:lenet", "--stage", "layouts", "--plan", plan, "-o", svg}).code, 0);
  std::ifstream file(svg);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text.find("<svg "), 0u);
  EXPECT_TRUE(contains(text, "zoo:lenet, by rules"));
  EXPECT_TRUE(contains(text, "conv+add+tanh"));
  EXPECT_EQ(run({"show", "--op", "matmul:M=4,N=4,K=4", "--stage", "layouts"}).code, 2);
  EXPECT_NE(run({"show", "zoo:lenet", "--stage", "layouts", "--plan", svg}).code, 0);
}

json bench_json(const std::vector<std::string>& args) {
  std::vector<std::string> all = quick_bench(args);
  all.push_back("--json");
  const Finished result = run(all);
  EXPECT_EQ(result.code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

TEST(BenchModel, JsonHasEveryKeyOfTheContract) {
  const json all = bench_json({"zoo:mlp", "--threads", "2", "--profile"});
  ASSERT_EQ(all.at("results").size(), 1u);
  const json& r = all.at("results").at(0);
  EXPECT_EQ(r.at("name"), "zoo:mlp");
  EXPECT_EQ(r.at("threads"), 2);
  for (const char* key : {"median_us", "gflops", "fraction_of_peak", "build_ms", "kernels_us"}) {
    ASSERT_TRUE(r.at(key).is_number()) << key;
    EXPECT_GT(r.at(key).get<double>(), 0) << key;
  }
  EXPECT_EQ(r.at("verified"), true);
  EXPECT_NE(r.at("verified_by"), "");
  EXPECT_EQ(r.at("peers"), json::array());
  EXPECT_EQ(r.at("kernels"), 3);
  ASSERT_EQ(r.at("profile").size(), r.at("steps").get<std::size_t>());
  double sum = 0;
  for (const json& step : r.at("profile")) {
    EXPECT_NE(step.at("node"), "") << step;
    sum += step.at("us").get<double>();
    double parts = 0;
    for (const char* part :
         {"arithmetic_us", "waiting_us", "memory_us", "cold_us", "other_instructions_us"}) {
      EXPECT_GE(step.at("breakdown").at(part).get<double>(), 0) << step;
      parts += step.at("breakdown").at(part).get<double>();
    }
    EXPECT_NEAR(parts, step.at("us").get<double>(), 1e-6 * parts) << step;
    EXPECT_NE(step.at("breakdown").at("limit"), "") << step;
  }
  EXPECT_GT(r.at("breakdown").at("arithmetic_us").get<double>(), 0);
  EXPECT_NEAR(r.at("kernels_us").get<double>(), sum, 1e-6 * sum);
}

TEST(BenchModel, WithoutAnInterpreterPeersFromPythonAreAbsent) {
  const Finished r = run_shell(
      "TESSERA_PEERS_PYTHON=/no/such/python3 tessera bench zoo:mlp --peers openvino,torch_compile "
      "--samples 1 --time-limit 0.01");
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string why = "absent: /no/such/python3: its program cannot be started";
  EXPECT_TRUE(contains(r.out, "openvino      " + why)) << r.out;
  EXPECT_TRUE(contains(r.out, "torch_compile " + why)) << r.out;
  EXPECT_TRUE(contains(r.out, "checked by every node alone")) << r.out;
}

// Those that `./do peers` installed, or TESSERA_PEERS_PYTHON has.
TEST(BenchModel, PeersFromPythonComputeTheSame) {
  const json all = bench_json({"zoo:lenet", "--peers", "openvino,torch,iree,litert,xla"});
  int compared = 0;
  for (const json& peer : all.at("results").at(0).at("peers")) {
    if (peer.contains("absent")) {
      EXPECT_FALSE(peer.at("absent").get<std::string>().empty());
      continue;
    }
    ++compared;
    EXPECT_TRUE(peer.at("verified")) << peer;
    EXPECT_GT(peer.at("median_us"), 0) << peer;
  }
  if (compared == 0) GTEST_SKIP() << "no peer that runs from Python is installed";
  EXPECT_TRUE(all.at("results").at(0).contains("best_peer"));
}

TEST(BenchModel, PeersAreMeasuredOrAbsentWithAReason) {
  const json all = bench_json({"zoo:mlp", "--peers", "ort,openblas"});
  const json& peers = all.at("results").at(0).at("peers");
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers.at(0).at("name"), "ort");
  if (peers.at(0).contains("absent")) {
    EXPECT_NE(peers.at(0).at("absent"), "");
    EXPECT_FALSE(peers.at(0).contains("median_us"));
  } else {
    EXPECT_TRUE(peers.at(0).at("median_us").is_number());
    EXPECT_TRUE(peers.at(0).at("ratio").is_number());
  }
  EXPECT_EQ(peers.at(1).at("name"), "openblas");  // multiplies matrices, runs no models
  EXPECT_NE(peers.at(1).at("absent"), "");
}

TEST(BenchModel, TextSaysVerifiedAndByWhom) {
  const Finished result = run(quick_bench({"zoo:mlp@hidden=16"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "  verified  zoo:mlp@hidden=16")) << result.out;
  EXPECT_TRUE(contains(result.out, "verified")) << result.out;
  EXPECT_TRUE(contains(result.out, "checked by")) << result.out;
}

TEST(BenchModel, FilesAndGivenSizes) {
  const json all = bench_json({save("m.onnx", symbolic_model()), "--shape", "x:2x8x4"});
  EXPECT_EQ(all.at("results").at(0).at("verified"), true);
}

TEST(BenchModel, QuantizedAndHalfPrecisionNetworks) {
  for (const char* name : {"zoo:mlp@quant=dynamic", "zoo:mlp@dtype=f16"}) {
    EXPECT_EQ(bench_json({name}).at("results").at(0).at("verified"), true) << name;
  }
}

TEST(BenchModel, InputsThatTheModelDoesNotHave) {
  const std::string inputs =
      save_arrays("x.npz", {{"imput", onnx::testing::float_tensor({1, 784}, {})}});
  const Finished result = run(quick_bench({"zoo:mlp", "--inputs", inputs}));
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_TRUE(contains(result.err, "no input 'imput'")) << result.err;
}

// No sample may keep the program: it is killed while it measures, or builds.
TEST(BenchModel, CtrlCEndsALongMeasurementAtOnce) {
  const Finished result = run_shell(
      "timeout --preserve-status --signal=INT --kill-after=20 2 "
      "tessera bench zoo:mlp@hidden=2048 --samples 10000 --time-limit 600");
  EXPECT_TRUE(result.signal == SIGINT || result.code == 128 + SIGINT)
      << result.code << " " << result.signal << " " << result.err;
  EXPECT_FALSE(contains(result.err, "internal error")) << result.err;
}

}  // namespace
}  // namespace tessera::cli

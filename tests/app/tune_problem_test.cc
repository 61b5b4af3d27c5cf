// Which tasks and choices a tuning works on.
#include "tessera/app/tune/tune_problem.h"

#include <numeric>

#include <gtest/gtest.h>

#include "tessera/frontend/plan/rules.h"

namespace tessera::app {
namespace {

TuneProblem problem(const std::vector<TuneSubject>& subjects) {
  Result<TuneProblem> made = make_tune_problem(subjects, {});
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return made.ok() ? std::move(made).value() : TuneProblem{};
}

int calls(const std::vector<TaskUse>& uses) {
  return std::accumulate(uses.begin(), uses.end(), 0,
                         [](int sum, const TaskUse& use) { return sum + use.count; });
}

TEST(TuneProblem, ConvolutionsOfANetworkHaveAChoiceOfAlgorithms) {
  const TuneProblem p = problem({{"zoo:squeezenet1_1", false, {}}});
  const Result<graph::Graph> graph = load_graph("zoo:squeezenet1_1", CompileOptions{});
  ASSERT_TRUE(graph.ok());
  const Result<task::TaskGraph> untuned = task::extract_tasks(*graph);
  ASSERT_TRUE(untuned.ok());
  ASSERT_FALSE(p.points.empty());
  int preferred = calls(p.base);
  for (const TunePoint& c : p.points) {
    ASSERT_EQ(c.values(), 4) << c.point.name;
    preferred += calls(c.preferred());
    for (std::int32_t v = 0; v < c.values(); ++v) {
      // Every algorithm computes the same convolutions.
      EXPECT_EQ(calls(c.of(v)), calls(c.of(0))) << c.point.name << " " << c.point.label(v);
      for (const TaskUse& use : c.of(v)) EXPECT_EQ(p.tasks[use.task].algorithm, c.point.label(v));
    }
  }
  EXPECT_EQ(preferred, static_cast<int>(untuned->calls.size()));
  for (const task::Task& t : untuned->tasks) {
    EXPECT_TRUE(std::any_of(p.tasks.begin(), p.tasks.end(), [&](const TuneTask& other) {
      return other.task.key == t.key;
    })) << t.name;
  }
}

// Two models that share all convolutions, and the time for `values` values of them.
TuneProblem hurried(int values) {
  const std::vector<TuneSubject> two(2, {"zoo:squeezenet1_1", false, {}});
  int asked = 0;
  Result<TuneProblem> made = make_tune_problem(two, {}, [&] { return asked++ >= values; });
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return made.ok() ? std::move(made).value() : TuneProblem{};
}

TEST(TuneProblem, WithoutTimeForOtherAlgorithmsTheRulesDecide) {
  const Result<graph::Graph> graph = load_graph("zoo:squeezenet1_1", CompileOptions{});
  const Result<task::TaskGraph> untuned = task::extract_tasks(*graph);
  ASSERT_TRUE(untuned.ok());
  const TuneProblem p = hurried(0);
  EXPECT_EQ(p.left_out,
            (std::vector<std::string>{"direct", "winograd2", "winograd4", "winograd6"}));
  EXPECT_TRUE(p.points.empty());
  EXPECT_EQ(p.tasks.size(), untuned->tasks.size());
  EXPECT_EQ(calls(p.base), 2 * static_cast<int>(untuned->calls.size()));
  for (const TuneTask& t : p.tasks) EXPECT_EQ(t.algorithm, "") << t.task.name;
}

TEST(TuneProblem, AlgorithmsThatThereWasTimeForAreComparedWithThoseOfTheRules) {
  const Result<graph::Graph> graph = load_graph("zoo:squeezenet1_1", CompileOptions{});
  const Result<task::TaskGraph> untuned = task::extract_tasks(*graph);
  ASSERT_TRUE(untuned.ok());
  std::size_t preferred_late = 0;
  for (const int values : {1, 2, 3}) {
    const TuneProblem p = hurried(values);
    EXPECT_EQ(p.left_out.size(), 4u - static_cast<std::size_t>(values));
    ASSERT_FALSE(p.points.empty());
    int sum = calls(p.base);
    for (const TunePoint& c : p.points) {
      ASSERT_GE(c.values(), 2) << c.point.name;
      preferred_late += c.point.preferred >= values ? 1 : 0;
      sum += calls(c.preferred());
      for (std::int32_t v = 0; v < c.values(); ++v) {
        EXPECT_EQ(calls(c.of(v)), calls(c.preferred())) << c.point.name << " " << c.point.label(v);
        for (const TaskUse& use : c.of(v)) EXPECT_EQ(p.tasks[use.task].algorithm, c.point.label(v));
      }
    }
    EXPECT_EQ(sum, 2 * static_cast<int>(untuned->calls.size()));
  }
  EXPECT_GT(preferred_late, 0u) << "no rule decides for an algorithm whose turn did not come";
}

TEST(TuneProblem, TasksOfEqualKeyAreSharedByModels) {
  const TuneProblem one = problem({{"zoo:mlp", false, {}}});
  const TuneProblem two = problem({{"zoo:mlp", false, {}}, {"zoo:mlp", false, {}}});
  EXPECT_EQ(one.tasks.size(), two.tasks.size());
  EXPECT_EQ(2 * calls(one.base), calls(two.base));
}

TEST(ParseOp, ConvolutionsAreComputedAsInAModel) {
  const plan::Rules rules = plan::rules_for(target::host());
  const auto algorithm = [&](const char* text) {
    return parse_op(text, rules).value().words.at("algo");
  };
  const std::string wide = "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1";
  EXPECT_EQ(algorithm(wide.c_str()), "winograd4");
  for (const char* more : {",algo=direct", ",S=2", ",dtype=f16", ",layout=nchw", ",G=2", ",D=2"}) {
    EXPECT_EQ(algorithm((wide + more).c_str()), "direct") << more;
  }
  EXPECT_EQ(algorithm((wide + ",algo=winograd2").c_str()), "winograd2");
  EXPECT_EQ(algorithm("conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=1,KW=1"), "direct");
  EXPECT_EQ(algorithm("conv2d:N=1,H=56,W=56,CI=8,CO=64,KH=3,KW=3,P=1"), "direct");
  EXPECT_EQ(algorithm("conv2d:N=1,H=5,W=5,CI=64,CO=64,KH=3,KW=3,P=1"), "direct");
  EXPECT_EQ(algorithm("matmul:M=8,N=8,K=8"), "direct");
  EXPECT_EQ(algorithm("dense:M=8,N=8,K=8,dtype=f16"), "direct");
  EXPECT_EQ(algorithm("matmul:M=8,N=8,K=8,algo=bf16x6"), "bf16x6");
  EXPECT_FALSE(parse_op("conv2d:N=1", rules).ok());
}

TEST(TuneProblem, ProductsHaveNoChoiceOfAlgorithms) {
  const auto key = [](const char* op) {
    const TuneProblem p = problem({{op, true, {}}});
    EXPECT_TRUE(p.points.empty());
    return p.tasks.at(p.base.at(0).task).task.key;
  };
  EXPECT_NE(key("matmul:M=8,N=8,K=8"), key("matmul:M=8,N=8,K=8,algo=bf16x6"));
  EXPECT_NE(key("matmul:M=8,N=8,K=8"), key("matmul:M=8,N=8,K=8,dtype=f16"));
}

TEST(ParseOp, GpusTransformLargeMaps) {
  for (const char* name : {"h200", "t4", "opencl-1.2"}) {
    const plan::Rules rules = plan::rules_for(target::find_target(name).value());
    const auto algorithm = [&](int size, const char* more) {
      const std::string text =
          fmt::format("conv2d:N=1,H={0},W={0},CI=64,CO=64,KH=3,KW=3,P=1{1}", size, more);
      return parse_op(text, rules).value().words.at("algo");
    };
    EXPECT_EQ(algorithm(56, ""), "winograd4") << name;
    EXPECT_EQ(algorithm(28, ""), "winograd4") << name;
    EXPECT_EQ(algorithm(14, ""), "direct") << name;
    EXPECT_EQ(algorithm(7, ""), "direct") << name;
    EXPECT_EQ(algorithm(56, ",dtype=f16"), "direct") << name;
  }
}

TEST(TuneProblem, OperationsAreTasksOfTheirOwn) {
  const TuneProblem matmul = problem({{"matmul:M=8,N=8,K=8", true, {}}});
  EXPECT_EQ(matmul.tasks.size(), 1u);
  EXPECT_TRUE(matmul.points.empty());
  const TuneProblem conv = problem({{"conv2d:N=1,H=8,W=8,CI=4,CO=8,KH=3,KW=3,S=1,P=1", true, {}}});
  ASSERT_EQ(conv.points.size(), 1u);
  EXPECT_EQ(conv.points[0].values(), 4);
  EXPECT_EQ(conv.points[0].point.kind, plan::PointKind::kAlgorithm);
  EXPECT_EQ(conv.points[0].point.preferred, 0);
  // Of a stride of 2 there is no winograd.
  const TuneProblem strided =
      problem({{"conv2d:N=1,H=8,W=8,CI=4,CO=8,KH=3,KW=3,S=2,P=1", true, {}}});
  EXPECT_TRUE(strided.points.empty());
  EXPECT_EQ(calls(strided.base), 1);
}

TEST(TuneProblem, ErrorsNameTheSubject) {
  const Result<TuneProblem> made = make_tune_problem({{"zoo:nothing", false, {}}}, {});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("nothing"), std::string::npos);
  EXPECT_FALSE(make_tune_problem({{"matmul:M=0", true, {}}}, {}).ok());
}

}  // namespace
}  // namespace tessera::app

#include "tessera/learn/dataset/ansor_rows.h"

#include <map>

#include <gtest/gtest.h>

#include "tessera/learn/dataset/autotvm_rows.h"
#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/scheduling/feature/schema.h"
#include "tessera/scheduling/feature/step_rows.h"

namespace tessera::dataset {
namespace {

using feature::slog;
using Row = std::map<std::string, float>;

Row named(const std::vector<std::string>& names, const std::vector<float>& values, std::size_t at) {
  Row out;
  for (std::size_t i = 0; i < names.size(); ++i) out[names[i]] = values.at(at * names.size() + i);
  return out;
}

TEST(AnsorRows, HaveTheColumnsOfOurSteps) {
  std::vector<float> rows;
  std::size_t cut = 0;
  const auto count = append_ansor_rows(
      R"([["SP",2,4,1000,[8,1,25],1],["RE",2,[0,4,1]],["CA",2,4,3],["FSP",4,0,0,2],)"
      R"(["AN",4,0,3],["PR",2,0,"auto_unroll_max_step$64"],["CHR",1,"shared",[3]],["CR",4]])",
      &rows, &cut);
  ASSERT_TRUE(count.ok()) << count.error().message;
  EXPECT_EQ(*count, 8u);
  EXPECT_EQ(rows.size(), 8 * feature::step_names().size());
  const auto row = [&](std::size_t i) { return named(feature::step_names(), rows, i); };
  Row split = row(0);
  EXPECT_EQ(split["split"], 1);
  EXPECT_EQ(split["stage"], slog(2));
  EXPECT_EQ(split["iterator"], slog(4));
  EXPECT_EQ(split["extent"], slog(1000));
  EXPECT_EQ(split["argument_0"], slog(8));
  EXPECT_EQ(split["argument_2"], slog(25));
  EXPECT_EQ(split["arguments"], 3);
  EXPECT_EQ(row(1)["argument_1"], slog(4));
  EXPECT_EQ(row(2)["compute_at"], 1);
  EXPECT_EQ(row(2)["argument_0"], slog(4));
  EXPECT_EQ(row(2)["iterator"], slog(3));
  EXPECT_EQ(row(3)["follow_split"], 1);
  EXPECT_EQ(row(4)["is_parallel"], 1);
  EXPECT_EQ(row(5)["argument_0"], slog(64));
  EXPECT_EQ(row(6)["cache_read"], 1);
  EXPECT_EQ(row(6)["argument_0"], slog(3));
  EXPECT_FLOAT_EQ(row(7)["position"], 7.f / 8);
}

TEST(AnsorRows, RefusesWhatAreNoSteps) {
  std::vector<float> rows;
  std::size_t cut = 0;
  for (const char* text : {"", "{}", "[[]]", "[7]", R"([["XX",1]])", R"([["SP","a",1,2,[3],1]])"}) {
    EXPECT_FALSE(append_ansor_rows(text, &rows, &cut).ok()) << text;
    EXPECT_TRUE(rows.empty());
  }
  EXPECT_EQ(append_ansor_rows("[]", &rows, &cut).value(), 1u);
}

TEST(AnsorRows, LongListsAreCut) {
  std::string text = "[";
  for (std::size_t i = 0; i < feature::kMostStepRows + 3; ++i) text += R"(["CI",1],)";
  text.back() = ']';
  std::vector<float> rows;
  std::size_t cut = 0;
  EXPECT_EQ(append_ansor_rows(text, &rows, &cut).value(), feature::kMostStepRows);
  EXPECT_EQ(cut, 3u);
}

TEST(AutotvmRows, KnobsAreSteps) {
  std::vector<float> rows;
  std::size_t cut = 0;
  const auto count = append_autotvm_rows(
      R"({"index":7,"entity":[["tile_f","sp",[-1,3,7,4]],["order","re",[1,0]],)"
      R"(["ann","an",["unroll","vec"]],["max_step","ot",512],["explicit","ot",true]]})",
      &rows, &cut);
  ASSERT_TRUE(count.ok()) << count.error().message;
  EXPECT_EQ(*count, 6u);
  const auto row = [&](std::size_t i) { return named(feature::step_names(), rows, i); };
  EXPECT_EQ(row(0)["split"], 1);
  EXPECT_EQ(row(0)["argument_1"], slog(3));
  EXPECT_EQ(row(0)["arguments"], 4);
  EXPECT_EQ(row(1)["reorder"], 1);
  EXPECT_EQ(row(1)["iterator"], slog(1));
  EXPECT_EQ(row(2)["is_unroll"], 1);
  EXPECT_EQ(row(3)["is_vectorize"], 1);
  EXPECT_EQ(row(3)["iterator"], slog(2));
  EXPECT_EQ(row(4)["argument_0"], slog(512));
  EXPECT_EQ(row(5)["argument_0"], slog(1));
  EXPECT_EQ(append_autotvm_rows(R"({"i":0,"e":[]})", &rows, &cut).value(), 1u);
}

TEST(AutotvmRows, RefusesWhatIsNoConfig) {
  std::vector<float> rows;
  std::size_t cut = 0;
  for (const char* text : {"", "[]", "{}", R"({"entity":[7]})", R"({"entity":[["a","xx",1]]})",
                           R"({"entity":[["a","sp",["b"]]]})"}) {
    EXPECT_FALSE(append_autotvm_rows(text, &rows, &cut).ok()) << text;
    EXPECT_TRUE(rows.empty());
  }
}

TEST(AnsorRows, ContextReadsTheKeyAndTheHardware) {
  TaskInfo task;
  task.definition = R"(["08f7449d79e570b7", [1, 512], [1000, 512], [1, 1000]])";
  const MachineInfo machine{"llvm -keys=cpu -mtriple=x86_64-linux hw=24,64,64,0,0,0,0,0", 24};
  std::vector<float> values;
  append_ansor_context(task, machine, &values);
  const auto& names = context_names(feature::Rows::kStep);
  ASSERT_EQ(values.size(), names.size());
  Row row = named(names, values, 0);
  EXPECT_EQ(row["cores"], slog(24));
  EXPECT_EQ(row["vector_bytes"], slog(64));
  EXPECT_EQ(row["extent_0"], slog(1));
  EXPECT_EQ(row["extent_1"], slog(512));
  EXPECT_EQ(row["extent_2"], slog(1000));
  EXPECT_EQ(row["extent_6"], 0);
  std::vector<float> other;
  task.definition = R"(["08f7449d79e570b7", [2, 512]])";  // the same computation
  append_ansor_context(task, machine, &other);
  Row second = named(names, other, 0);
  for (std::size_t i = 0; i < kTaskBits; ++i) {
    const std::string name = fmt::format("task_bit_{}", i);
    EXPECT_EQ(row[name], second[name]);
    EXPECT_EQ(std::abs(row[name]), 1);
  }
}

}  // namespace
}  // namespace tessera::dataset

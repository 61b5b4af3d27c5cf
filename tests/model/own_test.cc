// Cost models of users: a program that speaks JSON, a shared library.
#include "tessera/learn/model/models/own.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/learn/model/row_schema.h"

namespace tessera::model {
namespace {

namespace fs = std::filesystem;

feature::FeatureSet some_rows(std::size_t candidates) {
  feature::FeatureSet set;
  set.columns = static_cast<std::size_t>(row_schema("statement").value().columns);
  for (std::size_t i = 0; i < candidates; ++i)
    set.add(std::vector<float>(set.columns * (1 + i % 3), static_cast<float>(i)));
  return set;
}

// A program that gives these answers, one a line, and then ends.
std::string answers(const std::string& name, const std::string& lines) {
  const std::string path = ::testing::TempDir() + "/own_" + name + ".txt";
  std::ofstream(path) << lines;
  return "exec:sh -c 'while read -r answer <&3; do read -r question; echo \"$answer\"; done' 3<" +
         path;
}

std::string failure_of(const std::string& name, const std::string& lines) {
  const auto model = load_model(answers(name, lines));
  if (!model.ok()) return model.error().message;
  for (const float s : (*model)->predict(some_rows(3))) EXPECT_TRUE(std::isnan(s)) << s;
  const std::string first = (*model)->last_error();
  // It is not asked again, and the reason stays.
  for (const float s : (*model)->predict(some_rows(2))) EXPECT_TRUE(std::isnan(s)) << s;
  EXPECT_EQ((*model)->last_error(), first);
  return first;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(OwnProgram, GivesScores) {
  const auto model =
      load_model(answers("scores", "{\"rows\": \"statement\"}\n{\"scores\": [1, 2.5, -3]}\n"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->needs(), (Needs{"statement", false, false}));
  EXPECT_EQ((*model)->predict(some_rows(3)), (std::vector<float>{1, 2.5, -3}));
  EXPECT_EQ((*model)->last_error(), "");
  EXPECT_TRUE((*model)->predict(some_rows(0)).empty());
  EXPECT_FALSE((*model)->fit({}, {}).ok());
  EXPECT_FALSE((*model)->save("x").ok());
}

TEST(OwnProgram, MayReadOtherRows) {
  const auto loops = load_model(answers("loops", "{\"rows\": \"loop\"}\n"));
  ASSERT_TRUE(loops.ok()) << loops.error().message;
  EXPECT_EQ((*loops)->needs().rows, "loop");
  EXPECT_TRUE(has(failure_of("rows", "{\"rows\": \"decisions\"}\n"), "\"decisions\""));
}

TEST(OwnProgram, SaysWhatItDidWrong) {
  const std::string start = "{}\n";
  EXPECT_TRUE(has(failure_of("start", "hello\n"), "answered 'hello'"));
  EXPECT_TRUE(has(failure_of("list", "[]\n"), "answered '[]'"));
  EXPECT_TRUE(has(failure_of("json", start + "{\"scores\": [1, 2\n"), "answered '{\"scores\""));
  EXPECT_TRUE(has(failure_of("none", start + "{}\n"), "scores"));
  EXPECT_TRUE(
      has(failure_of("few", start + "{\"scores\": [1, 2]}\n"), "2 scores for 3 candidates"));
  EXPECT_TRUE(has(failure_of("words", start + "{\"scores\": [1, 2, \"x\"]}\n"), "answered"));
  EXPECT_TRUE(has(failure_of("nan", start + "{\"scores\": [1, 2, NaN]}\n"), "answered"));
  EXPECT_TRUE(has(failure_of("null", start + "{\"scores\": [1, 2, null]}\n"), "answered"));
  EXPECT_TRUE(has(failure_of("huge", start + "{\"scores\": [1, 1e300, 2]}\n"),
                  "the score of candidate 2 of 3 is inf"));
  EXPECT_TRUE(has(failure_of("dies", start), "it ended"));
  EXPECT_TRUE(has(load_model("exec:/nowhere/x 2>/dev/null").error().message, "cannot be started"));
}

class OwnLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("cc --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no C compiler (cc)";
  }

  // Compiled from a file of C.
  static std::string built(const std::string& source) {
    const std::string library =
        ::testing::TempDir() + "/lib" + fs::path(source).stem().string() + ".so";
    const std::string command = "cc -shared -fPIC -Wall -Wextra -Werror -I " +
                                std::string(COST_MODEL_INCLUDE) + " " + source + " -o " + library;
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return "lib:" + library;
  }
  static std::string written(const std::string& name, const std::string& body) {
    const std::string path = ::testing::TempDir() + "/" + name + ".c";
    std::ofstream(path) << "#include <tessera/cost_model_abi.h>\n" << body;
    return built(path);
  }
};

TEST_F(OwnLibrary, TheExampleScores) {
  const auto model = load_model(built(std::string(EXAMPLES) + "/own/cost_model.c"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  // Rows of candidate i hold i in every column, and it has 1 + i % 3 of them.
  EXPECT_EQ((*model)->predict(some_rows(5)), (std::vector<float>{0, 2, 6, 3, 8}));
  EXPECT_EQ((*model)->last_error(), "");
}

TEST_F(OwnLibrary, SaysWhatItDidWrong) {
  EXPECT_TRUE(has(load_model("lib:./absent.so").error().message, "absent.so"));
  EXPECT_TRUE(has(load_model(written("plain", "int x;")).error().message,
                  "does not define tessera_cost_model_open"));
  const std::string open = "int32_t tessera_cost_model_open(tessera_cost_model* m)";
  EXPECT_TRUE(has(load_model(written("refuses", open + "{ (void)m; return 7; }")).error().message,
                  "returned 7"));
  EXPECT_TRUE(has(load_model(written("empty", open + "{ (void)m; return 0; }")).error().message,
                  "left `score` or `rows` null"));
  const std::string score =
      "static int32_t score(void* s, const tessera_candidates* c, float* out) "
      "{ (void)s; (void)c; (void)out; ";
  const std::string set = open + "{ m->score = score; ";
  EXPECT_TRUE(
      has(load_model(written("rows", score + "return 0; }" + set + "m->rows = \"x\"; return 0; }"))
              .error()
              .message,
          "\"x\""));
  const auto fails = load_model(written("fails", score + "return 3; }" + set + "return 0; }"));
  ASSERT_TRUE(fails.ok());
  EXPECT_TRUE(std::isnan((*fails)->predict(some_rows(1))[0]));
  EXPECT_TRUE(has((*fails)->last_error(), "failed with code 3"));
  const auto forgets =
      load_model(written("forgets", score + "out[0] = 1; return 0; }" + set + "return 0; }"));
  ASSERT_TRUE(forgets.ok());
  EXPECT_TRUE(std::isnan((*forgets)->predict(some_rows(2))[0]));
  EXPECT_TRUE(has((*forgets)->last_error(), "candidate 2 of 2 is nan"));
}

}  // namespace
}  // namespace tessera::model

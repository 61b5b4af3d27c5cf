// tessera.hpp over libtessera.so.
#include <array>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tessera/tessera.hpp>

#include "tests/capi/small_model.h"

namespace tessera::capi {
namespace {

tsr::Model compile_small(std::int64_t rows, tsr::CompileOptions options = {}) {
  const std::string bytes = small_model();
  options.dimensions["rows"] = rows;
  return tsr::Model::compile(bytes.data(), bytes.size(), options);
}

// The message and the code of what `function` throws.
template <typename Function>
std::string refused(int code, Function function) {
  try {
    function();
  } catch (const tsr::Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Cpp, TakesOtherFloats) {
  EXPECT_EQ(compile_small(2, {.target = "sapphirerapids", .dtype = "bf16"}).inputs()[0].dtype,
            "f32");
  const auto refusal = [] { compile_small(2, {.target = "haswell", .dtype = "bf16"}); };
  EXPECT_NE(refused(TSR_UNSUPPORTED, refusal).find("no instructions"), std::string::npos);
}

TEST(Cpp, TakesBatchesAndValuesOfInputs) {
  const std::string bytes = small_model();
  const auto compile = [&](const tsr::CompileOptions& options) {
    return tsr::Model::compile(bytes.data(), bytes.size(), options);
  };
  EXPECT_EQ(compile({.batch = 4}).inputs()[0].shape, (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(tsr::Model::compile("zoo:mlp", {.batch = 3}).inputs()[0].shape[0], 3);
  const tsr::Model fixed = compile({.values = {{"x", "[1,2,3]"}}, .batch = 1});
  EXPECT_TRUE(fixed.inputs().empty());
  std::array<float, 2> y{};
  fixed.session().run({}, {tsr::view(y)});
  EXPECT_EQ(y, (std::array<float, 2>{22, 28}));
  const auto wrong = [&] { compile({.dimensions = {{"rows", 1}}, .values = {{"z", "1"}}}); };
  EXPECT_NE(refused(TSR_INVALID_ARGUMENT, wrong).find("no input 'z'"), std::string::npos);
  refused(TSR_INVALID_ARGUMENT, [&] { compile({.batch = -1}); });
}

TEST(Cpp, RunsOnVectorsAndArrays) {
  const tsr::Model model = compile_small(2);
  ASSERT_EQ(model.inputs().size(), 1u);
  EXPECT_EQ(model.inputs()[0].name, "x");
  EXPECT_EQ(model.inputs()[0].dtype, "f32");
  EXPECT_EQ(model.outputs()[0].shape, (std::vector<std::int64_t>{2, 2}));
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::array<float, 4> y{};
  model.session().run({tsr::view(x)}, {tsr::view(y)});
  EXPECT_EQ(y, (std::array<float, 4>{22, 28, 49, 64}));
  EXPECT_FALSE(tsr::version().empty());
}

TEST(Cpp, ErrorsAreExceptionsWithACode) {
  EXPECT_NE(refused(TSR_IO, [] { tsr::Model::compile("/nonexistent.onnx"); }).find("nonexistent"),
            std::string::npos);
  refused(TSR_INVALID_ARGUMENT, [] { compile_small(2, {.target = "h300"}); });
  refused(TSR_IO, [] { tsr::Model::load("/nonexistent"); });
  tsr::Session session = compile_small(2).session(1);
  std::vector<float> x(6), y(4), more(5);
  EXPECT_EQ(refused(TSR_INVALID_ARGUMENT, [&] { session.run({tsr::view(more)}, {tsr::view(y)}); }),
            "x has 6 elements, 5 were given");
  refused(TSR_INVALID_ARGUMENT, [&] { session.run({tsr::view(x, {3, 2})}, {tsr::view(y)}); });
  refused(TSR_INVALID_ARGUMENT, [&] { session.run({}, {tsr::view(y)}); });
  std::vector<double> wide(6);
  refused(TSR_INVALID_ARGUMENT, [&] { session.run({tsr::view(wide)}, {tsr::view(y)}); });
}

TEST(Cpp, SessionsOutliveTheirModelAndRunAtTheSameTime) {
  std::vector<tsr::Session> sessions;
  {
    const tsr::Model model = compile_small(2, {.threads = 1});
    for (int i = 0; i < 3; ++i) sessions.push_back(model.session());
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(sessions.size(), 0);
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    threads.emplace_back([&, s] {
      const std::vector<float> x = {1, 2, 3, 4, 5, 6};
      for (int i = 0; i < 100; ++i) {
        std::vector<float> y(4);
        sessions[s].run({tsr::view(x)}, {tsr::view(y)});
        if (y != std::vector<float>{22, 28, 49, 64}) ++wrong[s];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, (std::vector<int>{0, 0, 0}));
}

TEST(Cpp, OutputsThatFollowFromData) {
  const std::string bytes = detector_model();
  const tsr::Model model =
      tsr::Model::compile(bytes.data(), bytes.size(), {.dimensions = {{"rows", 2}}});
  EXPECT_EQ(model.outputs()[0].shape, (std::vector<std::int64_t>{2, -1}));
  EXPECT_EQ(model.outputs()[1].bytes, -1);
  tsr::Session session = model.session();
  const std::vector<float> x = {-1, -2, -3, 4, 5, 6};
  session.run({tsr::view(x)});
  const tsr::Output scores = session.output(1);
  ASSERT_EQ(scores.shape(), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(std::vector<float>(scores.data<float>(), scores.data<float>() + scores.count()),
            (std::vector<float>{49, 64}));
  refused(TSR_INVALID_ARGUMENT, [&] { (void)scores.data<double>(); });
  refused(TSR_INVALID_ARGUMENT, [&] { (void)session.output(2); });
  std::vector<std::int64_t> found(4);
  std::vector<float> values(2);
  session.run({tsr::view(x)}, {tsr::view(found, {2, 2}), tsr::view(values, {2})});
  EXPECT_EQ(found, (std::vector<std::int64_t>{1, 1, 0, 1}));
  const auto shapeless = [&] {
    session.run({tsr::view(x)}, {tsr::view(found), tsr::view(values)});
  };
  EXPECT_NE(refused(TSR_INVALID_ARGUMENT, shapeless).find("give its shape"), std::string::npos);
}

TEST(Cpp, SavesAndLoads) {
  const std::string folder = ::testing::TempDir() + "cpp_saved";
  std::filesystem::remove_all(folder);
  compile_small(2).save(folder, {.name = "small", .weights = TSR_WEIGHTS_FILE});
  EXPECT_TRUE(std::filesystem::exists(folder + "/smallConfig.cmake"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/small.safetensors"));
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> y(4);
  tsr::Model::load(folder).session(1).run({tsr::view(x)}, {tsr::view(y)});
  EXPECT_EQ(y, (std::vector<float>{22, 28, 49, 64}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::capi

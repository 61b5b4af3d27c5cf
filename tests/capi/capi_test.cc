// libtessera.so as its users see it: only tessera.h.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tessera/tessera.h>
#include <unistd.h>

#include "tessera/machine/target/target.h"
#include "tests/capi/small_model.h"

namespace tessera::capi {
namespace {

const tsr_api& api() { return *tsr_get_api(TSR_API_VERSION); }

// The small model of two rows, with options that a test may change before it compiles.
class SmallModel {
 public:
  SmallModel() {
    options.size = sizeof options;
    options.dimensions = &dimension_;
    options.num_dimensions = 1;
  }
  SmallModel(const SmallModel&) = delete;
  SmallModel& operator=(const SmallModel&) = delete;

  tsr_status compile(tsr_model** model) const {
    const std::string bytes = small_model();
    return api().compile_memory(bytes.data(), bytes.size(), &options, model);
  }

  tsr_compile_options options{};

 private:
  const tsr_dimension dimension_{"rows", 2};
};

void expect_status(const tsr_status& status, int code, const std::string& said) {
  EXPECT_EQ(status.code, code);
  EXPECT_NE(std::string(status.message).find(said), std::string::npos) << status.message;
}

struct Tensor {
  Tensor(std::vector<std::int64_t> dims, std::vector<float> data)
      : shape(std::move(dims)), values(std::move(data)) {
    dl = {values.data(), {1, 0}, static_cast<std::int32_t>(shape.size()), {2, 32, 1}, shape.data(),
          nullptr,       0};
  }
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  tsr_dl_tensor dl;
};

class Session : public ::testing::Test {
 protected:
  void SetUp() override {
    const tsr_status status = SmallModel().compile(&model_);
    ASSERT_EQ(status.code, TSR_OK) << status.message;
    ASSERT_EQ(api().create_session(model_, 2, &session_).code, TSR_OK);
  }
  void TearDown() override {
    api().free_session(session_);
    api().free_model(model_);
  }
  tsr_status run(const Tensor& in, Tensor& out) {
    return api().run(session_, &in.dl, 1, &out.dl, 1);
  }
  void expect_refused(const Tensor& in, Tensor& out, const std::string& said) {
    expect_status(run(in, out), TSR_INVALID_ARGUMENT, said);
  }

  const std::vector<float> want_ = {22, 28, 49, 64};
  tsr_model* model_ = nullptr;
  tsr_session* session_ = nullptr;
  Tensor x_{{2, 3}, {1, 2, 3, 4, 5, 6}};
  Tensor y_{{2, 2}, {0, 0, 0, 0}};
};

TEST(Api, ServesItsVersionsOnly) {
  ASSERT_NE(tsr_get_api(1), nullptr);
  EXPECT_EQ(tsr_get_api(1)->version, static_cast<std::uint32_t>(TSR_API_VERSION));
  EXPECT_EQ(tsr_get_api(0), nullptr);
  EXPECT_EQ(tsr_get_api(TSR_API_VERSION + 1), nullptr);
  EXPECT_GT(std::strlen(api().tessera_version()), 0u);
}

TEST(Api, StructsAreThoseOfDLPack) {
  EXPECT_EQ(sizeof(tsr_dl_tensor), 48u);
  EXPECT_EQ(offsetof(tsr_dl_tensor, device), 8u);
  EXPECT_EQ(offsetof(tsr_dl_tensor, ndim), 16u);
  EXPECT_EQ(offsetof(tsr_dl_tensor, dtype), 20u);
  EXPECT_EQ(offsetof(tsr_dl_tensor, shape), 24u);
  EXPECT_EQ(offsetof(tsr_dl_tensor, strides), 32u);
  EXPECT_EQ(offsetof(tsr_dl_tensor, byte_offset), 40u);
  EXPECT_EQ(offsetof(tsr_dl_managed_tensor, manager_ctx), 48u);
  EXPECT_EQ(offsetof(tsr_dl_managed_tensor, deleter), 56u);
}

TEST_F(Session, DescribesInputsAndOutputs) {
  ASSERT_EQ(api().num_inputs(model_), 1);
  ASSERT_EQ(api().num_outputs(model_), 1);
  const tsr_tensor_info* x = api().input(model_, 0);
  ASSERT_NE(x, nullptr);
  EXPECT_STREQ(x->name, "x");
  EXPECT_STREQ(x->dtype, "f32");
  EXPECT_EQ(x->rank, 2);
  EXPECT_EQ(x->shape[0], 2);
  EXPECT_EQ(x->bytes, 24);
  EXPECT_STREQ(api().output(model_, 0)->name, "y");
  EXPECT_EQ(api().input(model_, 1), nullptr);
  EXPECT_EQ(api().input(model_, -1), nullptr);
}

TEST_F(Session, Runs) {
  for (int i = 0; i < 3; ++i) {
    std::fill(y_.values.begin(), y_.values.end(), 0.0f);
    const tsr_status status = run(x_, y_);
    ASSERT_EQ(status.code, TSR_OK) << status.message;
    EXPECT_EQ(y_.values, want_);
  }
}

TEST_F(Session, StridesAndOffsets) {
  // x stored column by column behind two floats; y with a gap after each row.
  Tensor x({2, 3}, {-1, -1, 1, 4, 2, 5, 3, 6});
  std::int64_t columns[2] = {1, 2};
  x.dl.strides = columns;
  x.dl.byte_offset = 8;
  Tensor y({2, 2}, {0, 0, 7, 0, 0, 7});
  std::int64_t rows[2] = {3, 1};
  y.dl.strides = rows;
  const tsr_status status = run(x, y);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  EXPECT_EQ(y.values, (std::vector<float>{22, 28, 7, 49, 64, 7}));
}

TEST_F(Session, CopiedOutputsOutliveEverything) {
  tsr_dl_managed_tensor* copy = nullptr;
  EXPECT_EQ(api().copy_output(session_, 0, &copy).code, TSR_INVALID_ARGUMENT);
  ASSERT_EQ(run(x_, y_).code, TSR_OK);
  EXPECT_EQ(api().copy_output(session_, 1, &copy).code, TSR_INVALID_ARGUMENT);
  ASSERT_EQ(api().copy_output(session_, 0, &copy).code, TSR_OK);
  api().free_session(session_);
  session_ = nullptr;
  ASSERT_EQ(copy->dl_tensor.ndim, 2);
  EXPECT_EQ(copy->dl_tensor.shape[1], 2);
  EXPECT_EQ(std::memcmp(copy->dl_tensor.data, want_.data(), 16), 0);
  copy->deleter(copy);
}

TEST_F(Session, OutlivesItsModel) {
  api().free_model(model_);
  model_ = nullptr;
  ASSERT_EQ(run(x_, y_).code, TSR_OK);
  EXPECT_EQ(y_.values, want_);
}

TEST_F(Session, BadTensorsAreNamed) {
  Tensor bad = x_;
  bad.dl = x_.dl;
  bad.dl.device.device_type = 2;
  expect_refused(bad, y_, "input 'x': DLPack device 2 is neither the CPU nor");
  bad.dl = x_.dl;
  bad.dl.dtype.bits = 64;
  expect_refused(bad, y_, "input 'x' must be f32, not f64");
  bad.dl = x_.dl;
  bad.dl.dtype.lanes = 4;
  expect_refused(bad, y_, "input 'x' must be f32, not DLPack type 2/32/4");
  bad.dl = x_.dl;
  bad.dl.ndim = 1;
  expect_refused(bad, y_, "input 'x' must have shape 2x3");
  bad.dl.ndim = -5;
  expect_refused(bad, y_, "input 'x' must have shape 2x3");
  bad.dl = x_.dl;
  bad.dl.data = nullptr;
  expect_refused(bad, y_, "input 'x' has no data");
  Tensor small({1, 2}, {0, 0});
  expect_refused(x_, small, "output 'y' must have shape 2x2, not 1x2");
  EXPECT_EQ(api().run(session_, &x_.dl, 2, &y_.dl, 1).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(api().run(session_, nullptr, 1, &y_.dl, 1).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(api().run(nullptr, &x_.dl, 1, &y_.dl, 1).code, TSR_INVALID_ARGUMENT);
}

// Outputs whose sizes follow from data.
class Detector : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string bytes = detector_model();
    const tsr_status status =
        api().compile_memory(bytes.data(), bytes.size(), &small_.options, &model_);
    ASSERT_EQ(status.code, TSR_OK) << status.message;
    ASSERT_EQ(api().create_session(model_, 0, &session_).code, TSR_OK);
  }
  void TearDown() override {
    api().free_session(session_);
    api().free_model(model_);
  }
  static void expect_found(tsr_session* session, const std::vector<std::int64_t>& found,
                           const std::vector<float>& scores) {
    tsr_dl_managed_tensor *places = nullptr, *values = nullptr;
    ASSERT_EQ(api().copy_output(session, 0, &places).code, TSR_OK);
    ASSERT_EQ(api().copy_output(session, 1, &values).code, TSR_OK);
    const auto count = static_cast<std::int64_t>(scores.size());
    ASSERT_EQ(places->dl_tensor.ndim, 2);
    EXPECT_EQ(places->dl_tensor.shape[1], count);
    ASSERT_EQ(values->dl_tensor.ndim, 1);
    ASSERT_EQ(values->dl_tensor.shape[0], count);
    const auto* at = static_cast<const std::int64_t*>(places->dl_tensor.data);
    const auto* is = static_cast<const float*>(values->dl_tensor.data);
    EXPECT_EQ(std::vector<std::int64_t>(at, at + 2 * count), found);
    EXPECT_EQ(std::vector<float>(is, is + count), scores);
    places->deleter(places);
    values->deleter(values);
  }

  SmallModel small_;
  tsr_model* model_ = nullptr;
  tsr_session* session_ = nullptr;
  Tensor all_{{2, 3}, {1, 2, 3, 4, 5, 6}}, some_{{2, 3}, {-1, -2, -3, 4, 5, 6}},
      none_{{2, 3}, {-1, -2, -3, -4, -5, -6}};
};

TEST_F(Detector, SaysWhatFollowsFromData) {
  ASSERT_EQ(api().num_outputs(model_), 2);
  const tsr_tensor_info* found = api().output(model_, 0);
  EXPECT_STREQ(found->dtype, "i64");
  ASSERT_EQ(found->rank, 2);
  EXPECT_EQ(found->shape[0], 2);
  EXPECT_EQ(found->shape[1], -1);
  EXPECT_EQ(found->bytes, -1);
  EXPECT_EQ(api().input(model_, 0)->bytes, 24);
  EXPECT_STREQ(api().plan_digest(model_), "");
}

TEST_F(Detector, RunsWithDataOfAnyAmount) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(api().run(session_, &all_.dl, 1, nullptr, 0).code, TSR_OK);
    expect_found(session_, {0, 0, 1, 1, 0, 1, 0, 1}, {22, 28, 49, 64});
    ASSERT_EQ(api().run(session_, &some_.dl, 1, nullptr, 0).code, TSR_OK);
    expect_found(session_, {1, 1, 0, 1}, {49, 64});
    ASSERT_EQ(api().run(session_, &none_.dl, 1, nullptr, 0).code, TSR_OK);
    expect_found(session_, {}, {});
  }
}

TEST_F(Detector, SessionsRunAtTheSameTime) {
  const tsr_api& a = api();
  tsr_session* other = nullptr;
  ASSERT_EQ(a.create_session(model_, 1, &other).code, TSR_OK);
  std::thread thread([&] {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(a.run(other, &some_.dl, 1, nullptr, 0).code, TSR_OK);
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(a.run(session_, &all_.dl, 1, nullptr, 0).code, TSR_OK);
  thread.join();
  expect_found(session_, {0, 0, 1, 1, 0, 1, 0, 1}, {22, 28, 49, 64});
  expect_found(other, {1, 1, 0, 1}, {49, 64});
  a.free_session(other);
}

TEST_F(Detector, WritesWhereThereIsPlaceForIt) {
  std::vector<std::int64_t> places(4), shape = {2, 2};
  Tensor scores{{2}, {0, 0}};
  tsr_dl_tensor found{places.data(), {1, 0}, 2, {0, 64, 1}, shape.data(), nullptr, 0};
  const tsr_dl_tensor outputs[] = {found, scores.dl};
  tsr_status status = api().run(session_, &some_.dl, 1, outputs, 2);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  EXPECT_EQ(places, (std::vector<std::int64_t>{1, 1, 0, 1}));
  EXPECT_EQ(scores.values, (std::vector<float>{49, 64}));
  status = api().run(session_, &all_.dl, 1, outputs, 2);
  expect_status(status, TSR_INVALID_ARGUMENT, "output 'found'");
  expect_status(api().run(session_, &all_.dl, 1, outputs, 1), TSR_INVALID_ARGUMENT,
                "1 outputs given, the model has 2");
}

TEST_F(Detector, IsNoArtifact) {
  const std::string folder = ::testing::TempDir() + "capi_detector";
  expect_status(api().save(model_, folder.c_str(), nullptr), TSR_UNSUPPORTED, "NonZero");
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(Session, NeedsItsOutputsWhereTheyAreKnown) {
  expect_status(api().run(session_, &x_.dl, 1, nullptr, 0), TSR_INVALID_ARGUMENT,
                "0 outputs given, the model has 1");
}

TEST_F(Session, ManyAtTheSameTime) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(3, 0);
  for (int& w : wrong) {
    threads.emplace_back([this, &w] {
      tsr_session* mine = nullptr;
      if (api().create_session(model_, 1, &mine).code != TSR_OK) ++w;
      for (int i = 0; i < 100; ++i) {
        Tensor y({2, 2}, {0, 0, 0, 0});
        if (api().run(mine, &x_.dl, 1, &y.dl, 1).code != TSR_OK || y.values != want_) ++w;
      }
      api().free_session(mine);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, (std::vector<int>{0, 0, 0}));
}

TEST_F(Session, SavedAndLoadedComputesTheSame) {
  const std::string folder = ::testing::TempDir() + "capi_saved";
  std::filesystem::remove_all(folder);
  tsr_save_options options{};
  options.size = sizeof options;
  options.name = "small";
  options.weights = TSR_WEIGHTS_FILE;
  tsr_status status = api().save(model_, folder.c_str(), &options);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  tsr_model* loaded = nullptr;
  status = api().load(folder.c_str(), &loaded);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  tsr_session* session = nullptr;
  ASSERT_EQ(api().create_session(loaded, 1, &session).code, TSR_OK);
  status = api().run(session, &x_.dl, 1, &y_.dl, 1);
  EXPECT_EQ(status.code, TSR_OK) << status.message;
  EXPECT_EQ(y_.values, want_);
  EXPECT_EQ(api().save(loaded, folder.c_str(), nullptr).code, TSR_UNSUPPORTED);
  api().free_session(session);
  api().free_model(loaded);
  options.emit = 9;
  EXPECT_EQ(api().save(model_, folder.c_str(), &options).code, TSR_INVALID_ARGUMENT);
  options.emit = TSR_EMIT_SHARED;
  options.target = "no-such-machine";
  EXPECT_EQ(api().save(model_, folder.c_str(), &options).code, TSR_INVALID_ARGUMENT);
}

// The second model comes from what the first left in the cache, and has no graph until it is saved.
TEST(Compile, AnOutputThatIsListedTwice) {
  const std::string bytes = small_model("MatMul", 2);
  tsr_model* model = nullptr;
  tsr_session* session = nullptr;
  const SmallModel small;
  const tsr_status status =
      api().compile_memory(bytes.data(), bytes.size(), &small.options, &model);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  ASSERT_EQ(api().num_outputs(model), 2);
  EXPECT_STREQ(api().output(model, 1)->name, "y");
  ASSERT_EQ(api().create_session(model, 1, &session).code, TSR_OK);
  const Tensor x({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor first({2, 2}, {0, 0, 0, 0}), second = first;
  const tsr_dl_tensor outputs[2] = {
      first.dl,
      {second.values.data(), first.dl.device, 2, first.dl.dtype, second.shape.data(), nullptr, 0}};
  EXPECT_EQ(api().run(session, &x.dl, 1, outputs, 2).code, TSR_OK);
  EXPECT_EQ(first.values, (std::vector<float>{22, 28, 49, 64}));
  EXPECT_EQ(second.values, first.values);
  api().free_session(session);
  api().free_model(model);
}

TEST(Compile, FilesAreKeptForTheNextStart) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("capi_kept_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const std::string file = (folder / "small.onnx").string();
  std::ofstream(file, std::ios::binary) << small_model();
  ::setenv("TESSERA_CACHE", (folder / "cache").c_str(), 1);
  const SmallModel small;
  tsr_model* models[2] = {};
  for (tsr_model*& model : models) {
    const tsr_status status = api().compile(file.c_str(), &small.options, &model);
    ASSERT_EQ(status.code, TSR_OK) << status.message;
    tsr_session* session = nullptr;
    ASSERT_EQ(api().create_session(model, 1, &session).code, TSR_OK);
    const Tensor x{{2, 3}, {1, 2, 3, 4, 5, 6}};
    Tensor y{{2, 2}, {0, 0, 0, 0}};
    EXPECT_EQ(api().run(session, &x.dl, 1, &y.dl, 1).code, TSR_OK);
    EXPECT_EQ(y.values, (std::vector<float>{22, 28, 49, 64}));
    api().free_session(session);
  }
  ::setenv("TESSERA_CACHE", "off", 1);
  EXPECT_FALSE(fs::is_empty(folder / "cache"));
  const tsr_status saved = api().save(models[1], (folder / "out").c_str(), nullptr);
  EXPECT_EQ(saved.code, TSR_OK) << saved.message;
  std::ofstream(file, std::ios::binary | std::ios::app) << "more";
  expect_status(api().save(models[1], (folder / "out2").c_str(), nullptr), TSR_IO,
                "has changed since it was compiled");
  for (tsr_model* model : models) api().free_model(model);
  fs::remove_all(folder);
}

TEST(Compile, FastMathIsForGpusThatHaveIt) {
  tsr_model* model = nullptr;
  tsr_compile_options options{};
  options.size = sizeof options;
  options.fast_math = "tf32";
  for (const char* target : {static_cast<const char*>(nullptr), "v100"}) {
    options.target = target;
    const tsr_status status = api().compile("zoo:mlp", &options, &model);
    EXPECT_EQ(status.code, TSR_UNSUPPORTED);
    EXPECT_NE(std::string(status.message).find("no tensor cores for f32"), std::string::npos);
  }
}

TEST(Compile, OtherFloatsAreForMachinesThatMultiplyThem) {
  tsr_model* model = nullptr;
  tsr_compile_options options{};
  options.size = sizeof options;
  options.dtype = "bf16";
  options.target = "haswell";
  expect_status(api().compile("zoo:mlp", &options, &model), TSR_UNSUPPORTED,
                "no instructions that multiply it");
  options.target = "sapphirerapids";
  EXPECT_EQ(api().compile("zoo:mlp", &options, &model).code, TSR_OK);
  EXPECT_STREQ(api().input(model, 0)->dtype, "f32");
  api().free_model(model);
  options.dtype = "f33";
  expect_status(api().compile("zoo:mlp", &options, &model), TSR_INVALID_ARGUMENT,
                "write f32, f16 or bf16");
}

TEST(Compile, ErrorsAreStatuses) {
  tsr_model* model = nullptr;
  expect_status(api().compile("/nonexistent.onnx", nullptr, &model), TSR_IO, "/nonexistent.onnx");
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(api().compile("zoo:no_such_net", nullptr, &model).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(api().compile_memory("garbage", 7, nullptr, &model).code, TSR_INVALID_ARGUMENT);
  const std::string unknown = small_model("NoSuchOperator");
  expect_status(api().compile_memory(unknown.data(), unknown.size(), nullptr, &model),
                TSR_UNSUPPORTED, "NoSuchOperator");
  EXPECT_EQ(api().load("/nonexistent", &model).code, TSR_IO);
  EXPECT_EQ(api().compile(nullptr, nullptr, &model).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(api().compile("zoo:mlp", nullptr, nullptr).code, TSR_INVALID_ARGUMENT);
  expect_status(api().compile("", nullptr, &model), TSR_INVALID_ARGUMENT, "must not be empty");
  api().free_model(nullptr);
  api().free_session(nullptr);
}

TEST(Compile, OptionsOfAnotherSizeAreRefused) {
  SmallModel small;
  tsr_model* model = nullptr;
  for (const std::size_t size : {std::size_t{0}, sizeof small.options + 8}) {
    small.options.size = size;
    EXPECT_EQ(small.compile(&model).code, TSR_INVALID_ARGUMENT);
  }
}

TEST(Compile, ErrorsNameTheModelOnce) {
  tsr_model* model = nullptr;
  const std::string message = api().compile("/nonexistent.onnx", nullptr, &model).message;
  EXPECT_EQ(message, "cannot read '/nonexistent.onnx': No such file or directory");
}

TEST(Compile, NegativeNumbersAreRefused) {
  for (std::int32_t tsr_compile_options::*const member :
       {&tsr_compile_options::num_shapes, &tsr_compile_options::num_dimensions,
        &tsr_compile_options::build_threads, &tsr_compile_options::device,
        &tsr_compile_options::threads}) {
    SmallModel small;
    tsr_model* model = nullptr;
    small.options.*member = -1;
    expect_status(small.compile(&model), TSR_INVALID_ARGUMENT, "must not be negative, but is -1");
    EXPECT_EQ(model, nullptr);
  }
}

TEST(Compile, ShapesByInput) {
  const std::int64_t dims[2] = {5, 3};
  const tsr_input_shape shape{"x", dims, 2};
  SmallModel small;
  small.options.num_dimensions = 0;
  small.options.shapes = &shape;
  small.options.num_shapes = 1;
  tsr_model* model = nullptr;
  const tsr_status status = small.compile(&model);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  EXPECT_EQ(api().output(model, 0)->shape[0], 5);
  api().free_model(model);
}

// With a plan and a cost model.
tsr_status compile_planned(const std::string& plan, bool strict, const char* cost_model,
                           tsr_model** model) {
  SmallModel small;
  small.options.plan = plan.empty() ? nullptr : plan.c_str();
  small.options.strict_plan = strict ? 1 : 0;
  small.options.cost_model = cost_model;
  return small.compile(model);
}

TEST(Compile, TakesAPlan) {
  const std::string path = ::testing::TempDir() + "tessera_capi.plan";
  const auto write = [&](const std::string& decisions) {
    std::ofstream(path) << R"({"format": "tessera plan", "version": 2, "model": "small", )"
                        << R"("target": ")" << target::to_text(target::host())
                        << R"(", "threads": 1, "tasks": {}, "decisions": )" << decisions << "}";
  };
  tsr_model* model = nullptr;
  write("{}");
  const tsr_status lenient = compile_planned(path, false, nullptr, &model);
  EXPECT_EQ(lenient.code, TSR_OK) << lenient.message;
  api().free_model(model);
  expect_status(compile_planned(path, true, nullptr, &model), TSR_INVALID_ARGUMENT,
                "is not in the plan");
  write("7");
  EXPECT_EQ(compile_planned(path, false, nullptr, &model).code, TSR_INVALID_ARGUMENT);
  std::filesystem::remove(path);
  EXPECT_EQ(compile_planned(path, false, nullptr, &model).code, TSR_IO);
}

TEST(Compile, ACostModelMustBeThere) {
  tsr_model* model = nullptr;
  const tsr_status status = compile_planned("", false, "/nonexistent.safetensors", &model);
  EXPECT_EQ(status.code, TSR_IO) << status.message;
  EXPECT_EQ(model, nullptr);
}

TEST(Compile, OptionsOfTheFirstVersionAreServed) {
  ASSERT_EQ(tsr_get_api(1), &api());
  SmallModel small;
  small.options.size = offsetof(tsr_compile_options, plan);
  small.options.plan = "/what is behind the size is not read";
  tsr_model* model = nullptr;
  const tsr_status status = small.compile(&model);
  EXPECT_EQ(status.code, TSR_OK) << status.message;
  api().free_model(model);
}

// Compiled in memory, for a device at hand or not.
tsr_status compile_for(const char* target, tsr_model** model, std::int32_t device = 0) {
  SmallModel small;
  small.options.target = target;
  small.options.device = device;
  return small.compile(model);
}

class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const tsr_status status = compile_for(GetParam(), &model_);
    if (status.code == TSR_UNAVAILABLE) GTEST_SKIP() << status.message;
    ASSERT_EQ(status.code, TSR_OK) << status.message;
  }
  void TearDown() override { api().free_model(model_); }

  void expect_computes(const tsr_model* model) {
    tsr_session* session = nullptr;
    tsr_status status = api().create_session(model, 0, &session);
    ASSERT_EQ(status.code, TSR_OK) << status.message;
    for (int i = 0; i < 3; ++i) {
      Tensor y({2, 2}, {0, 0, 7, 0, 0, 7});
      y.dl.strides = rows_;
      status = api().run(session, &x_.dl, 1, &y.dl, 1);
      ASSERT_EQ(status.code, TSR_OK) << status.message;
      EXPECT_EQ(y.values, (std::vector<float>{22, 28, 7, 49, 64, 7}));
    }
    tsr_dl_managed_tensor* copy = nullptr;
    ASSERT_EQ(api().copy_output(session, 0, &copy).code, TSR_OK);
    EXPECT_EQ(static_cast<const float*>(copy->dl_tensor.data)[3], 64);
    copy->deleter(copy);
    Tensor bad = x_, y({2, 2}, {0, 0, 0, 0});
    bad.dl = x_.dl;
    bad.dl.device.device_type = 12;
    expect_status(api().run(session, &bad.dl, 1, &y.dl, 1), TSR_INVALID_ARGUMENT,
                  "input 'x': DLPack device 12 is neither the CPU nor " + std::string(GetParam()));
    api().free_session(session);
  }

  std::int64_t rows_[2] = {3, 1};
  Tensor x_{{2, 3}, {1, 2, 3, 4, 5, 6}};
  tsr_model* model_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Kinds, OnDevice, ::testing::Values("cuda", "opencl"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(OnDevice, Computes) { expect_computes(model_); }

TEST_P(OnDevice, SavedAndLoadedComputesTheSame) {
  const std::string folder = ::testing::TempDir() + "capi_saved_" + GetParam();
  std::filesystem::remove_all(folder);
  tsr_status status = api().save(model_, folder.c_str(), nullptr);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  tsr_model* loaded = nullptr;
  status = api().load(folder.c_str(), &loaded);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  expect_computes(loaded);
  api().free_model(loaded);
  tsr_save_options options{};
  options.size = sizeof options;
  options.target = "host";
  expect_status(api().save(model_, folder.c_str(), &options), TSR_UNSUPPORTED, "was compiled for");
}

TEST_P(OnDevice, DevicesThatAreNotThere) {
  tsr_model* model = nullptr;
  ASSERT_EQ(compile_for(GetParam(), &model, 77).code, TSR_OK);
  tsr_session* session = nullptr;
  expect_status(api().create_session(model, 0, &session), TSR_UNAVAILABLE, "device 77");
  EXPECT_EQ(session, nullptr);
  api().free_model(model);
}

// A GPU of the table needs none here to compile and save.
TEST(Compile, ForAGpuThatIsElsewhere) {
  tsr_model* model = nullptr;
  tsr_status status = compile_for("h200", &model);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  EXPECT_EQ(api().num_outputs(model), 1);
  const std::string folder = ::testing::TempDir() + "capi_saved_h200";
  std::filesystem::remove_all(folder);
  status = api().save(model, folder.c_str(), nullptr);
  EXPECT_EQ(status.code, TSR_OK) << status.message;
  tsr_model* none = nullptr;
  if (compile_for("cuda", &none).code == TSR_UNAVAILABLE) {
    tsr_session* session = nullptr;
    expect_status(api().create_session(model, 0, &session), TSR_UNAVAILABLE, "no CUDA d");
    EXPECT_EQ(api().load(folder.c_str(), &none).code, TSR_UNAVAILABLE);
  }
  api().free_model(none);
  api().free_model(model);
}

// A processor of the table can be compiled for and saved, with schedules made for it.
TEST(Compile, ForAProcessorThatIsElsewhere) {
  tsr_model* model = nullptr;
  tsr_status status = compile_for("x86-64-v3", &model);
  ASSERT_EQ(status.code, TSR_OK) << status.message;
  ASSERT_EQ(api().num_outputs(model), 1);
  EXPECT_STREQ(api().input(model, 0)->name, "x");
  EXPECT_STREQ(api().output(model, 0)->name, "y");
  EXPECT_EQ(api().output(model, 0)->bytes, 16);
  tsr_session* session = nullptr;
  expect_status(api().create_session(model, 0, &session), TSR_UNSUPPORTED, "save it");
  if (target::host().arch == target::Arch::kX86_64) {
    const std::string folder = ::testing::TempDir() + "capi_saved_v3";
    std::filesystem::remove_all(folder);
    status = api().save(model, folder.c_str(), nullptr);
    EXPECT_EQ(status.code, TSR_OK) << status.message;
    std::filesystem::remove_all(folder);
  }
  api().free_model(model);
}

// The code is made for as many threads as the options say, which is also what sessions have.
TEST(Compile, ForAsManyThreads) {
  SmallModel small;
  small.options.threads = 1;
  tsr_model* model = nullptr;
  ASSERT_EQ(small.compile(&model).code, TSR_OK);
  tsr_session* none = nullptr;
  expect_status(api().create_session(model, -1, &none), TSR_INVALID_ARGUMENT, "negative");
  EXPECT_EQ(none, nullptr);
  for (const std::int32_t threads : {0, 2}) {
    tsr_session* session = nullptr;
    ASSERT_EQ(api().create_session(model, threads, &session).code, TSR_OK);
    Tensor x({2, 3}, {1, 2, 3, 4, 5, 6}), y({2, 2}, {0, 0, 0, 0});
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(api().run(session, &x.dl, 1, &y.dl, 1).code, TSR_OK);
      EXPECT_EQ(y.values, (std::vector<float>{22, 28, 49, 64}));
      x.values[0] = 1;
    }
    api().free_session(session);
  }
  api().free_model(model);
}

TEST(Compile, TargetsThatAreNone) {
  tsr_model* model = nullptr;
  EXPECT_EQ(compile_for("h300", &model).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(compile_for("host", &model).code, TSR_OK);
  tsr_session* session = nullptr;
  ASSERT_EQ(api().create_session(model, 1, &session).code, TSR_OK);
  Tensor x({2, 3}, {1, 2, 3, 4, 5, 6}), y({2, 2}, {0, 0, 0, 0});
  int stream = 0;
  EXPECT_EQ(api().run_on_stream(session, &x.dl, 1, &y.dl, 1, &stream).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(api().run_on_stream(session, &x.dl, 1, &y.dl, 1, nullptr).code, TSR_OK);
  api().free_session(session);
  api().free_model(model);
}

}  // namespace
}  // namespace tessera::capi

// Models that one process leaves for the next: found, refused and made again.
#include "tessera/app/compile/open_model.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/backend/exec/share_constants.h"
#include "tessera/frontend/zoo/zoo.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

class PrepareModel : public ::testing::Test {
 protected:
  PrepareModel() : folder_(TemporaryFolder::make("prepare").value()) {
    save("mlp@hidden=32");
    options_.target = target::code_target(target::host(), 1);
    use_cache(std::int64_t{64} << 20);
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string file() const { return path("model.onnx"); }
  void save(const std::string& network, std::int64_t external_above = 1 << 30) const {
    ASSERT_TRUE(
        onnx::save_model(*zoo::make_model(network), file(), {.external_above = external_above})
            .ok());
  }
  void use_cache(std::int64_t limit) {
    options_.cache = std::make_shared<const kernel::KernelCache>(DiskCache(path("cache"), limit));
  }

  exec::PreparedModel prepare() const {
    ModelSource source(file());
    Result<exec::PreparedModel> made = prepare_model(source, options_);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(*made);
  }
  static bool was_found(const exec::PreparedModel& model) { return model.entry != nullptr; }
  std::vector<float> outputs(const exec::PreparedModel& prepared) const {
    const exec::CompiledModel& m = prepared.model;
    runtime::CpuDevice device({.threads = 1});
    const auto got =
        exec::run_model(m, device, random_model_inputs(m.input_names, m.input_types, 5));
    EXPECT_TRUE(got.ok());
    std::vector<float> values;
    for (const HostTensor& t : *got) {
      for (std::int64_t i = 0; i < t.size(); ++i)
        values.push_back(static_cast<float>(t.get_float(i)));
    }
    return values;
  }
  // Entries whose key has `text` in it.
  static constexpr const char *kModel = "model file", *kConstant = " of file ";
  std::vector<std::string> entries(const std::string& text) const {
    std::vector<std::string> found;
    for (const auto& e : fs::recursive_directory_iterator(path("cache"))) {
      if (!e.is_regular_file()) continue;
      const std::string bytes = *read_file(e.path().string());
      std::uint64_t key_bytes = 0;
      std::memcpy(&key_bytes, bytes.data() + 8, sizeof(key_bytes));
      if (bytes.substr(32, key_bytes).find(text) != std::string::npos)
        found.push_back(e.path().string());
    }
    return found;
  }

  TemporaryFolder folder_;
  CompileOptions options_;
};

TEST_F(PrepareModel, TheSecondTimeNothingIsMadeAndEverythingIsTheSame) {
  for (const char* network : {"mlp@hidden=32", "lenet", "mlp@hidden=32,quant=qdq"}) {
    save(network);
    const std::vector<float> want = outputs(prepare());
    const exec::PreparedModel found = prepare();  // with nobody to share constants with
    ASSERT_TRUE(was_found(found)) << network;
    EXPECT_EQ(outputs(found), want) << network;
    fs::remove_all(path("cache"));
    const exec::PreparedModel made = prepare();
    EXPECT_FALSE(was_found(made)) << network;
    EXPECT_EQ(found.model.cached_kernels, static_cast<std::int64_t>(made.model.kernels.size()));
    EXPECT_EQ(found.model.input_names, made.model.input_names);
    EXPECT_EQ(found.model.output_types, made.model.output_types);
    EXPECT_EQ(found.model.constant_bytes, made.model.constant_bytes);
    EXPECT_EQ(found.model.arena_bytes, made.model.arena_bytes);
    ASSERT_EQ(found.model.steps.size(), made.model.steps.size());
    for (std::size_t i = 0; i < made.model.steps.size(); ++i) {
      EXPECT_EQ(found.model.steps[i].name, made.model.steps[i].name);
      EXPECT_EQ(found.model.steps[i].flops, made.model.steps[i].flops);
      EXPECT_EQ(found.model.steps[i].attrs, made.model.steps[i].attrs);
    }
    ASSERT_EQ(found.model.constants.size(), made.model.constants.size());
    for (const HostTensor& t : found.model.constants)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data()) % 64, 0u);
  }
}

TEST_F(PrepareModel, OperatorsOfTheHostKeepTheirAttributes) {
  onnx::Model model = *zoo::make_model("mlp@hidden=32");
  const std::string last = model.graph.outputs[0].name;
  onnx::Node top;
  top.op_type = "TopK";
  top.inputs = {last, "k"};
  top.outputs = {"values", "places"};
  top.attributes = {{"largest", std::int64_t{0}, ""}, {"axis", std::int64_t{1}, ""}};
  HostTensor k(DType::kI64, {1});
  k.set_int(0, 3);
  model.graph.initializers.push_back({"k", k});
  model.graph.nodes.push_back(top);
  model.graph.outputs = {{"values", "f32", false, {}}, {"places", "i64", false, {}}};
  ASSERT_TRUE(onnx::save_model(model, file()).ok());
  const exec::PreparedModel made = prepare(), found = prepare();
  ASSERT_TRUE(was_found(found));
  EXPECT_TRUE(std::ranges::any_of(found.model.steps, [](const auto& s) {
    return s.kind == task::GroupKind::kHost && s.op != nullptr;
  }));
  EXPECT_EQ(outputs(found).size(), 6u);
  EXPECT_EQ(outputs(found), outputs(made));
}

TEST_F(PrepareModel, AnotherFileOrOptionIsAnotherModel) {
  prepare();
  ASSERT_TRUE(was_found(prepare()));
  options_.skip_passes = {"fold_scales"};
  EXPECT_FALSE(was_found(prepare()));
  options_.skip_passes = {};
  options_.integer_products = integer_products_for(options_) + 4;
  EXPECT_FALSE(was_found(prepare()));
  options_.integer_products.reset();
  options_.optimize = false;
  EXPECT_FALSE(was_found(prepare()));
  options_.optimize = true;
  options_.fuse = false;
  EXPECT_FALSE(was_found(prepare()));
  options_.fuse = true;
  options_.build_threads = 1;
  EXPECT_TRUE(was_found(prepare())) << "the code is the same";
  options_.import.shapes["input"] = {1, 784};
  EXPECT_FALSE(was_found(prepare()));
  options_.import.shapes.clear();
  options_.target = target::code_target(target::host(), 2);
  EXPECT_FALSE(was_found(prepare()));
  options_.target = target::code_target(target::host(), 1);
  plan::Plan plan;
  plan.target = target::to_text(options_.target);
  options_.plan = *PlanSchedules::make(plan, options_.target, false);
  EXPECT_FALSE(was_found(prepare()));
  EXPECT_FALSE(options_.plan->missing().empty());
  EXPECT_FALSE(was_found(prepare())) << "what a plan lacks must be told each time";
  options_.plan.reset();
  EXPECT_TRUE(was_found(prepare()));
  const std::vector<float> before = outputs(prepare());
  save("mlp@hidden=33");
  const exec::PreparedModel other = prepare();
  EXPECT_FALSE(was_found(other));
  EXPECT_NE(outputs(other), before);
}

TEST_F(PrepareModel, ExternalDataBelongsToTheModel) {
  save("mlp@hidden=32", 0);
  const exec::PreparedModel made = prepare();
  ASSERT_EQ(made.sources.size(), 1u);
  ASSERT_TRUE(was_found(prepare()));
  const std::string data = made.sources[0].path;
  std::string bytes = *read_file(data);
  for (std::size_t i = 0; i < bytes.size(); i += 4) bytes[i + 2] = '\x20';
  ASSERT_TRUE(write_file(data, {bytes}).ok());
  const exec::PreparedModel changed = prepare();
  EXPECT_FALSE(was_found(changed));
  EXPECT_NE(outputs(changed), outputs(made));
  fs::remove(data);
  ModelSource source(file());
  EXPECT_EQ(prepare_model(source, options_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(PrepareModel, DamagedEntriesAreMadeAgain) {
  const std::vector<float> want = outputs(prepare());
  for (const char* kind : {kModel, kConstant}) {
    ASSERT_FALSE(entries(kind).empty()) << kind;
    const std::string entry = entries(kind)[0];
    const std::string whole = *read_file(entry);
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{20}, whole.size() / 3, whole.size() - 1}) {
      ASSERT_TRUE(was_found(prepare()));
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
      ASSERT_TRUE(write_file(entry, {damaged}).ok());
      const exec::PreparedModel again = prepare();
      EXPECT_FALSE(was_found(again)) << kind << at;
      EXPECT_EQ(outputs(again), want);
    }
    ASSERT_TRUE(write_file(entry, {std::string_view(whole).substr(0, whole.size() / 2)}).ok());
    EXPECT_FALSE(was_found(prepare()));
    EXPECT_TRUE(was_found(prepare()));
    fs::remove(entry);
    EXPECT_FALSE(was_found(prepare()));
    EXPECT_TRUE(was_found(prepare()));
  }
}

// Five lengths of one file, made and then found: each different constant is held once, in memory
// and on disk.
TEST_F(PrepareModel, AllLengthsOfAModelShareItsWeights) {
  onnx::Model model = *zoo::make_model("mlp@hidden=256");
  model.graph.inputs[0].dims = {{-1, "rows"}, {784, ""}};
  model.graph.outputs[0].has_shape = false;
  ASSERT_TRUE(onnx::save_model(model, file()).ok());
  std::size_t entries_before = 0;
  for (const bool found : {false, true}) {
    std::vector<exec::PreparedModel> programs;
    for (const std::int64_t length : {20, 27, 36, 48, 59}) {
      options_.import.symbols["rows"] = length;
      programs.push_back(prepare());
      EXPECT_EQ(was_found(programs.back()), found);
    }
    std::map<std::string, const void*> held;
    std::size_t large = 0;
    for (const exec::PreparedModel& p : programs) {
      for (const HostTensor& t : p.model.constants) {
        if (!exec::is_shared(t)) continue;
        ++large;
        EXPECT_EQ(held.emplace(exec::constant_digest(t), t.data()).first->second, t.data());
      }
    }
    EXPECT_GE(large, 2 * programs.size());
    EXPECT_LT(held.size(), large);
    EXPECT_EQ(entries(kConstant).size(), held.size());
    if (!found) entries_before = entries("").size();
    EXPECT_EQ(entries("").size(), entries_before);
  }
}

// The same weights in another file are that file's own: nothing that a stranger's model leaves in
// the cache is ever read for it.
TEST_F(PrepareModel, FilesDoNotReadConstantsOfOthers) {
  prepare();
  const std::size_t before = entries(kConstant).size();
  EXPECT_GT(before, 0u);
  fs::copy_file(file(), path("copy.onnx"));
  ModelSource copy(path("copy.onnx"));
  ASSERT_TRUE(prepare_model(copy, options_).ok());
  EXPECT_EQ(entries(kConstant).size(), 2 * before);
}

// Bytes under the right key that are no model of it.
TEST_F(PrepareModel, EntriesThatAreNoModelsAreNotTaken) {
  const DiskCache& disk = options_.cache->disk();
  const std::string huge = std::string(8, '\x7f'), none = std::string(64, '\0');
  for (const std::string& answer : {std::string(), std::string("short"), huge, none}) {
    ASSERT_TRUE(store_entry(disk, "key", {answer}).ok());
    EXPECT_FALSE(exec::find_prepared(disk, "key", "owner", options_.target).has_value());
  }
  EXPECT_FALSE(exec::find_prepared(disk, "", "owner", options_.target).has_value());
}

// A limit on files fails a write in the middle, as a full disk does.
TEST_F(PrepareModel, AFullDiskIsNoError) {
  const std::vector<float> want = outputs(prepare());
  fs::remove_all(path("cache"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 30'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const exec::PreparedModel made = prepare();
  const exec::PreparedModel again = prepare();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(outputs(made), want);
  EXPECT_FALSE(was_found(again));
  for (const auto& e : fs::recursive_directory_iterator(path("cache"))) {
    EXPECT_EQ(e.path().string().find(".tmp."), std::string::npos) << e.path();
  }
}

TEST_F(PrepareModel, APlaceThatCannotBeWrittenIsNoError) {
  std::ofstream(path("cache")) << "a file";
  EXPECT_FALSE(was_found(prepare()));
  EXPECT_FALSE(was_found(prepare()));
}

TEST_F(PrepareModel, LargeModelsAreNotKeptAndThatIsSaid) {
  std::vector<std::string> told;
  options_.note = [&](const std::string& line) { told.push_back(line); };
  use_cache(150'000);  // the weights take more than half of it
  prepare();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("is not kept"), std::string::npos) << told[0];
  EXPECT_NE(told[0].find("TESSERA_CACHE_MB="), std::string::npos) << told[0];
  EXPECT_FALSE(was_found(prepare()));
  EXPECT_EQ(told.size(), 2u) << "each time";
  EXPECT_LE(options_.cache->disk().usage().bytes, 150'000);
  // The limit that it names is enough.
  const std::int64_t named = std::stoll(told[0].substr(told[0].find("_MB=") + 4));
  use_cache(named << 20);
  prepare();
  EXPECT_TRUE(was_found(prepare()));
  EXPECT_EQ(told.size(), 2u) << "nothing to say";
  fs::remove_all(path("cache"));
  use_cache(0);  // who wants nothing kept is not told so
  EXPECT_FALSE(was_found(prepare()));
  EXPECT_EQ(told.size(), 2u);
}

// External data is read where it lies, but what runs does not depend on it any more.
TEST_F(PrepareModel, HoldsNoPartOfItsFiles) {
  save("mlp@hidden=32", 0);
  options_.cache = nullptr;
  const exec::PreparedModel made = prepare();
  const std::vector<float> want = outputs(made);
  for (const HostTensor& t : made.model.constants) EXPECT_FALSE(t.is_view());
  fs::resize_file(file() + ".data", 0);
  EXPECT_EQ(outputs(made), want);
}

TEST_F(PrepareModel, ForgottenModelsAreReadAgain) {
  ModelSource source(file());
  const std::size_t nodes = (*source.model())->graph.nodes.size();
  source.forget();
  EXPECT_EQ((*source.model())->graph.nodes.size(), nodes);
  ModelSource given(zoo::make_model("mlp@hidden=32"));
  given.forget();
  EXPECT_TRUE(given.model().ok()) << "there is no file to read it from";
}

TEST_F(PrepareModel, WarningsOfTheImportAreToldAgain) {
  onnx::Model model = *zoo::make_model("mlp@hidden=32");
  std::swap(model.graph.nodes.front(), model.graph.nodes.back());  // not sorted
  ASSERT_TRUE(onnx::save_model(model, file()).ok());
  std::vector<std::string> told;
  options_.import.warn = [&](const std::string& w) { told.push_back(w); };
  prepare();
  const std::vector<std::string> first = std::exchange(told, {});
  EXPECT_FALSE(first.empty());
  EXPECT_TRUE(was_found(prepare()));
  EXPECT_EQ(told, first);
}

TEST_F(PrepareModel, WithoutACacheAndWithoutANameNothingIsKept) {
  ModelSource read(zoo::make_model("mlp@hidden=32"));
  EXPECT_EQ(read.identity(), "");
  EXPECT_TRUE(prepare_model(read, options_).ok());
  EXPECT_FALSE(was_found(prepare())) << "of the file, for the first time";
  options_.cache = nullptr;
  EXPECT_FALSE(was_found(prepare()));
  ModelSource absent(path("absent.onnx"));
  EXPECT_EQ(prepare_model(absent, options_).error().code, ErrorCode::kIo);
}

TEST_F(PrepareModel, OpensOnTheDeviceOfTheTarget) {
  ModelSource source(file());
  const Result<OpenModel> open = open_model(source, options_);
  ASSERT_TRUE(open.ok()) << open.error().message;
  EXPECT_EQ(open->device->target().code_threads(), 1);
  const auto got =
      exec::run_model(open->model(), *open->device, random_model_inputs(open->model(), 5));
  EXPECT_TRUE(got.ok());
  EXPECT_TRUE(was_found(prepare())) << "it was kept";
  options_.target = target::find_target("h200").value();
  const Result<OpenModel> elsewhere = open_model(source, options_);
  EXPECT_TRUE(elsewhere.ok() || elsewhere.error().code == ErrorCode::kUnavailable);
}

TEST(CompileDigest, EveryOptionThatCodeFollowsFromIsInIt) {
  const CompileOptions usual;
  std::set<std::string> digests = {compile_digest(usual)};
  const auto differs = [&](const std::function<void(CompileOptions&)>& change) {
    CompileOptions options;
    change(options);
    return digests.insert(compile_digest(options)).second;
  };
  EXPECT_TRUE(differs([](auto& o) { o.target = target::find_target("h200").value(); }));
  EXPECT_TRUE(differs([](auto& o) { o.import.symbols["n"] = 2; }));
  EXPECT_TRUE(differs([](auto& o) { o.integer_products = 0; }));
  EXPECT_TRUE(differs([](auto& o) { o.optimize = false; }));
  EXPECT_TRUE(differs([](auto& o) { o.skip_passes = {"fold_scales"}; }));
  EXPECT_TRUE(differs([](auto& o) { o.floats = DType::kF16; }));
  EXPECT_TRUE(differs([](auto& o) { o.fuse = false; }));
  EXPECT_TRUE(differs([](auto& o) { o.cost_model = kShipped; }));
  EXPECT_TRUE(differs([](auto& o) { o.language = kShipped; }));
  plan::Plan plan;
  plan.target = target::to_text(target::host());
  for (const bool strict : {false, true}) {
    EXPECT_TRUE(
        differs([&](auto& o) { o.plan = *PlanSchedules::make(plan, target::host(), strict); }));
  }
  EXPECT_FALSE(differs([](auto& o) { o.build_threads = 3; }));
}

}  // namespace
}  // namespace tessera::app

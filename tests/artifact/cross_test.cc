// Artifacts for the other architecture, run by its emulator where one is installed.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/embedded_files.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/backend/artifact/toolchain.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/support/run_tool.h"
#include "tests/artifact/artifact_fixture.h"
#include "tests/testing/testing.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
using graph::ValueId;
using Words = std::vector<std::string>;

struct Other {
  std::string target, poor_cpu, missing;  // what the emulator's poor CPU lacks
  Words emulator;
};

// Of the package qemu-user or of qemu-user-static.
std::string emulator_of(const std::string& arch) {
  const std::string plain = "qemu-" + arch;
  return run_tool({plain, "--version"}, "/").ok() ? plain : plain + "-static";
}

Other other() {
  if (target::host().arch == target::Arch::kAArch64) {
    return {"x86-64-v3", "Nehalem", "avx", {emulator_of("x86_64"), "-L", "/usr/x86_64-linux-gnu"}};
  }
  return {
      "neoverse-n1", "cortex-a53", "lse", {emulator_of("aarch64"), "-L", "/usr/aarch64-linux-gnu"}};
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// With nothing of that architecture installed: no program is called.
class CrossObject : public ::testing::TestWithParam<Emit> {
 protected:
  void SetUp() override {
    path_ = std::getenv("PATH");
    ::setenv("PATH", "/nonexistent", 1);
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }
  std::string path_;
};

TEST_P(CrossObject, NeedsNoCompiler) {
  const target::Target target = *target::find_target(other().target);
  if (runtime_object(target::Kind::kCpu, target.arch).empty()) {
    GTEST_SKIP() << "built without a C compiler for " << target.triple;
  }
  const std::string folder = fresh_folder() + "/net";
  const auto report =
      compile_artifact(two_layers(), target, folder, {.name = "net", .emit = GetParam()});
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto read = read_metadata(folder + "/" + report->metadata.library);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->triple, target.triple);
}

std::string emit_name(const ::testing::TestParamInfo<Emit>& p) {
  return p.param == Emit::kShared ? "Shared" : p.param == Emit::kStatic ? "Static" : "Object";
}
INSTANTIATE_TEST_SUITE_P(All, CrossObject, ::testing::Values(Emit::kStatic, Emit::kObject),
                         emit_name);

// The C library of that architecture may be absent.
TEST(CrossLibrary, LinksWithWhateverIsThere) {
  const target::Target target = *target::find_target(other().target);
  const std::string folder = fresh_folder() + "/net";
  const auto report = compile_artifact(two_layers(), target, folder, {.name = "net"});
  if (!report.ok()) {  // no compiler
    EXPECT_EQ(report.error().code, ErrorCode::kUnavailable) << report.error().message;
    GTEST_SKIP() << report.error().message;
  }
  const auto read = read_metadata(folder + "/libnet.so");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->triple, target.triple);
}

class CrossArtifactBase : public ::testing::Test {
 protected:
  void SetUp() override {
    target_ = *target::find_target(other().target);
    const auto linker = find_linker(target_, "");
    if (!linker.ok()) GTEST_SKIP() << linker.error().message;
    if (!linker->has_c_library) GTEST_SKIP() << "no C library of " << target_.triple;
    cc_ = linker->command;
    if (!run_tool({other().emulator[0], "--version"}, "/").ok()) {
      GTEST_SKIP() << other().emulator[0] << " is not installed (package qemu-user)";
    }
  }

  // Compiles, links and runs it where every instruction exists; the path of the program.
  std::string expect_runs(const graph::Graph& graph, const target::Target& target, Emit emit) {
    const std::string folder = fresh_folder(), program = folder + "/run";
    const auto report =
        compile_artifact(graph, target, folder + "/net", {.name = "net", .emit = emit});
    EXPECT_TRUE(report.ok()) << report.error().message;
    if (!report.ok()) return program;
    const std::string library = folder + "/net/" + report->metadata.library;
    const auto built =
        run_tool(with(cc_, {"-std=c11", "-DMODEL_HEADER=\"net.h\"", "-DMODEL_API=net_api",
                            "-I" + folder + "/net", TESSERA_ARTIFACT_EXAMPLE, library, "-o",
                            program, "-lm", "-pthread", "-Wl,-rpath," + folder + "/net"}),
                 folder);
    EXPECT_TRUE(built.ok()) << built.error().message;
    const auto inputs = inputs_for(graph);
    expect_close(run_program(with(other().emulator, {"-cpu", "max", program, "--threads", "2"}),
                             folder, graph, inputs),
                 expected(graph, inputs));
    return program;
  }

  target::Target target_;
  Words cc_;
};

// Products of floats of the types and of bytes, by whatever instructions the target has for them.
graph::Graph narrow_products(const std::vector<DType>& types) {
  Rng rng(5);
  graph::GraphBuilder b("narrow products");
  const ValueId x = b.input("x", {DType::kF32, {16, 32}});
  std::vector<ValueId> outputs;
  std::vector<std::string> names;
  for (const DType type : types) {
    const ValueId w = b.constant(random_tensor(type, {32, 24}, rng), "weight");
    const ValueId scaled = *b.add("mul", {x, b.scalar(DType::kF32, is_float(type) ? 1 : 50)});
    const ValueId y =
        *b.add("contract", {*b.cast(scaled, type), w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}});
    outputs.push_back(y);
    names.emplace_back(to_text(type));
  }
  return b.finish(outputs, names);
}

// Dot products of bytes and bf16, and halves where the processor computes with them.
TEST_F(CrossArtifactBase, NarrowProductsRunEmulated) {
  if (target_.arch != target::Arch::kAArch64) GTEST_SKIP() << "emulates AArch64 only";
  const graph::Graph graph =
      narrow_products({DType::kI8, DType::kU8, DType::kBF16, DType::kF16, DType::kF8E4M3});
  for (const char* name : {"neoverse-n1", "neoverse-v1"}) {
    SCOPED_TRACE(name);
    expect_runs(graph, *target::find_target(name), Emit::kShared);
  }
}

class CrossArtifact : public CrossArtifactBase, public ::testing::WithParamInterface<Emit> {};

TEST_P(CrossArtifact, RunsEmulatedAndRefusesPoorProcessors) {
  const std::string program = expect_runs(two_layers(), target_, GetParam());
  const std::string folder = fs::path(program).parent_path();
  const auto poor = run_tool(
      with(other().emulator, {"-cpu", other().poor_cpu, program, "in0", "out0", "out1", "out2"}),
      folder);
  ASSERT_FALSE(poor.ok());
  EXPECT_NE(poor.error().message.find("this machine lacks " + other().missing), std::string::npos)
      << poor.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, CrossArtifact,
                         ::testing::Values(Emit::kShared, Emit::kStatic, Emit::kObject), emit_name);

TEST_F(CrossArtifactBase, IsNotLoadedHere) {
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile_artifact(two_layers(), target_, folder).ok());
  const auto loaded = load_artifact(folder);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(loaded.error().message.find(target_.triple), std::string::npos);
}

}  // namespace
}  // namespace tessera::artifact

#include "tessera/backend/artifact/compile_artifact.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/backend/artifact/elf.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/backend/artifact/toolchain.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tessera/support/safetensors.h"
#include "tests/artifact/artifact_fixture.h"
#include "tests/testing/testing.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Result<ArtifactReport> compile(const graph::Graph& graph, const std::string& folder,
                               ArtifactOptions options = {}) {
  if (options.name.empty()) options.name = "net";
  return compile_artifact(graph, target::host(), folder, options);
}

class EmitTest : public ::testing::TestWithParam<Emit> {};

// The library, its header and examples/c/run_artifact.c, built by the system's compiler as C and as
// C++, with nothing of Tessera.
TEST_P(EmitTest, ExampleProgramComputesTheModel) {
  const graph::Graph graph = two_layers();
  const std::string folder = fresh_folder();
  const auto report = compile(graph, folder + "/net", {.emit = GetParam()});
  ASSERT_TRUE(report.ok()) << report.error().message;
  const std::string library = folder + "/net/" + report->metadata.library;
  const auto inputs = inputs_for(graph);
  for (const char* language : {"-std=c11", "-std=c++17"}) {
    Names build = {"cc",
                   language,
                   "-Wall",
                   "-Wextra",
                   "-Werror",
                   "-DMODEL_HEADER=\"net.h\"",
                   "-DMODEL_API=net_api",
                   "-I" + folder + "/net"};
    const bool cpp = std::string(language) == "-std=c++17";
    if (cpp) {
      // The example is C; C++ users need the header to compile.
      ASSERT_TRUE(write_file(folder + "/use.cc", {"#include \"net.h\"\n"
                                                  "#include \"net.h\"\n"
                                                  "int main() { return net_info() == nullptr; }\n"})
                      .ok());
    }
    const std::string program = folder + (cpp ? "/use" : "/run");
    for (const std::string& word :
         Names{cpp ? folder + "/use.cc" : TESSERA_ARTIFACT_EXAMPLE, library, "-o", program, "-lm",
               "-pthread", "-Wl,-rpath," + folder + "/net"}) {
      build.push_back(word);
    }
    const auto built = run_tool(build, folder);
    ASSERT_TRUE(built.ok()) << built.error().message;
    if (cpp) {
      EXPECT_TRUE(run_tool({program}, folder).ok());
    } else {
      expect_close(run_program({program, "--threads", "2"}, folder, graph, inputs),
                   expected(graph, inputs));
    }
  }
}

std::string emit_name(const ::testing::TestParamInfo<Emit>& p) {
  return p.param == Emit::kShared ? "Shared" : p.param == Emit::kStatic ? "Static" : "Object";
}
INSTANTIATE_TEST_SUITE_P(All, EmitTest,
                         ::testing::Values(Emit::kShared, Emit::kStatic, Emit::kObject), emit_name);

TEST(CompileArtifact, MetadataIsInEveryFile) {
  for (const Emit emit : {Emit::kShared, Emit::kStatic, Emit::kObject}) {
    const std::string folder = fresh_folder() + "/net";
    const auto report = compile(two_layers(), folder, {.emit = emit});
    ASSERT_TRUE(report.ok()) << report.error().message;
    const Metadata& m = report->metadata;
    EXPECT_EQ(files_in(folder),
              (emit == Emit::kShared   ? Names{"libnet.so", "net.h", "net.json", "netConfig.cmake"}
               : emit == Emit::kStatic ? Names{"libnet.a", "net.h", "net.json", "netConfig.cmake"}
                                       : Names{"net.h", "net.json", "net.o", "netConfig.cmake"}));
    for (const std::string& path : {folder, folder + "/net.json", folder + "/" + m.library}) {
      const auto read = read_metadata(path);
      ASSERT_TRUE(read.ok()) << read.error().message;
      EXPECT_EQ(to_json(*read), to_json(m));
      EXPECT_TRUE(is_artifact(path));
    }
  }
}

TEST(CompileArtifact, DescribesTheModel) {
  const std::string folder = fresh_folder() + "/net";
  const auto report = compile(two_layers(), folder);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Metadata& m = report->metadata;
  EXPECT_EQ(m.inputs.size(), 1u);
  EXPECT_EQ(m.outputs.size(), 3u);
  EXPECT_EQ(m.outputs[1].name, "x again");
  EXPECT_EQ(m.outputs[2].dtype, DType::kI64);
  EXPECT_EQ(m.outputs[0].shape, (Shape{5, 7}));
  EXPECT_EQ(m.triple, target::host().triple);
  EXPECT_EQ(m.steps.size(), 2u);
  EXPECT_GT(m.weights_bytes, (24 * 40 + 40 * 7) * 4);
  EXPECT_EQ(m.model_digest.size(), 16u);
}

// f32 kernels run on processors of that kind without tiles, too.
TEST(CompileArtifact, AsksForTileRegistersWhereNarrowNumbersAreMultiplied) {
  const target::Target target = *target::find_target("sapphirerapids");
  for (const DType type : {DType::kF32, DType::kBF16}) {
    graph::GraphBuilder b("product");
    const graph::ValueId x = b.input("x", {type, {16, 64}});
    Rng rng(1);
    const graph::ValueId w = b.constant(random_tensor(type, {64, 32}, rng), "weight");
    const graph::Graph graph =
        b.finish({*b.add("contract", {x, w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}})}, {"y"});
    const auto report = compile_artifact(graph, target, fresh_folder() + to_text(type),
                                         {.name = "net", .emit = Emit::kObject});
    ASSERT_TRUE(report.ok()) << report.error().message;
    const Names& features = report->metadata.features;
    EXPECT_EQ(std::count(features.begin(), features.end(), "amx-tile"), type == DType::kBF16);
    EXPECT_EQ(std::count(features.begin(), features.end(), "avx512f"), 1);
  }
}

TEST(CompileArtifact, SameInputSameBytes) {
  for (const Emit emit : {Emit::kShared, Emit::kStatic, Emit::kObject}) {
    const std::string folder = fresh_folder();
    ASSERT_TRUE(compile(two_layers(), folder + "/a", {.emit = emit}).ok());
    ASSERT_TRUE(compile(two_layers(), folder + "/b", {.emit = emit}).ok());
    for (const std::string& name : files_in(folder + "/a")) {
      EXPECT_EQ(*read_file(fmt::format("{}/a/{}", folder, name)),
                *read_file(fmt::format("{}/b/{}", folder, name)))
          << name;
    }
  }
}

// Two artifacts of one program share no symbols.
TEST(CompileArtifact, StaticLibrariesLinkTogether) {
  const std::string folder = fresh_folder();
  ASSERT_TRUE(compile(two_layers(), folder + "/one", {.name = "one", .emit = Emit::kStatic}).ok());
  ASSERT_TRUE(compile(two_layers(), folder + "/two", {.name = "two", .emit = Emit::kObject}).ok());
  ASSERT_TRUE(write_file(folder + "/use.c",
                         {"#include \"one/one.h\"\n#include \"two/two.h\"\n"
                          "int main(void) { return one_info() == two_info() || "
                          "one_info()->name[0] != 'o' || two_info()->name[0] != 't'; }\n"})
                  .ok());
  const auto built = run_tool({"cc", "-Wl,--fatal-warnings", "use.c", "one/libone.a", "two/two.o",
                               "-o", "use", "-lm", "-pthread"},
                              folder);
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_TRUE(run_tool({folder + "/use"}, folder).ok());
}

TEST(CompileArtifact, DigestFollowsTheWeights) {
  const std::string folder = fresh_folder();
  graph::Graph graph = two_layers();
  const auto a = compile(graph, folder + "/a");
  ASSERT_TRUE(a.ok());
  for (graph::Value& v : graph.values) {
    if (v.is_constant && v.name == "bias") {
      v.constant = v.constant.clone();
      v.constant.set_float(0, 12345);
    }
  }
  const auto b = compile(graph, folder + "/b");
  ASSERT_TRUE(b.ok());
  EXPECT_NE(a->metadata.model_digest, b->metadata.model_digest);
  EXPECT_NE(a->metadata.weights_digest, b->metadata.weights_digest);
  EXPECT_EQ(a->metadata.plan_digest, b->metadata.plan_digest);
}

TEST(CompileArtifact, NeedsNothingButTheCLibrary) {
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(two_layers(), folder).ok());
  const auto printed = run_tool({"readelf", "-d", folder + "/libnet.so"}, folder);
  if (!printed.ok()) GTEST_SKIP() << "no readelf";
  for (std::size_t at = printed->find("(NEEDED)"); at != std::string::npos;
       at = printed->find("(NEEDED)", at + 1)) {
    const std::string line = printed->substr(at, printed->find('\n', at) - at);
    const bool allowed = line.find("[libc.so") != std::string::npos ||
                         line.find("[libm.so") != std::string::npos ||
                         line.find("[libpthread.so") != std::string::npos ||
                         line.find("[ld-linux") != std::string::npos;
    EXPECT_TRUE(allowed) << line;
  }
}

TEST(CompileArtifact, ExportsOnlyItsInterface) {
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(two_layers(), folder).ok());
  const auto printed = run_tool({"nm", "-D", "--defined-only", folder + "/libnet.so"}, folder);
  if (!printed.ok()) GTEST_SKIP() << "no nm";
  Names symbols;
  std::stringstream lines(*printed);
  for (std::string address, kind, name; lines >> address >> kind >> name;) symbols.push_back(name);
  EXPECT_EQ(symbols, (Names{"net_api", "net_close", "net_info", "net_memory_bytes", "net_open",
                            "net_open_variant", "net_run", "net_run_tensors", "net_variant"}));
}

TEST(CompileArtifact, WeightsFileHoldsNamesAndLayouts) {
  const std::string folder = fresh_folder() + "/net";
  const auto report = compile(two_layers(), folder, {.weights = WeightsPlace::kFile});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->metadata.weights_file, "net.safetensors");
  const auto file = read_safetensors(folder + "/net.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  int found = 0;
  for (const NamedTensor& t : file->tensors) found += t.name.find("weight") == 0 ? 1 : 0;
  EXPECT_EQ(found, 2);
  EXPECT_EQ(fs::file_size(folder + "/net.safetensors"),
            static_cast<std::uintmax_t>(report->metadata.weights_bytes));
}

TEST(CompileArtifact, ModelsWithoutKernels) {
  const graph::Graph graph = nothing();
  const std::string folder = fresh_folder() + "/net";
  const auto report = compile(graph, folder);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->metadata.weights_bytes, 0);
  const auto loaded = load_artifact(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto inputs = inputs_for(graph);
  const auto outputs = (*loaded)->run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close(*outputs, inputs);
}

TEST(CompileArtifact, HostOperatorsWithoutAFunctionAreNamed) {
  const std::string folder = fresh_folder();
  const auto report = compile(with_det(), folder + "/net");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(report.error().message.find("Det /head/det"), std::string::npos)
      << report.error().message;
  EXPECT_TRUE(files_in(folder).empty());
}

TEST(CompileArtifact, NoCompilerIsNamedAndLeavesNothing) {
  const std::string folder = fresh_folder();
  const auto report = compile(two_layers(), folder + "/net", {.cc = "no-such-compiler"});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(report.error().message.find("no-such-compiler"), std::string::npos);
  EXPECT_TRUE(files_in(folder).empty());
}

TEST(CompileArtifact, FailingCompilerShowsItsMessage) {
  const std::string folder = fresh_folder();
  ASSERT_TRUE(
      write_file(folder + "/cc.sh", {"#!/bin/sh\ncase \"$*\" in *probe.so*) exit 0 ;; esac\n"
                                     "echo \"disk full, says the compiler\" >&2; exit 1\n"})
          .ok());
  fs::permissions(folder + "/cc.sh", fs::perms::owner_all);
  const auto report = compile(two_layers(), folder + "/net", {.cc = folder + "/cc.sh"});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kBuildFailed);
  EXPECT_NE(report.error().message.find("disk full, says the compiler"), std::string::npos);
  EXPECT_EQ(files_in(folder), Names{"cc.sh"});
}

TEST(CompileArtifact, ReplacesAnOlderArtifactOnly) {
  const std::string folder = fresh_folder();
  ASSERT_TRUE(compile(two_layers(), folder + "/net", {.emit = Emit::kStatic}).ok());
  ASSERT_TRUE(compile(two_layers(), folder + "/net/").ok());
  EXPECT_EQ(files_in(folder + "/net"),
            (Names{"libnet.so", "net.h", "net.json", "netConfig.cmake"}));
  EXPECT_EQ(files_in(folder), Names{"net"});
  fs::create_directory(folder + "/mine");
  std::ofstream(folder + "/mine/thesis.txt") << "years of work";
  const auto refused = compile(two_layers(), folder + "/mine");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(*read_file(folder + "/mine/thesis.txt"), "years of work");
  EXPECT_EQ(files_in(folder), (Names{"mine", "net"}));
}

TEST(CompileArtifact, FilesBesideAnArtifactAreKept) {
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile(two_layers(), folder, {.emit = Emit::kObject}).ok());
  ASSERT_TRUE(compile(two_layers(), folder, {.weights = WeightsPlace::kFile}).ok());
  ASSERT_TRUE(compile(two_layers(), folder).ok());
  std::ofstream(folder + "/thesis.txt") << "years of work";
  const auto refused = compile(two_layers(), folder);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("thesis.txt"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(files_in(folder),
            (Names{"libnet.so", "net.h", "net.json", "netConfig.cmake", "thesis.txt"}));
}

TEST(CompileArtifact, TooManyWeightsToEmbedAreRefusedBeforeAnyWork) {
  const std::string folder = fresh_folder();
  const std::int64_t weights = (24 * 40 + 40 + 1 + 40 * 7 + 7) * 4 + 3 * 8;
  for (const Emit emit : {Emit::kShared, Emit::kStatic, Emit::kObject}) {
    ArtifactOptions options{.emit = emit, .weights = WeightsPlace::kEmbedded};
    std::size_t lowered = 0;
    options.model.schedule = [&](const task::Task&) -> Result<schedule::Schedule> {
      ++lowered;
      return make_error(ErrorCode::kBuildFailed, "no schedule was to be made");
    };
    options.most_embedded = weights - 1;
    const auto refused = compile(two_layers(), folder + "/net", options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("--weights file"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(lowered, 0u);
    EXPECT_EQ(files_in(folder), Names{});
    options.model.schedule = nullptr;
    options.weights = WeightsPlace::kFile;
    EXPECT_TRUE(compile(two_layers(), folder + "/net", options).ok());
    fs::remove_all(folder + "/net");
  }
  EXPECT_TRUE(check_weights_place(two_layers(), {.weights = WeightsPlace::kEmbedded}).ok());
}

// Packed weights may take more than those of the graph.
TEST(CompileArtifact, WhatPackingAddsIsCounted) {
  const std::string folder = fresh_folder();
  ArtifactOptions options{.emit = Emit::kObject, .weights = WeightsPlace::kEmbedded};
  options.most_embedded = (24 * 40 + 40 + 1 + 40 * 7 + 7) * 4 + 3 * 8;
  ASSERT_TRUE(check_weights_place(two_layers(), options).ok());
  const auto refused = compile(two_layers(), folder + "/net", options);
  ASSERT_FALSE(refused.ok()) << "the header of the file counts, too";
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(files_in(folder), Names{});
}

}  // namespace
}  // namespace tessera::artifact

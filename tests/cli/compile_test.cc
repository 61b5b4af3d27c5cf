// tessera compile: what it writes, and that nothing is left behind when it fails.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/model_files.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;

// An empty folder of the current test.
std::string fresh_folder() {
  const std::string folder = fs::path(write_file("marker", "")).parent_path().string();
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(text.substr(at, text.find('\n', at) - at));
  }
  return lines;
}

TEST(Compile, PrintsTheFilesItWrote) {
  const std::string folder = fresh_folder();
  const Finished done =
      run({"compile", "zoo:mlp", "-o", folder + "/out", "--emit", "a", "--weights", "file"});
  ASSERT_EQ(done.code, 0) << done.err;
  const std::vector<std::string> files = lines_of(done.out);
  EXPECT_EQ(files, (std::vector<std::string>{
                       folder + "/out/libmlp.a", folder + "/out/mlp.h", folder + "/out/mlp.json",
                       folder + "/out/mlpConfig.cmake", folder + "/out/mlp.safetensors"}));
  for (const std::string& file : files) EXPECT_TRUE(fs::exists(file)) << file;
  EXPECT_NE(done.err.find("mlp for "), std::string::npos) << done.err;
}

TEST(Compile, ComparesTheArtifactOrSaysThatItDidNot) {
  const std::string folder = fresh_folder() + "/out";
  const Finished plain = run({"compile", "zoo:mlp", "-o", folder});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_NE(plain.err.find("not compared with the model; --check compares it"), std::string::npos)
      << plain.err;
  const Finished checked = run({"compile", "zoo:mlp", "-o", folder, "--check"});
  ASSERT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.err.find("its outputs are those of the model, bit for bit"), std::string::npos)
      << checked.err;
  const Finished archive = run({"compile", "zoo:mlp", "-o", folder, "--check", "--emit", "a"});
  ASSERT_EQ(archive.code, 0) << archive.err;
  EXPECT_NE(archive.err.find("not compared with the model: "), std::string::npos) << archive.err;
  const Finished foreign =
      run({"compile", "zoo:mlp", "-o", folder, "--check", "--emit", "a", "--target", "h200"});
  ASSERT_EQ(foreign.code, 0) << foreign.err;
  EXPECT_NE(foreign.err.find("not compared with the model: its target is not this machine"),
            std::string::npos)
      << foreign.err;
}

TEST(Compile, SeveralTargetsAreVariantsOfOneLibrary) {
  const std::string folder = fresh_folder() + "/out";
  const Finished made = run({"compile", "zoo:mlp@hidden=32", "-o", folder, "--check", "--target",
                             "x86-64-v3,sapphirerapids,x86-64-v4", "--emit", "a"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.err.find("3 variants, tried in this order: sapphirerapids, x86-64-v4, x86-64-v3;"),
            std::string::npos)
      << made.err;
  const Finished info = run({"info", folder, "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  const nlohmann::json variants = nlohmann::json::parse(info.out).at("variants");
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants.at(2).at("name"), "x86-64-v3");
  EXPECT_GT(variants.at(0).at("needs").size(), variants.at(2).at("needs").size());
  const auto refused = [&](const std::vector<std::string>& flags, const std::string& said) {
    std::vector<std::string> words = {"compile", "zoo:mlp@hidden=32", "-o", folder, "--emit", "a"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Finished done = run(words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_NE(done.err.find(said), std::string::npos) << done.err;
  };
  refused({"--target", "x86-64-v3,neoverse-v1"}, "processors of one architecture");
  refused({"--target", "x86-64-v3,x86-64-v9"}, "x86-64-v9");
  refused({"--target", "x86-64-v3,x86-64-v4", "--picked", folder + "/p.plan"},
          "--picked is of one target");
}

TEST(Compile, ALibraryOfVariantsRuns) {
#if defined(__x86_64__)
  const std::string folder = fresh_folder() + "/out";
  const Finished made = run({"compile", "zoo:mlp@hidden=32", "-o", folder, "--check", "--target",
                             "x86-64-v3,sapphirerapids"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.err.find("its outputs are those of the model, bit for bit"), std::string::npos)
      << made.err;
  const Finished done = run({"run", folder, "--random"});
  EXPECT_EQ(done.code, 0) << done.err;
  const Finished timed = run(quick_bench({folder}));
  EXPECT_EQ(timed.code, 0) << timed.err;
#endif
}

TEST(Compile, OtherFloatsWhereTheMachineMultipliesThem) {
  const auto compile = [folder = fresh_folder()](std::vector<std::string> more) {
    std::vector<std::string> args = {"compile", "zoo:mlp", "-o", folder + "/out", "--emit", "obj"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  };
  const Finished wide = compile({"--target", "sapphirerapids"});
  ASSERT_EQ(wide.code, 0) << wide.err;
  EXPECT_NE(wide.err.find("sapphirerapids multiplies bf16: --dtype bf16"), std::string::npos)
      << wide.err;
  const Finished narrow = compile({"--target", "sapphirerapids", "--dtype", "bf16"});
  ASSERT_EQ(narrow.code, 0) << narrow.err;
  EXPECT_NE(narrow.err.find("100.0 % of multiplications in f16 or bf16"), std::string::npos)
      << narrow.err;
  EXPECT_EQ(narrow.err.find("multiplies bf16"), std::string::npos) << narrow.err;
  EXPECT_EQ(compile({"--target", "haswell"}).err.find("bf16"), std::string::npos);
  const Finished refused = compile({"--target", "haswell", "--dtype", "bf16"});
  EXPECT_EQ(refused.code, 5);
  EXPECT_NE(refused.err.find("haswell has no instructions that multiply it"), std::string::npos)
      << refused.err;
}

// Nothing is predicted of a whole model: no time, no interval, no gain.
TEST(Compile, SaysWhatToDoNextAndPromisesNothing) {
  const std::string folder = fresh_folder(), model = "zoo:mlp@layers=0,inputs=16";
  const std::string next = "to search for faster schedules by measuring: tessera tune " + model;
  for (const std::string judge : {"none", "shipped"}) {
    const Finished done = run({"compile", model, "-o", folder + "/out", "--emit", "a", "--threads",
                               "1", "--cost-model", judge});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.err.find(": 1 kernel, "), std::string::npos) << done.err;
    EXPECT_NE(done.err.find("\n" + next + "\n"), std::string::npos) << done.err;
    for (const char* word : {"predicted", "confidence", "expected", "candidate"}) {
      EXPECT_EQ(done.err.find(word), std::string::npos) << done.err;
    }
  }
  const Finished elsewhere =
      run({"compile", model, "-o", folder + "/out", "--emit", "obj", "--target", "haswell",
           "--threads", "2", "--cost-model", "shipped"});
  ASSERT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_NE(elsewhere.err.find("by measuring, on such a machine: tessera tune"), std::string::npos)
      << elsewhere.err;
  EXPECT_NE(elsewhere.err.find("several threads keeps its default schedules"), std::string::npos)
      << elsewhere.err;
}

TEST(Compile, CountsAreSingularAndEmpty) {
  const std::string folder = fresh_folder();
  const std::string scalar =
      save("scalar.onnx",
           make_model(make_graph({floats("x", {})}, {make_node("Exp", {"x"}, {"y"})}, {"y"})));
  const Finished one = run({"compile", scalar, "-o", folder + "/one", "--target", "h200"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.err.find("scalar for cuda: 1 kernel"), std::string::npos) << one.err;
  const std::string copy =
      save("copy.onnx",
           make_model(make_graph({floats("x", {"0"})}, {make_node("Exp", {"x"}, {"y"})}, {"y"})));
  const Finished none = run({"compile", copy, "-o", folder + "/none", "--target", "h200"});
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_NE(none.err.find("copy for cuda: 0 kernels, 0 bytes"), std::string::npos) << none.err;
}

TEST(Compile, NamesTheModelWhoseNodesRunOnTheHost) {
  const std::string folder = fresh_folder();
  const std::string model = save(
      "det.onnx",
      make_model(make_graph({floats("x", {"4", "4"})}, {make_node("Det", {"x"}, {"y"})}, {"y"})));
  const Finished done = run({"compile", model, "-o", folder + "/out"});
  EXPECT_EQ(done.code, 5);
  EXPECT_NE(done.err.find(
                model + ": artifacts have no function for some nodes, these nodes run on the host"),
            std::string::npos)
      << done.err;
}

TEST(Compile, JsonIsTheMetadata) {
  const std::string folder = fresh_folder();
  const Finished done =
      run({"compile", "zoo:mlp", "-o", folder + "/out", "--name", "my-net", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  nlohmann::json json = nlohmann::json::parse(done.out);
  for (const auto& layer : json["layers"]) {
    EXPECT_EQ(layer["type"], "f32");
    EXPECT_EQ(layer["reason"], "the model");
  }
  EXPECT_GT(json["layers"].size(), 1u);
  json.erase("layers");
  EXPECT_EQ(json, nlohmann::json::parse(read_file(folder + "/out/my_net.json")));
  EXPECT_EQ(json["library"], "libmy_net.so");
  EXPECT_EQ(done.err.find("multiply bytes"), std::string::npos) << done.err;
}

TEST(Compile, SaysWhichLayersMultiplyBytesAndWhy) {
  const std::string folder = fresh_folder();
  const auto compile = [&](const std::string& model, const std::string& target) {
    return run(
        {"compile", model, "-o", folder + "/out", "--emit", "obj", "--target", target, "--json"});
  };
  const Finished done = compile("zoo:mobilenet_v2@quant=qdq,size=32,classes=10", "sapphirerapids");
  ASSERT_EQ(done.code, 0) << done.err;
  std::map<std::string, std::map<std::string, int>> types;
  const nlohmann::json json = nlohmann::json::parse(done.out);
  for (const auto& layer : json["layers"]) {
    EXPECT_NE(layer["name"], "");
    ++types[layer["type"]][layer["reason"]];
  }
  EXPECT_EQ(types["u8 x i8"], (std::map<std::string, int>{{"the rules", 36}}));
  EXPECT_EQ(types["f32"], (std::map<std::string, int>{{"depthwise", 17}}));
  EXPECT_NE(done.err.find("36 of 53 layers multiply bytes; 17 in f32: depthwise"),
            std::string::npos)
      << done.err;
  // Nothing multiplies bytes there, so there was nothing to decide.
  const Finished floats = compile("zoo:mlp@quant=qdq", "haswell");
  ASSERT_EQ(floats.code, 0) << floats.err;
  EXPECT_EQ(floats.err.find("multiply bytes"), std::string::npos) << floats.err;
}

TEST(Compile, ALanguageModelThatIsNotThereIsRefused) {
  const std::string folder = fresh_folder();
  const Finished done =
      run({"compile", "zoo:mlp", "-o", folder + "/out", "--language", "/no/such.safetensors"});
  EXPECT_NE(done.code, 0);
  EXPECT_NE(done.err.find("/no/such.safetensors"), std::string::npos) << done.err;
  EXPECT_FALSE(fs::exists(folder + "/out"));
}

TEST(Compile, FullDiskLeavesNothing) {
  const std::string folder = fresh_folder();
  // A limit on the size of files fails like a full disk, when its signal is ignored.
  const Finished done =
      run_shell("trap '' XFSZ; ulimit -f 100; tessera compile zoo:mlp -o " + folder + "/out");
  EXPECT_EQ(done.code, 2) << done.err;
  EXPECT_NE(done.err.find("cannot write " + folder + "/out/"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("File too large"), std::string::npos) << done.err;
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(Compile, UnwritablePlaces) {
  const Finished proc = run({"compile", "zoo:mlp", "-o", "/proc/tessera/out"});
  EXPECT_EQ(proc.code, 2);
  EXPECT_NE(proc.err.find("cannot write /proc/tessera/out"), std::string::npos) << proc.err;
  const std::string file = write_file("file", "mine");
  const Finished exists = run({"compile", "zoo:mlp", "-o", file});
  EXPECT_EQ(exists.code, 2);
  EXPECT_NE(exists.err.find("not an artifact"), std::string::npos) << exists.err;
  EXPECT_EQ(read_file(file), "mine");
}

TEST(Compile, MissingCompilerIsUnreachable) {
  const std::string folder = fresh_folder();
  const Finished done =
      run({"compile", "zoo:mlp", "-o", folder + "/out", "--cc", "no-such-compiler"});
  EXPECT_EQ(done.code, 6) << done.err;
  EXPECT_NE(done.err.find("no-such-compiler"), std::string::npos) << done.err;
  EXPECT_TRUE(fs::is_empty(folder));
}

// Only where the other architecture's compiler is installed.
TEST(Compile, ForAnotherArchitecture) {
  const std::string folder = fresh_folder();
#if defined(__aarch64__)
  const std::string target = "x86-64-v3",
                    emulator = "qemu-x86_64 -L /usr/x86_64-linux-gnu -cpu max";
  const std::string cc = "x86_64-linux-gnu-gcc";
#else
  const std::string target = "armv8-a",
                    emulator = "qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu max";
  const std::string cc = "aarch64-linux-gnu-gcc";
#endif
  const Finished done =
      run({"compile", "zoo:mlp", "-o", folder + "/out", "--emit", "a", "--target", target});
  if (done.code == 6) GTEST_SKIP() << done.err;
  ASSERT_EQ(done.code, 0) << done.err;
  if (run_shell(cc + " --version").code != 0 || run_shell(emulator + " --version").code != 0) {
    GTEST_SKIP() << cc << " or " << emulator << " is not installed (package qemu-user)";
  }
  const auto metadata = nlohmann::json::parse(read_file(folder + "/out/mlp.json"));
  std::size_t floats = 1;
  for (const auto& d : metadata["inputs"][0]["shape"]) floats *= d.get<std::size_t>();
  write_file("input", std::string(4 * floats, '\0'));
  const Finished ran = run_shell(cc + " -DMODEL_HEADER='\"mlp.h\"' -DMODEL_API=mlp_api -I" +
                                 folder + "/out examples/c/run_artifact.c " + folder +
                                 "/out/libmlp.a -o " + folder + "/run -lm -pthread && " + emulator +
                                 " " + folder + "/run " + folder + "/input " + folder + "/output");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("f32"), std::string::npos) << ran.out;
}

TEST(Compile, SaysThatAppleMeansLinux) {
  const Finished done = run({"compile", "zoo:mlp", "-o", fresh_folder() + "/out", "--emit", "obj",
                             "--target", "apple-m1"});
  EXPECT_TRUE(done.code == 0 || done.code == 6) << done.err;
  EXPECT_NE(done.err.find("ELF files for Linux"), std::string::npos) << done.err;
}

// Compiled on any machine; run where there is a device.
TEST(Compile, ForGpus) {
  const std::string folder = fresh_folder();
  const Finished h200 = run({"compile", "zoo:mlp", "-o", folder + "/h200", "--target", "h200"});
  ASSERT_EQ(h200.code, 0) << h200.err;
  EXPECT_NE(h200.err.find("mlp for cuda: 3 kernels as ptx"), std::string::npos) << h200.err;
  const bool assembled = h200.err.find("as ptx, cubin") != std::string::npos;
  const bool later = h200.err.find("no ptxas was found: the driver assembles the kernels when") !=
                     std::string::npos;
  EXPECT_NE(assembled, later) << h200.err;
  const Finished absent = run({"run", folder + "/h200", "--random"});
  if (absent.code != 0) {
    EXPECT_EQ(absent.code, 6);
    EXPECT_NE(absent.err.find("no CUDA d"), std::string::npos) << absent.err;
  }
  const Finished twice = run({"run", folder + "/h200", "--random", "--target", "cuda"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("an artifact has its target; drop --target"), std::string::npos);
  for (const char* command : {"run", "bench"}) {
    const Finished batch = run({command, folder + "/h200", "--batch", "2"});
    EXPECT_EQ(batch.code, 2) << command;
    EXPECT_NE(batch.err.find("an artifact has its shapes; drop --batch"), std::string::npos)
        << batch.err;
  }
  const Finished beside = run({"bench", folder + "/h200", "--beside", "defaults"});
  EXPECT_EQ(beside.code, 2);
  EXPECT_NE(beside.err.find("an artifact has its schedules; drop --beside"), std::string::npos);
  const Finished bad = run({"compile", "zoo:mlp", "-o", folder + "/bad", "--target", "h300"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("h300"), std::string::npos) << bad.err;
  const Finished opencl =
      run({"compile", "zoo:mlp", "-o", folder + "/opencl", "--target", "opencl"});
  if (opencl.code == 6) GTEST_SKIP() << opencl.err;
  ASSERT_EQ(opencl.code, 0) << opencl.err;
  const Finished ran = run({"run", folder + "/opencl", "--random"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string here = run({"run", "zoo:mlp", "--random"}).out;
  EXPECT_EQ(ran.out.substr(0, ran.out.find(" min")), here.substr(0, here.find(" min")));
}

}  // namespace
}  // namespace tessera::cli

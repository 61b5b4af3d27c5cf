// tessera quantize: NumPy arrays and a float model in, a narrow model out.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/app/compile/load_graph.h"
#include "tests/cli/model_files.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

using nlohmann::json;
using onnx::testing::float_tensor;

std::string output() {
  const std::string path = write_file("narrow.onnx", "");
  std::filesystem::remove(path);
  return path;
}

std::string samples() {
  return save_arrays("x.npz", {{"x", float_tensor({4, 3}, {1, 0, 0, 1, 1, 2, -1, 3, 2, 1, 0, 1})}});
}

void expect_refused(const std::vector<std::string>& args, const std::string& said) {
  const Finished result = run(args);
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.code, 1) << result.err;
  EXPECT_NE(result.err.find(said), std::string::npos) << "no '" << said << "' in: " << result.err;
}

TEST(Quantize, WritesAModelAReportAndABarPerLayer) {
  const std::string model = save("m.onnx", linear_model()), out = output();
  const std::string page = write_file("page.html", "");
  const Finished r =
      run({"quantize", model, "--calibration", samples(), "-o", out, "--report", page});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("1 of 1 layer narrow"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("compared with float on 2 samples: cosine "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("###"), std::string::npos) << r.out;
  EXPECT_NE(read_file(page).find("<svg"), std::string::npos);
  EXPECT_EQ(run({"run", out, "--random"}).code, 0);
}

TEST(Quantize, FoldersAndSchemes) {
  const std::string model = save("m.onnx", linear_model());
  const std::string folder = std::filesystem::path(samples()).parent_path().string();
  for (const char* scheme : {"int8", "int8-dynamic", "int8-weights", "int4-weights", "fp8"}) {
    const Finished r = run(
        {"quantize", model, "--calibration", folder, "--scheme", scheme, "--json", "-o", output()});
    ASSERT_EQ(r.code, 0) << r.err;
    const json all = json::parse(r.out);
    EXPECT_EQ(all.at("narrow"), 1);
    EXPECT_GT(all.at("cosine"), 0.99);
    EXPECT_GT(all.at("layers").at(0).at("error"), 0);
  }
}

// Its convolutions of integers take bytes without sign alone.
TEST(Quantize, OnnxRuntimeRunsDynamicConvolutions) {
  if (run_shell("python3 -c 'import numpy, onnxruntime'").code != 0)
    GTEST_SKIP() << "no Python with onnxruntime";
  const std::string out = output(), folder = std::filesystem::path(out).parent_path().string();
  const Finished made = run({"quantize", "zoo:lenet", "--scheme", "int8-dynamic", "-o", out});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string script = write_file("beside.py", R"(
import subprocess, sys
import numpy, onnxruntime
model, folder = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
given = session.get_inputs()[0]
x = numpy.random.default_rng(1).standard_normal(given.shape).astype(numpy.float32)
numpy.savez(folder + "/given.npz", **{given.name: x})
subprocess.run(["tessera", "run", model, "--inputs", folder + "/given.npz", "-o", folder + "/made.npz"], check=True)
theirs = session.run(None, {given.name: x})[0]
made = numpy.load(folder + "/made.npz")
worst = numpy.abs(made[made.files[0]] - theirs).max() / numpy.abs(theirs).max()
sys.exit(f"differs by {worst}" if worst > 0.01 else 0)
)");
  const Finished beside = run_shell("python3 " + script + " " + out + " " + folder);
  EXPECT_EQ(beside.code, 0) << beside.err;
}

TEST(Quantize, ArraysOfSeveralBatchesAreSeveralSamples) {
  onnx::Model open = linear_model();
  open.graph.inputs = {floats("x", {"n", "3"})};
  const std::string model = save("open.onnx", open), x = samples();
  const Finished whole = run({"quantize", model, "--calibration", x, "-o", output()});
  EXPECT_NE(whole.out.find("on 1 sample:"), std::string::npos) << whole.out << whole.err;
  const Finished rows =
      run({"quantize", model, "--calibration", x, "-o", output(), "--shape", "x:1x3"});
  EXPECT_NE(rows.out.find("on 4 samples:"), std::string::npos) << rows.out << rows.err;
}

TEST(Quantize, RandomValuesWarnLoudly) {
  const Finished r =
      run({"quantize", "zoo:mlp@hidden=16", "--calibration", "random:2", "-o", output()});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("warning: calibrating with random values"), std::string::npos) << r.err;
}

// What ONNX Runtime makes of the file, where `./do peers` installed it.
void expect_peer_agrees(const std::vector<std::string>& flags) {
  const std::string out = output();
  std::vector<std::string> words = {"quantize", "zoo:lenet", "--calibration",
                                    "random:2", "-o",        out};
  words.insert(words.end(), flags.begin(), flags.end());
  const Finished r = run(words);
  ASSERT_EQ(r.code, 0) << r.err;
  std::vector<std::string> args = quick_bench({out, "--peers", "ort", "--json"});
  const Finished timed = run(args);
  ASSERT_EQ(timed.code, 0) << timed.err;
  const json peer = json::parse(timed.out).at("results").at(0).at("peers").at(0);
  if (peer.contains("absent")) GTEST_SKIP() << peer.at("absent");
  EXPECT_TRUE(peer.at("verified")) << peer;
}

TEST(Quantize, OnnxRuntimeRunsTheFile) { expect_peer_agrees({}); }
TEST(Quantize, OnnxRuntimeRunsShortFloats) { expect_peer_agrees({"--scheme", "fp8"}); }
TEST(Quantize, OnnxRuntimeRunsHalfBytes) { expect_peer_agrees({"--scheme", "int4-weights"}); }
TEST(Quantize, OnnxRuntimeRunsHalfBytesOfItsOwnForm) {
  expect_peer_agrees({"--scheme", "int4-weights", "--format", "contrib", "--asymmetric"});
}

TEST(Quantize, RefusesWrongFlagsBeforeItWorks) {
  const std::string model = save("m.onnx", linear_model()), out = output(), x = samples();
  expect_refused({"quantize", model, "-o", out}, "--scheme int8 needs --calibration");
  expect_refused({"quantize", model, "--calibration", x}, "--output");
  expect_refused({"quantize", model, "--calibration", x, "-o", "y.txt"}, "must end in .onnx");
  expect_refused({"quantize", model, "--calibration", x, "-o", "/no/such/folder/y.onnx"},
                 "/no/such/folder");
  expect_refused({"quantize", model, "--calibration", x, "-o", out, "--scheme", "int7"}, "int7");
  expect_refused({"quantize", model, "-o", out, "--scheme", "fp8"},
                 "--scheme fp8 needs --calibration");
  expect_refused({"quantize", model, "--calibration", x, "-o", out, "--block", "64"},
                 "--block is for --scheme int4-weights");
  expect_refused({"quantize", model, "-o", out, "--scheme", "int8-dynamic", "--format", "qdq"},
                 "--format is for --scheme int4-weights");
  expect_refused({"quantize", model, "-o", out, "--scheme", "int4-weights", "--block", "48"}, "48");
  expect_refused(
      {"quantize", model, "-o", out, "--scheme", "int4-weights", "--symmetric", "--asymmetric"},
      "not both");
  expect_refused({"quantize", model, "--calibration", x, "-o", out, "--method", "median"},
                 "median");
  expect_refused({"quantize", model, "--calibration", x, "-o", out, "--tolerance", "cosine=2"},
                 "from 0 to 1");
  for (const char* none : {"cosine=nan", "top1=-nan", "cosine=inf"}) {
    expect_refused({"quantize", model, "--calibration", x, "-o", out, "--tolerance", none},
                   "from 0 to 1");
  }
  expect_refused({"quantize", model, "--calibration", "random:0", "-o", out}, "from 1 to 10000");
  expect_refused({"quantize", model, "--calibration", "random", x, "-o", out}, "alone");
  expect_refused({"quantize", model, "--calibration", x, "random", "-o", out}, "alone");
  expect_refused({"quantize", model, "--calibration", "random:", "-o", out}, "from 1 to 10000");
  expect_refused({"quantize", model, "--calibration", x, "-o", out, "--keep", "nothing"},
                 "no layer is called 'nothing'");
  expect_refused({"quantize", model, "--calibration", "/no/such.npz", "-o", out}, "/no/such.npz");
  expect_refused({"quantize", model, "--calibration",
                  save_arrays("z.npz", {{"z", float_tensor({1}, {1})}}), "-o", out},
                 "the model has no input 'z'");
  expect_refused(
      {"quantize", model, "--calibration", x,
       save_arrays("w.npz", {{"x", float_tensor({3, 3}, std::vector<double>(9, 1))}}), "-o", out},
      "same shapes");
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(Quantize, AToleranceThatDoesNotHoldIsSaid) {
  const std::string model = save("m.onnx", linear_model());
  const Finished r = run(
      {"quantize", model, "--calibration", samples(), "-o", output(), "--tolerance", "cosine=1"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("0 of 1 layer narrow"), std::string::npos) << r.out;
}

}  // namespace
}  // namespace tessera::cli

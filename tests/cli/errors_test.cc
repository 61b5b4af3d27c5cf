// Wrong input: exit code 2, one message on stderr that names the input, nothing on stdout.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

using Args = std::vector<std::string>;

struct Mistake {
  const char* name;
  Args args;
  Args said;  // parts of the message
};

void expect_refused(const Args& args, const Args& said) {
  const Finished result = run(args);
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.out, "");
  for (const std::string& part : said) {
    EXPECT_NE(result.err.find(part), std::string::npos) << "no '" << part << "' in: " << result.err;
  }
  EXPECT_EQ(result.err.find("internal error"), std::string::npos) << result.err;
}

class Refused : public ::testing::TestWithParam<Mistake> {};

TEST_P(Refused, WithReason) { expect_refused(GetParam().args, GetParam().said); }

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"Command",
       {"shwo"},
       {"shwo", "bench, cache, check, compile", "show, study, targets, tasks, train, tune, zoo"}},
      {"NothingAtAll", {}, {"Usage: tessera [OPTIONS] SUBCOMMAND", "\n  bench  ", "Examples:"}},
      {"NoSubcommand", {"dataset"}, {"Usage: tessera dataset ", "\n  import  "}},
      {"MisspeltSubcommand",
       {"dataset", "colect", "zoo:mlp"},
       {"tessera: dataset has no command 'colect'; did you mean 'collect'? Commands: collect, "}},
      {"UnlikeASubcommand", {"cache", "me"}, {"cache has no command 'me'. Commands: show, clear"}},
      {"UnlikeACommand", {"frobnicate"}, {"no command 'frobnicate'. Commands: agent, bench, "}},
      {"MisspeltCommand", {"bnech"}, {"no command 'bnech'; did you mean 'bench'?"}},
      {"Flag",
       {"bench", "--opp", "matmul"},
       {"tessera: no flag '--opp'; did you mean '--op'? (`tessera bench --help` explains)"}},
      {"FlagLikeNone", {"cache", "show", "--frobnicate=3"}, {"no flag '--frobnicate' ("}},
      {"Argument", {"check", "a.onnx", "b.onnx"}, {"unexpected argument 'b.onnx'"}},
      {"Value",
       {"bench", "zoo:lenet", "--threads", "0"},
       {"tessera: --threads: ", "(`tessera bench"}},
      {"TuneElsewhere",
       {"tune", "--op", "matmul:M=4,N=4,K=4", "--target", "h200"},
       {"target h200: candidates are measured on the machine at hand: host, cuda or opencl"}},
      {"CollectElsewhere",
       {"dataset", "collect", "--op", "matmul:M=4,N=4,K=4", "--db", "x.db", "--target", "h2000"},
       {"h2000"}},
      {"CollectType",
       {"dataset", "collect", "zoo:lenet", "--db", "x.db", "--dtype", "f32,f33"},
       {"dtype f33: write f32, f16 or bf16"}},
      {"TuneType",
       {"tune", "zoo:lenet", "--dtype", "f33", "--db", ""},
       {"dtype f33: write f32, f16 or bf16"}},
      {"NoFileNorDefault",
       {"bench", "--op", "matmul:M=4,N=4,K=4", "--schedule", "absent.txt"},
       {"--schedule: File does not exist: absent.txt, and absent.txt not in {default} ("}},
      {"AbsentModelOfTune",
       {"tune", "absent.onnx", "--db", ""},
       {"tessera: cannot read 'absent.onnx': No such file or directory"}},
      {"NothingToBench", {"bench"}, {"--op", "--suite"}},
      {"NoOp", {"show"}, {"give a model or --op"}},
      {"EmptySpec", {"bench", "--op", ""}, {"unknown operation ''"}},
      {"Operation", {"bench", "--op", "matmull:M=1"}, {"'matmull'", "did you mean 'matmul'?"}},
      {"Parameter", {"bench", "--op", "matmul:M=4,N=4,Q=4"}, {"'Q'", "Valid: M, N, K"}},
      {"StageOfAnotherKind",
       {"show", "--op", "matmul:M=4,N=4,K=4", "--stage", "ptx"},
       {"--stage ptx is of cuda targets; host is none"}},
      {"NotNameValue", {"show", "--op", "matmul:M"}, {"'M' is not NAME=VALUE"}},
      {"NotANumber", {"show", "--op", "matmul:M=four,N=4,K=4"}, {"M=four"}},
      {"GivenTwice", {"show", "--op", "matmul:M=4,M=4,N=4,K=4"}, {"M is given twice"}},
      {"TrailingComma", {"show", "--op", "matmul:M=4,"}, {"trailing comma"}},
      {"MissingParameter", {"show", "--op", "matmul:M=4"}, {"N (", "must be given"}},
      {"DType", {"show", "--op", "matmul:M=4,N=4,K=4,dtype=f33"}, {"dtype=f33"}},
      {"Choice",
       {"show", "--op", "conv2d:N=1,H=8,W=8,CI=4,CO=4,KH=3,KW=3,algo=fft"},
       {"algo=fft", "winograd2"}},
      {"LargestInteger",
       {"bench", "--op", "matmul:M=9223372036854775807,N=4,K=4"},
       {"outside 1..2147483647"}},
      {"OverflowingBytes",
       {"bench", "--op", "matmul:M=4611686018427387904,N=4,K=4"},
       {"outside 1..2147483647"}},
      {"BeyondIntegers",
       {"bench", "--op", "matmul:M=99999999999999999999,N=4,K=4"},
       {"not an integer in range"}},
      {"OverflowingProduct",
       {"bench", "--op", "matmul:M=2147483647,N=2147483647,K=4"},
       {"too large"}},
      {"OverflowingBatch",
       {"show", "--op", "bmm:B=2147483647,M=2147483647,N=2147483647,K=2"},
       {"too large"}},
      {"ZeroSize", {"bench", "--op", "matmul:M=0,N=4,K=4"}, {"M=0 is outside"}},
      {"NegativeSize", {"bench", "--op", "matmul:M=-8,N=4,K=4"}, {"M=-8 is outside"}},
      {"EmptyOutput", {"show", "--op", "conv2d:N=1,H=2,W=2,CI=4,CO=4,KH=3,KW=3"}, {"conv2d"}},
      {"Target",
       {"show", "--op", "matmul:M=4,N=4,K=4", "--target", "skylake"},
       {"'skylake'", "neoverse-v1", "znver4"}},
      {"Stage",
       {"show", "--op", "matmul:M=4,N=4,K=4", "--stage", "tpx"},
       {"tpx", "te,schedule,ir,llvm,asm,ptx,sass,opencl"}},
      {"PrintAfter",
       {"show", "--op", "matmul:M=4,N=4,K=4", "--print-after", "fold"},
       {"'fold'", "vectorize_loops"}},
      {"StopAfter",
       {"show", "--op", "matmul:M=4,N=4,K=4", "--stop-after", "fold"},
       {"'fold'", "vectorize_loops"}},
      {"Skip",
       {"show", "--op", "matmul:M=4,N=4,K=4", "--skip", "fold"},
       {"'fold'", "vectorize_loops"}},
      {"Peer", {"bench", "--op", "matmul:M=4,N=4,K=4", "--peers", "mkl"}, {"'mkl'", "openblas"}},
      {"MisspeltPeer",
       {"tune", "zoo:mlp", "--peers", "openvinu", "--db", ""},
       {"no peer 'openvinu'; did you mean 'openvino'?"}},
      {"NoneBesideAPeer",
       {"bench", "zoo:mlp", "--peers", "ort,none"},
       {"--peers ort,none: 'none' stands alone"}},
      {"NoThreads", {"bench", "--op", "matmul:M=4,N=4,K=4", "--threads", "0"}, {"--threads"}},
      {"NoSamples", {"bench", "--op", "matmul:M=4,N=4,K=4", "--samples", "0"}, {"--samples"}},
      {"NoBudget",
       {"tune", "zoo:mlp", "--budget", "0s", "--db", ""},
       {"--budget: must be more than 0, or none"}},
      {"NoTime", {"bench", "--op", "matmul:M=4,N=4,K=4", "--time-limit", "-1"}, {"--time-limit"}},
      {"ScheduleFile",
       {"show", "--op", "matmul:M=4,N=4,K=4", "--schedule", "/no/such.txt"},
       {"/no/such.txt"}},
      {"ScheduleFolder", {"show", "--op", "matmul:M=4,N=4,K=4", "--schedule", "/"}, {"directory"}},
      {"BenchScheduleFile",
       {"bench", "--op", "matmul:M=4,N=4,K=4", "--schedule", "/no/such.txt"},
       {"/no/such.txt"}},
      {"ConformanceFolder", {"conformance", "/no/such"}, {"/no/such"}},
      {"ConformanceNothing", {"conformance", TESSERA_ROOT "/docs"}, {"docs: no case"}},
      {"SuiteFile", {"bench", "--suite", "/no/such.txt"}, {"/no/such.txt"}},
      {"ScheduleBesidePlan",
       {"bench", "--op", "matmul:M=4,N=4,K=4", "--schedule", "default", "--plan", "a.plan"},
       {"--plan excludes --schedule"}},
      {"ScheduleOfAModel",
       {"bench", "zoo:mlp", "--schedule", "default"},
       {"--schedule is for operations, not for models"}},
      {"ProfileOfAnOperation",
       {"bench", "--op", "matmul:M=4,N=4,K=4", "--profile"},
       {"--profile is for models, not for operations"}},
      {"BesideAnOperation",
       {"bench", "--op", "matmul:M=4,N=4,K=4", "--beside", "defaults"},
       {"--beside is for models, not for operations"}},
      {"BesideAPlanThatIsNotThere",
       {"bench", "zoo:mlp", "--beside", "no-such.plan"},
       {"no-such.plan"}},
  };
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cli, Refused, ::testing::ValuesIn(mistakes()),
                         [](const auto& mistake) { return std::string(mistake.param.name); });

// Both commands read schedules; both must name the file and what in it is wrong.
void expect_bad_schedule(const std::string& text, const Args& said) {
  const std::string file = write_file("schedule.txt", text);
  for (const char* command : {"show", "bench"}) {
    SCOPED_TRACE(command);
    expect_refused({command, "--op", "matmul:M=8,N=8,K=8", "--schedule", file}, said);
  }
}

TEST(BadSchedule, UnknownStepNamesFileAndLine) {
  expect_bad_schedule("# comment\n\nspllit C i 4\n",
                      {"schedule.txt", "line 3", "'spllit'", "follow_split"});
}

TEST(BadSchedule, MissingArgument) {
  expect_bad_schedule("split C i\n", {"line 1", "missing length"});
}

TEST(BadSchedule, TooManyArguments) {
  expect_bad_schedule("compute_root C now\n", {"line 1", "unexpected 'now'"});
}

TEST(BadSchedule, NotANumber) { expect_bad_schedule("split C i four\n", {"line 1", "'four'"}); }

TEST(BadSchedule, UnknownAnnotation) {
  expect_bad_schedule("annotate C i vectorise\n", {"line 1", "'vectorise'"});
}

TEST(BadSchedule, IllegalStepIsNamed) {
  expect_bad_schedule("split C i 4\nannotate C k parallel\n",
                      {"step 1 'annotate C k parallel'", "reduction", "rfactor"});
}

TEST(BadSchedule, UnknownLoopListsLoops) {
  expect_bad_schedule("split C i 4\nsplit C i 2\n", {"step 1 'split C i 2'", "i.0 i.1 j k"});
}

TEST(BadSchedule, UnknownStageListsStages) {
  expect_bad_schedule("split D i 4\n", {"step 0 'split D i 4'", "D", "C"});
}

TEST(BadSchedule, OverflowingSplit) {
  expect_bad_schedule("split C i 2147483647 2147483647 2147483647\n", {"too large"});
}

TEST(BadSchedule, GpuThreadsOnACpu) {
  expect_bad_schedule("annotate C i threadIdx.x\n", {"bound to GPU threads"});
}

TEST(AbsentModel, IsNamedOnce) {
  const std::string folder = write_file("marker", "") + ".out";
  for (const Args& command :
       {Args{"dataset", "graphs"}, Args{"dataset", "sample"}, Args{"lm", "corpus"}}) {
    Args args = command;
    args.insert(args.end(), {"absent.onnx", "-o", folder});
    const Finished result = run(args);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_NE(result.err.find("cannot read 'absent.onnx'"), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("absent.onnx: "), std::string::npos) << result.err;
  }
}

TEST(BadSuite, NamesFileAndLine) {
  const std::string file =
      write_file("suite.txt", "# sizes\nmatmul:M=4,N=4,K=4\n\nmatmul:M=4,N=4\n");
  expect_refused({"bench", "--suite", file}, {"suite.txt: line 4", "K"});
}

TEST(BadSuite, OnlyComments) {
  expect_refused({"bench", "--suite", write_file("suite.txt", "# nothing\n\n")}, {"nothing to do"});
}

}  // namespace
}  // namespace tessera::cli

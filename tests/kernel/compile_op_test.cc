#include "tessera/backend/kernel/compile_op.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tests/testing/testing.h"

namespace tessera::kernel {
namespace {

te::Dag dag_of(const std::string& spec) {
  return te::make_dag(te::parse_op_spec(spec).value()).value();
}

void expect_error(const Result<CompiledOp>& op, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(op.ok());
  EXPECT_EQ(op.error().code, code) << op.error().message;
  EXPECT_NE(op.error().message.find(part), std::string::npos) << op.error().message;
}

TEST(CompileOp, ErrorsNameTheirPlace) {
  const te::Dag dag = dag_of("matmul:M=4,N=4,K=4");
  expect_error(compile_op(dag, "split C i 2\nspilt C j 2\n", target::host()),
               ErrorCode::kInvalidArgument, "line 2: unknown step 'spilt'");
  expect_error(compile_op(dag, "split C i 2\nsplit D j 2\n", target::host()),
               ErrorCode::kIllegalSchedule, "step 1 'split D j 2': no stage D");
  expect_error(compile_op(dag, "annotate C i threadIdx.x\n", target::host()),
               ErrorCode::kIllegalSchedule, "GPU threads");
  expect_error(compile_op(dag, "tensorize C j dot4\n", target::host()), ErrorCode::kIllegalSchedule,
               "tensorize dot4");
}

TEST(CompileOp, RefusesATargetThatCannotRunHere) {
  const char* foreign =
      target::host().arch == target::Arch::kAArch64 ? "skylake-avx512" : "neoverse-v1";
  expect_error(compile_op(dag_of("matmul:M=4,N=4,K=4"), "", target::find_target(foreign).value()),
               ErrorCode::kUnsupported, "");
}

TEST(CompileOp, ReportsEveryStepInOrder) {
  const auto op = compile_op(dag_of("matmul:M=4,N=4,K=4"), "", target::host());
  ASSERT_TRUE(op.ok()) << op.error().message;
  std::vector<std::string> names;
  double sum = 0;
  for (const lower::PassTime& t : op->times) {
    names.push_back(t.name);
    EXPECT_GE(t.ms, 0);
    sum += t.ms;
  }
  ASSERT_EQ(names.size(), lower::pass_names(target::host()).size() + 5);
  EXPECT_EQ(names.front(), "apply_schedule");
  EXPECT_EQ(names[1], "build_loop_nest");
  EXPECT_EQ(names.back(), "load");
  EXPECT_LE(sum, op->total_ms * 1.01);
}

// Compiles, runs twice and compares with the interpreter.
void expect_runs(const char* spec, const std::string& schedule, int threads) {
  const te::Dag dag = dag_of(spec);
  const auto op = compile_op(dag, schedule, target::host());
  ASSERT_TRUE(op.ok()) << op.error().message;
  runtime::ThreadPool pool({.threads = threads});
  runtime::CpuDevice device(pool);
  OpRunner runner(*op, device);
  for (const std::uint64_t seed : {1u, 2u}) {
    const std::vector<HostTensor> inputs = random_inputs(dag, seed);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ASSERT_TRUE(runner.set_input(i, inputs[i]).ok());
    ASSERT_TRUE(runner.run().ok());
    const auto want = interp::run(dag, inputs);
    ASSERT_TRUE(want.ok()) << want.error().message;
    for (std::size_t o = 0; o < want->size(); ++o) {
      EXPECT_EQ(testing::mismatch(runner.output(o).value(), (*want)[o],
                                  testing::tolerance((*want)[o].dtype(), 64)),
                "");
    }
  }
}

TEST(OpRunner, ComputesTheDag) {
  expect_runs("matmul:M=17,N=19,K=13", "", 1);
  expect_runs("matmul:M=17,N=19,K=13",
              "split C i 4 tail=peel\nannotate C i.0 parallel\nannotate C i.1 unroll\n", 3);
  expect_runs("softmax:R=5,C=33", "annotate Y r parallel\n", 2);
  expect_runs("reduce:R=5,C=9,op=argmax", "", 1);
}

// The first NaN of a row is its largest and its smallest element, in every order of the loops.
TEST(OpRunner, ArgReductionsFindTheFirstNan) {
  constexpr std::int64_t kRows = 7, kColumns = 24;
  runtime::ThreadPool pool({.threads = 1});
  runtime::CpuDevice device(pool);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kF64}) {
    HostTensor x(dtype, {kRows, kColumns});
    Rng rng(3);
    for (std::int64_t i = 0; i < x.size(); ++i)
      x.set_float(i, static_cast<double>(rng.between(-9, 9)));
    for (std::int64_t r = 1; r < kRows; ++r) {  // row 0 has none, row 6 nothing else
      for (std::int64_t k = r == 6 ? 0 : 4 * r - 1; k < kColumns; k += r == 6 ? 1 : 5)
        x.set_float(r * kColumns + k, std::nan(""));
    }
    for (const char* kind : {"argmax", "argmin"}) {
      const te::Dag dag = dag_of(
          fmt::format("reduce:R={},C={},op={},dtype={}", kRows, kColumns, kind, to_text(dtype)));
      const auto want = interp::run(dag, {x});
      ASSERT_TRUE(want.ok()) << want.error().message;
      for (const char* schedule :
           {"", "split Y c 8\nrfactor Y c.1 1\nannotate Y.rf c.1 vectorize\n",
            "annotate Y r vectorize\n"}) {
        const auto op = compile_op(dag, schedule, target::host());
        ASSERT_TRUE(op.ok()) << schedule << op.error().message;
        OpRunner runner(*op, device);
        ASSERT_TRUE(runner.set_input(0, x).ok());
        ASSERT_TRUE(runner.run().ok());
        const HostTensor at = runner.output(1).value();
        EXPECT_EQ(testing::mismatch(at, (*want)[1], 0), "") << kind << schedule;
        for (std::int64_t r = 1; r < kRows; ++r)
          EXPECT_EQ(at.get_int(r), r == 6 ? 0 : 4 * r - 1) << kind << schedule;
        EXPECT_TRUE(std::isnan(runner.output(0).value().get_float(3)));
      }
    }
  }
}

TEST(OpRunner, PacksConstantInputs) {
  expect_runs("dense:M=5,N=10,K=7", "layout W d0/4 d1 d0%4\nsplit C j 4 tail=peel\n", 1);
  expect_runs("conv2d:N=1,H=5,W=6,CI=3,CO=10,KH=3,KW=3,P=1", "layout W d0/4 d2 d3 d1 d0%4\n", 1);
}

TEST(OpRunner, RefusesOtherTypesAndShapes) {
  const auto op = compile_op(dag_of("matmul:M=4,N=4,K=4"), "", target::host());
  ASSERT_TRUE(op.ok());
  runtime::ThreadPool pool({.threads = 1});
  runtime::CpuDevice device(pool);
  OpRunner runner(*op, device);
  const auto shape = runner.set_input(1, HostTensor(DType::kF32, {4, 5}));
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(shape.error().message, "input B must be f32 4x4, not f32 4x5");
  const auto type = runner.set_input(0, HostTensor(DType::kF64, {4, 4}));
  ASSERT_FALSE(type.ok());
  EXPECT_EQ(type.error().message, "input A must be f32 4x4, not f64 4x4");
}

TEST(RandomInputs, AreRepeatableAndIndexWithinRange) {
  const te::Dag dag = dag_of("gather:R=7,C=3,I=50");
  const std::vector<HostTensor> a = random_inputs(dag, 5), b = random_inputs(dag, 5),
                                c = random_inputs(dag, 6);
  ASSERT_EQ(a.size(), 2u);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(testing::mismatch(a[i], b[i], 0), "");
  EXPECT_NE(testing::mismatch(a[0], c[0], 0), "");
  ASSERT_EQ(a[1].dtype(), DType::kI64);
  for (std::int64_t i = 0; i < a[1].size(); ++i) {
    EXPECT_GE(a[1].get_int(i), 0);
    EXPECT_LT(a[1].get_int(i), 7);
  }
  EXPECT_TRUE(interp::run(dag, a).ok());
}

}  // namespace
}  // namespace tessera::kernel

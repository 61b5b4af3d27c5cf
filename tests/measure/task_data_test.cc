#include "tessera/trials/measure/task_data.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/trials/measure/reference.h"

namespace tessera::measure {
namespace {

te::Dag dag_of(const char* spec) { return te::make_dag(te::parse_op_spec(spec).value()).value(); }

TEST(CompareOutput, AllowsRoundingOnly) {
  const te::Dag dag = dag_of("matmul:M=4,N=4,K=64");
  HostTensor want(DType::kF32, {4, 4});
  for (std::int64_t i = 0; i < 16; ++i) want.set_float(i, static_cast<double>(i));
  HostTensor got = want.clone();
  got.set_float(3, 3 + 1e-5);
  EXPECT_EQ(compare_output(dag, 0, want, got.as<std::byte>()), "");
  got.set_float(3, 3.1);
  EXPECT_EQ(compare_output(dag, 0, want, got.as<std::byte>()),
            "1 of 16 elements differ, the first at 3: 3.1, not 3");
  got.set_float(3, NAN);
  EXPECT_NE(compare_output(dag, 0, want, got.as<std::byte>()), "");
  want.set_float(3, NAN);
  EXPECT_EQ(compare_output(dag, 0, want, got.as<std::byte>()), "");
  want.set_float(3, INFINITY);
  EXPECT_NE(compare_output(dag, 0, want, got.as<std::byte>()), "");
  got.set_float(3, INFINITY);
  EXPECT_EQ(compare_output(dag, 0, want, got.as<std::byte>()), "");
}

class ComparedTypes : public ::testing::TestWithParam<DType> {};

// Longer than what is compared at once, and no multiple of it.
TEST_P(ComparedTypes, AWrongElementIsFoundWhereverItIs) {
  te::DagBuilder b("wide");
  const ir::Buffer x = b.input("x", GetParam(), {1300});
  const ir::Buffer y = b.compute("y", {{"i", 1300}}, [&](const te::Indices& i) {
    return te::at(x, i) * ir::imm(GetParam(), 3);
  });
  const te::Dag dag = b.build({y});
  HostTensor want(GetParam(), {1300});
  for (std::int64_t i = 0; i < 1300; ++i) want.set_float(i, static_cast<double>(i % 7) - 3);
  want.set_float(800, INFINITY);
  want.set_float(801, NAN);
  const OutputComparer comparer(dag, 0, want);
  EXPECT_EQ(comparer.compare(want.as<std::byte>()), "");
  HostTensor other = want.clone();
  other.set_float(900, want.get_float(900) * (1 + 1e-7) + 1e-7);
  EXPECT_EQ(comparer.compare(other.as<std::byte>()), "") << "rounding";
  for (const std::int64_t at : {0, 511, 512, 800, 801, 1023, 1024, 1299}) {
    for (const double wrong : {5.0, static_cast<double>(NAN), static_cast<double>(-INFINITY)}) {
      if (at == 801 && std::isnan(wrong)) continue;
      HostTensor got = want.clone();
      got.set_float(at, wrong);
      EXPECT_NE(comparer.compare(got.as<std::byte>())
                    .find(fmt::format("1 of 1300 elements differ, the first at {}:", at)),
                std::string::npos)
          << at << " " << wrong;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ComparedTypes,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16));

TEST(CompareOutput, NothingButNanVerifiesNothing) {
  const te::Dag dag = dag_of("matmul:M=4,N=4,K=64");
  HostTensor want(DType::kF32, {4, 4});
  for (std::int64_t i = 0; i < 16; ++i) want.set_float(i, NAN);
  const HostTensor got = want.clone();
  EXPECT_NE(compare_output(dag, 0, want, got.as<std::byte>()), "");
}

TEST(CompareOutput, IntegersAreExact) {
  const te::Dag dag = dag_of("matmul:M=4,N=4,K=64,dtype=i8");
  const HostTensor want(DType::kI32, {16});
  HostTensor got = want.clone();
  EXPECT_EQ(compare_output(dag, 0, want, got.as<std::byte>()), "");
  got.set_int(0, 1);
  EXPECT_NE(compare_output(dag, 0, want, got.as<std::byte>()), "");
}

// round(3 x) as bytes.
te::Dag quantising() {
  te::DagBuilder b("quantise");
  const ir::Buffer x = b.input("x", DType::kF32, {1000});
  const ir::Buffer y = b.compute("y", {{"i", 1000}}, [&](const te::Indices& i) {
    return ir::cast(DType::kI8, ir::Call::make(ir::Intrinsic::kRound,
                                               {te::at(x, i) * ir::imm(DType::kF32, 3)}));
  });
  return b.build({y});
}

TEST(CompareOutput, QuantisedNumbersMayBeTheNextOneAtABorderOnly) {
  const te::Dag dag = quantising();
  const HostTensor want(DType::kI8, {1000});
  HostTensor before(DType::kF64, {1000});
  before.set_float(0, 100);  // the range
  before.set_float(1, 0.5 - 1e-6);
  before.set_float(2, 0.49);
  before.set_float(3, -0.5);
  const auto compare = [&](std::int64_t at, std::int64_t value) {
    HostTensor got = want.clone();
    got.set_int(at, value);
    return compare_output(dag, 0, want, got.as<std::byte>(), Products::kExact, before);
  };
  EXPECT_EQ(compare(1, 1), "");
  EXPECT_EQ(compare(3, -1), "");
  EXPECT_NE(compare(1, -1), "") << "the border is on the other side";
  EXPECT_NE(compare(1, 2), "") << "two steps";
  EXPECT_EQ(compare(2, 1), "1 of 1000 elements differ, the first at 2: 1, not 0") << "no border";
  HostTensor got = want.clone();
  got.set_int(1, 1);
  EXPECT_NE(compare_output(dag, 0, want, got.as<std::byte>()), "") << "nothing says what it was";
}

// The range saturates: what lies beyond it is at no border.
TEST(CompareOutput, SaturatedNumbersAreExact) {
  const te::Dag dag = quantising();
  HostTensor want(DType::kI8, {1000}), before(DType::kF64, {1000});
  want.set_int(7, 127);
  before.set_float(7, 139.5);
  HostTensor got = want.clone();
  got.set_int(7, 126);
  EXPECT_NE(compare_output(dag, 0, want, got.as<std::byte>(), Products::kExact, before), "");
}

TEST(Reference, OfIntegersHasWhatTheyWereBefore) {
  const te::Dag dag = quantising();
  runtime::ThreadPool pool({.threads = 1});
  const std::vector<HostTensor> inputs = kernel::random_inputs(dag, 1);
  SharedReference shared(dag);
  const auto made = shared_expected(shared, dag, inputs, target::host(), pool, {});
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Expected kept = shared.expected();
  for (const Expected* e : {&*made, &kept}) {
    ASSERT_TRUE(e->before.size() == 1 && e->before[0]);
    for (std::int64_t i = 0; i < 1000; ++i) {
      ASSERT_FLOAT_EQ(static_cast<float>(e->before[0]->get_float(i)),
                      3 * static_cast<float>(inputs[0].get_float(i)));
      ASSERT_EQ(e->outputs[0].get_int(i), std::nearbyint(e->before[0]->get_float(i)));
    }
  }
}

class References : public ::testing::TestWithParam<const char*> {};

TEST_P(References, AreComputedOnceAndShared) {
  const te::Dag dag = dag_of(GetParam());
  runtime::ThreadPool pool({.threads = 1});
  SharedReference shared(dag);
  EXPECT_FALSE(shared.ready());
  const auto reasoned = [](const te::Dag& d, const target::Target& target) {
    return space::default_schedule(d, target);
  };
  const auto expected = [&](const std::vector<HostTensor>& inputs) {
    return shared_expected(shared, dag, inputs, target::host(), pool, reasoned);
  };
  const auto first = TaskData::make(dag, 1, expected);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_TRUE(shared.ready());
  const auto second = TaskData::make(dag, 1, expected);
  ASSERT_TRUE(second.ok());
  (*second)->clear_outputs();
  EXPECT_NE((*second)->wrong_output(), "");
  const std::vector<HostTensor> want = shared.expected().outputs;
  for (std::size_t o = 0; o < want.size(); ++o)
    std::memcpy((*second)->outputs()[o], want[o].data(), want[o].bytes());
  EXPECT_EQ((*second)->wrong_output(), "");
  EXPECT_EQ((*second)->damage(), "");
}

INSTANTIATE_TEST_SUITE_P(All, References,
                         ::testing::Values("matmul:M=9,N=7,K=33", "matmul:M=512,N=640,K=512",
                                           "softmax:R=5,C=33", "reduce:R=5,C=9,op=argmax",
                                           "conv2d:N=1,H=12,W=12,CI=8,CO=8,KH=3,KW=3,P=1,"
                                           "algo=winograd4"));

TEST(Reference, OfLargeTasksDoWithoutASchedule) {
  const te::Dag dag = dag_of("matmul:M=512,N=640,K=512");
  runtime::ThreadPool pool({.threads = 1});
  SharedReference shared(dag);
  const auto refuse = [](const te::Dag&, const target::Target&) -> Result<schedule::Schedule> {
    return make_error(ErrorCode::kIllegalSchedule, "none");
  };
  const auto expected =
      shared_expected(shared, dag, kernel::random_inputs(dag, 1), target::host(), pool, refuse);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  EXPECT_TRUE(shared.ready());
}

TEST(TaskData, KeepsInputsInTheLayoutAsked) {
  const te::Dag dag = dag_of("dense:M=5,N=10,K=7");
  const auto data =
      TaskData::make(dag, 1, [](const std::vector<HostTensor>&) { return Expected{}; });
  ASSERT_TRUE(data.ok());
  const auto plain = (*data)->input(1, "");
  const auto swapped = (*data)->input(1, "d1 d0");
  ASSERT_TRUE(plain.ok() && swapped.ok());
  const auto* w = reinterpret_cast<const float*>(*plain);
  const auto* t = reinterpret_cast<const float*>(*swapped);
  for (int n = 0; n < 10; ++n) {
    for (int k = 0; k < 7; ++k) EXPECT_EQ(w[n * 7 + k], t[k * 10 + n]);
  }
  EXPECT_EQ((*data)->input(1, "d1 d0").value(), *swapped);
  EXPECT_FALSE((*data)->input(1, "d1 d1").ok());
  EXPECT_FALSE((*data)->input(1, "nonsense").ok());
}

}  // namespace
}  // namespace tessera::measure

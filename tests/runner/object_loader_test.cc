// The loader of object code against the compiler's own, and on objects that are damaged.
#include "tessera/machine/runtime/object_loader.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/backend/codegen/codegen.h"
#include "tessera/backend/kernel/compile_op.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/trials/measure/build_worker.h"

namespace tessera::runtime {
namespace {

te::Dag dag_of(const std::string& spec) {
  return te::make_dag(te::parse_op_spec(spec).value()).value();
}

measure::Built build(const te::Dag& dag, const target::Target& target) {
  const schedule::Schedule schedule = space::default_schedule(dag, target).value();
  const measure::Built built = measure::build_candidate(dag, schedule, target);
  EXPECT_EQ(built.error, "");
  return built;
}

const char* const kSpecs[] = {"matmul:M=16,N=48,K=32", "softmax:R=5,C=64",
                              "eltwise:N=133,fn=erf,dtype=f64",
                              "conv2d:N=1,H=9,W=9,CI=4,CO=8,KH=3,KW=3,P=1"};

class Loading : public ::testing::TestWithParam<const char*> {};

// Among them one that calls the C library, through a stub.
TEST_P(Loading, ComputesWhatTheDeviceDoes) {
  const te::Dag dag = dag_of(GetParam());
  const target::Target& target = target::host();
  const measure::Built built = build(dag, target);
  const auto loaded = load_object(built.object);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto entry = reinterpret_cast<tsr_kernel>((*loaded)->symbol(built.symbol));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ((*loaded)->symbol("absent"), nullptr);

  ThreadPool pool({.threads = 1});
  const auto op = kernel::compile_op(
      dag, schedule::to_text(space::default_schedule(dag, target).value()), target);
  ASSERT_TRUE(op.ok()) << op.error().message;
  CpuDevice device(pool);
  kernel::OpRunner runner(*op, device);
  const std::vector<HostTensor> inputs = kernel::random_inputs(dag, 1);
  std::vector<HostTensor> stored;
  std::vector<void*> params;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(runner.set_input(i, inputs[i]).ok());
    const schedule::Layout& layout = op->param_layouts[i];
    stored.push_back(layout.empty() ? inputs[i] : lower::pack(inputs[i], layout));
    params.push_back(stored.back().data());
  }
  ASSERT_TRUE(runner.run().ok());
  HostTensor got(dag.outputs[0]->dtype, dag.outputs[0]->shape);
  params.push_back(got.data());
  AlignedBuffer workspace(static_cast<std::size_t>(built.shared_bytes + built.worker_bytes) + 64);
  EXPECT_EQ(entry(params.data(), workspace.data(), pool.host()), 0);
  const HostTensor want = runner.output(0).value();
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Loading, ::testing::ValuesIn(kSpecs));

TEST(ObjectLoader, CodeOfOtherArchitecturesIsCheckedAsWell) {
  for (const char* name : {"skylake-avx512", "haswell", "neoverse-v1"}) {
    const target::Target target = target::find_target(name).value();
    const auto other =
        target.arch == target::Arch::kX86_64 ? target::Arch::kAArch64 : target::Arch::kX86_64;
    for (const char* spec : kSpecs) {
      const measure::Built built = build(dag_of(spec), target);
      const auto checked = check_object(built.object, target.arch, built.symbol);
      EXPECT_TRUE(checked.ok()) << name << " " << spec << ": " << checked.error().message;
      EXPECT_FALSE(check_object(built.object, target.arch, "absent").ok());
      EXPECT_FALSE(check_object(built.object, other, built.symbol).ok());
      EXPECT_EQ(load_object(built.object).ok(), target.arch == target::host().arch);
    }
  }
}

// Every function that the code generator leaves to the C library, on machines with and without
// instructions for the simple ones.
TEST(ObjectLoader, KernelsCallOnlyWhatTheyMay) {
  for (const char* name : {"haswell", "armv8-a"}) {
    const target::Target target = target::find_target(name).value();
    for (const char* fn : {"exp", "log", "tanh", "erf", "sqrt", "sigmoid", "gelu"}) {
      for (const char* dtype : {"f32", "f64", "f16", "bf16"}) {
        const auto spec = te::parse_op_spec(fmt::format("eltwise:N=133,fn={},dtype={}", fn, dtype));
        ASSERT_TRUE(spec.ok()) << spec.error().message;
        const auto dag = te::make_dag(*spec);
        ASSERT_TRUE(dag.ok()) << dag.error().message;
        const measure::Built built = build(*dag, target);
        const auto checked = check_object(built.object, target.arch, built.symbol);
        EXPECT_TRUE(checked.ok()) << fn << " " << dtype << ": " << checked.error().message;
      }
    }
  }
}

// The names of an object, changed in place to others of the same length.
TEST(ObjectLoader, RefusesOtherSymbolsByName) {
  const measure::Built built = build(dag_of("eltwise:N=133,fn=tanh,dtype=f64"), target::host());
  ASSERT_TRUE(load_object(built.object).ok());
  const std::string called("\0tanh\0", 6);
  const std::size_t at = built.object.find(called);
  ASSERT_NE(at, std::string::npos);
  for (const char* other : {"kill", "open", "fork", "Tanh"}) {
    std::string object = built.object;
    object.replace(at + 1, 4, other);
    const auto loaded = load_object(object);
    ASSERT_FALSE(loaded.ok()) << other;
    EXPECT_NE(loaded.error().message.find(fmt::format("calls {},", other)), std::string::npos)
        << loaded.error().message;
    EXPECT_FALSE(check_object(object, target::host().arch, built.symbol).ok());
  }
}

// Damage may go unnoticed in code bytes, but never reaches memory that is not the object's.
TEST(ObjectLoader, SurvivesEveryCutAndManyFlips) {
  for (const char* name : {"haswell", "neoverse-v1"}) {
    const target::Target target = target::find_target(name).value();
    const measure::Built built = build(dag_of("softmax:R=5,C=64"), target);
    const std::string& object = built.object;
    for (std::size_t n = 0; n < object.size(); n += 3) {
      EXPECT_FALSE(check_object(object.substr(0, n), target.arch, built.symbol).ok()) << n;
    }
    int refused = 0;
    for (std::size_t n = 0; n < object.size(); ++n) {
      std::string flipped = object;
      flipped[n] = static_cast<char>(~flipped[n]);
      refused += check_object(flipped, target.arch, built.symbol).ok() ? 0 : 1;
    }
    EXPECT_GT(refused, 50);
  }
  EXPECT_FALSE(load_object("").ok());
  EXPECT_FALSE(load_object(std::string(4096, 'x')).ok());
}

}  // namespace
}  // namespace tessera::runtime

// Every operation at small odd sizes, with the schedules that models get on several machines: the
// compiled function must agree with the interpreter. Schedules are legal on any CPU, so those of
// the other architecture run here too.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/backend/kernel/compile_op.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tests/amx_trap/host_with_tiles.h"

namespace tessera {
namespace {

const char* const kSpecs[] = {
#include "tests/bench/specs.inc"
};

struct Case {
  std::string spec;
  const char* machine;  // whose schedules
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* spec : kSpecs) {
    out.push_back({spec, "neoverse-v1"});
    out.push_back({spec, "haswell"});
    out.push_back({spec, "skylake-avx512"});
    // Machines with other matrix and dot product instructions take other steps for these types.
    const std::string text = spec;
    for (const char* dtype : {"dtype=i8", "dtype=u8", "dtype=bf16"}) {
      if (text.find(dtype) == std::string::npos) continue;
      for (const char* machine : {"neoverse-n1", "sapphirerapids"}) out.push_back({spec, machine});
    }
  }
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.spec + "_" + info.param.machine;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

class DefaultSchedule : public ::testing::TestWithParam<Case> {};

TEST_P(DefaultSchedule, AgreesWithTheInterpreter) {
  const te::OpSpec spec = te::parse_op_spec(GetParam().spec).value();
  const te::Dag dag = te::make_dag(spec).value();
  const target::Target machine = target::find_target(GetParam().machine).value();
  const auto steps = space::default_schedule(dag, machine);
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  const std::string text = schedule::to_text(*steps);
  std::optional<target::Target> here = target::host();
  if (text.find(" tile") != std::string::npos) here = testing::host_with_tiles();
  if (!here) GTEST_SKIP() << "no tile registers and no handler for them";
  runtime::ThreadPool pool({.threads = 2});
  runtime::CpuDevice device(pool);
  auto built = kernel::build_kernel(dag, *steps, *here);
  ASSERT_TRUE(built.ok()) << text << built.error().message;
  built->binary.target = target::host();
  auto code = device.load(built->binary);
  ASSERT_TRUE(code.ok()) << text << code.error().message;
  const kernel::CompiledOp op{.dag = dag,
                              .param_layouts = std::move(built->param_layouts),
                              .code = std::move(code).value(),
                              .times = {}};
  kernel::OpRunner runner(op, device);
  const std::vector<HostTensor> inputs = kernel::random_inputs(dag, 7);
  for (std::size_t i = 0; i < inputs.size(); ++i) ASSERT_TRUE(runner.set_input(i, inputs[i]).ok());
  ASSERT_TRUE(runner.run().ok());
  for (std::size_t o = 0; o < dag.outputs.size(); ++o) {
    const kernel::Reference want = kernel::reference(dag, inputs, o, 300, 3).value();
    EXPECT_LE(kernel::worst_error(want, runner.output(o).value(), kernel::tolerance(dag, o)), 1)
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, DefaultSchedule, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace tessera

// Runs an operation spec through the interpreter on random inputs.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/lang/interp/interp.h"
#include "tessera/lang/te/op_spec.h"
#include "tests/testing/testing.h"

namespace tessera::interp {

struct OpRun {
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;

  // Element of input `i` at row-major position `e`.
  double in(std::size_t i, std::int64_t e) const { return inputs[i].get_float(e); }
};

inline te::Dag make(const std::string& spec) {
  return te::make_dag(te::parse_op_spec(spec).value()).value();
}

inline OpRun run_op(const std::string& spec) {
  const te::Dag dag = make(spec);
  Rng rng(17);
  OpRun result;
  for (const te::Input& input : dag.inputs) {
    result.inputs.push_back(random_tensor(input.buffer->dtype, input.buffer->shape, rng));
  }
  result.outputs = run(dag, result.inputs).value();
  return result;
}

// Compares output 0 with `want(e)` at every row-major position e.
template <class Want>
void expect_output(const OpRun& result, std::int64_t reduction_length, const Want& want) {
  const HostTensor& got = result.outputs[0];
  HostTensor expected(got.dtype(), got.shape());
  for (std::int64_t e = 0; e < got.size(); ++e) expected.set_float(e, want(e));
  const double tolerance = testing::tolerance(got.dtype(), reduction_length);
  EXPECT_EQ(testing::mismatch(got, expected, tolerance), "");
}

}  // namespace tessera::interp

// Operation specs ("matmul:M=64,N=64,K=64") and the table of operations they name.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/support/dtype.h"
#include "tessera/support/result.h"

namespace tessera::te {

struct OpSpec {
  std::string op;
  std::map<std::string, std::int64_t> ints;  // M=64
  std::map<std::string, std::string> words;  // layout=nhwc
  DType dtype = DType::kF32;
};

// OpParam::default_value of a parameter that must be given.
inline constexpr std::int64_t kRequired = std::numeric_limits<std::int64_t>::min();
// ... and of one that stays absent when not given: the operation derives it (PT from P).
inline constexpr std::int64_t kDerived = kRequired + 1;

struct OpParam {
  const char* name;
  std::int64_t default_value;  // kRequired, kDerived or a value
  const char* doc;
  std::int64_t min_value = 1;
};

// A parameter whose value is a word; `choices` empty: the operation checks it. The first choice is
// the default.
struct OpWord {
  const char* name;
  std::vector<const char*> choices;
  const char* doc;
  bool usual_unsaid = false;  // to_text leaves its first choice out
};

// One operation: one file under te/ops/ and one row in te/ops/op_table.cc.
struct OpEntry {
  const char* name;
  const char* doc;
  std::vector<OpParam> params;
  std::vector<OpWord> words;
  Result<Dag> (*make)(const OpSpec& spec);  // gets a complete spec: defaults filled, ranges checked
  double (*flops)(const OpSpec& spec) = nullptr;  // useful work; null: flop_count of the Dag
};

const std::vector<OpEntry>& op_table();

// Parses and checks names and ranges of parameters against the table; errors name the parameter and
// the nearest valid one.
Result<OpSpec> parse_op_spec(std::string_view text);
std::string to_text(const OpSpec& spec);  // canonical: all parameters, table order
// Fills defaults and checks names and ranges, for specs made by hand; parse_op_spec and make_dag
// call it.
Result<OpSpec> complete(const OpSpec& spec);
Result<Dag> make_dag(const OpSpec& spec);
// Useful work: 2*MACs of the mathematical operation whatever algorithm computes it (Winograd counts
// as direct); bytes = inputs + outputs.
struct OpWork {
  double flops = 0;
  double bytes = 0;
};
Result<OpWork> op_work(const OpSpec& spec);

}  // namespace tessera::te

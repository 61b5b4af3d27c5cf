#include "tessera/backend/artifact/host_call.h"

#include <algorithm>
#include <array>

#include "tessera/backend/artifact/runtime/program.h"
#include "tessera/frontend/graph/op.h"

namespace tessera::artifact {
namespace {

std::int64_t combine_of(const graph::Attrs& attrs) {
  constexpr std::array<std::string_view, 5> kWords = {"none", "add", "mul", "min", "max"};
  static_assert(TSR_COMBINE_SET == 0 && TSR_COMBINE_MAX == kWords.size() - 1);
  return std::ranges::find(kWords, attrs.word("reduction")) - kWords.begin();
}

// One function of the runtime: its number, and what it needs besides the operands.
struct Row {
  std::string_view op;
  int function;
  void (*fill)(const graph::Attrs& attrs, HostCall* call);
};

constexpr std::int64_t kRankedBytes = 16;  // of tsr_ranked

constexpr std::array kRows = {
    Row{"scatter_elements", TSR_HOST_SCATTER_ELEMENTS,
        [](const graph::Attrs& attrs, HostCall* call) {
          call->integers = {attrs.integer("axis"), combine_of(attrs)};
        }},
    Row{"scatter_nd", TSR_HOST_SCATTER_ND,
        [](const graph::Attrs& attrs, HostCall* call) { call->integers = {combine_of(attrs)}; }},
    Row{"topk", TSR_HOST_TOPK,
        [](const graph::Attrs& attrs, HostCall* call) {
          call->integers = {attrs.integer("axis"), attrs.integer("k"), attrs.integer("largest", 1)};
          call->scratch_bytes = kRankedBytes * attrs.integer("k");
        }},
};

const Row* find_row(std::string_view op) {
  const auto found = std::ranges::find(kRows, op, &Row::op);
  return found == kRows.end() ? nullptr : &*found;
}

}  // namespace

bool has_host_function(std::string_view op) { return find_row(op) != nullptr; }

Result<HostCall> host_call(const exec::CompiledModel::Step& step) {
  const Row* row = find_row(step.op->name);
  // The runtime neither orders nor adds floats of a byte.
  const bool short_floats = std::ranges::any_of(step.input_types, [](const graph::TensorType& t) {
    return is_float(t.dtype) && size_bytes(t.dtype) == 1;
  });
  if (row == nullptr || short_floats || std::ranges::count(step.omitted, true) > 0) {
    return make_error(ErrorCode::kUnsupported, "{} ({})", step.origin, step.name);
  }
  HostCall call;
  call.function = row->function;
  for (const graph::TensorType& t : step.input_types)
    call.operands.push_back({"", t.dtype, t.shape});
  for (const graph::TensorType& t : step.output_types)
    call.operands.push_back({"", t.dtype, t.shape});
  row->fill(step.attrs, &call);
  return call;
}

}  // namespace tessera::artifact

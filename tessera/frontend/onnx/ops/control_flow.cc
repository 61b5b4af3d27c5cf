// If, Loop and Scan: branches with a known condition and loops of known length become the nodes of
// their bodies.
#include <algorithm>

#include "tessera/frontend/onnx/import.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = Result<std::vector<ValueId>>;

std::int64_t count_nodes(const Graph& body) {
  auto count = static_cast<std::int64_t>(body.nodes.size());
  for (const Node& node : body.nodes) {
    for (const Attribute& a : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&a.value);
      if (inner != nullptr) count += count_nodes(**inner);
    }
  }
  return count;
}

// Whether a loop may have so many steps, and be unrolled.
Result<void> check_steps(Context& c, const Graph& body, std::int64_t steps) {
  const LoopLimits limits = c.bodies.loop_limits();
  if (steps > limits.steps) return too_many_steps(limits.steps);
  const std::int64_t nodes = count_nodes(body);
  if (steps <= kFewSteps || nodes == 0 || steps <= limits.unrolled_nodes / nodes) return {};
  return make_error(ErrorCode::kDataDependent, "{} or more steps of {} nodes are not unrolled",
                    steps, nodes);
}

Result<bool> known_condition(Context& c, ValueId id, std::string_view what) {
  if (Sequences::is_sequence(id)) return invalid("{} is a sequence", what);
  const HostTensor* value = c.b.constant_of(id);
  if (value == nullptr) {
    return make_error(ErrorCode::kDataDependent, "{} follows from data", what);
  }
  if (value->size() != 1) return invalid("{} has {} elements", what, value->size());
  return value->get_int(0) != 0;
}

Values import_if(Context& c) {
  TESSERA_TRY(const bool condition, known_condition(c, c.in(0), "the condition"));
  TESSERA_TRY(const Graph* branch, c.body(condition ? "then_branch" : "else_branch"));
  TESSERA_TRY(std::vector<ValueId> outputs, c.bodies.import_body(*branch, {}));
  if (outputs.size() != c.node.outputs.size()) {
    return invalid("the branch has {} outputs, the node {}", outputs.size(), c.node.outputs.size());
  }
  return outputs;
}

// x[..., index, ...] without the axis.
Result<ValueId> take(Context& c, ValueId x, std::size_t axis, std::int64_t index) {
  Shape shape = c.b.shape(x);
  std::vector<std::int64_t> starts(shape.size(), 0);
  const std::vector<std::int64_t> steps(shape.size(), 1);
  starts[axis] = index;
  shape[axis] = 1;
  TESSERA_TRY(const ValueId slice,
              c.b.add("slice", {x}, {{"starts", starts}, {"steps", steps}, {"sizes", shape}}));
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return c.b.reshape(slice, shape);
}

// Joins `parts`, all of one type, along a new axis.
Result<ValueId> stack(Context& c, const std::vector<ValueId>& parts, std::int64_t new_axis) {
  if (std::any_of(parts.begin(), parts.end(), Sequences::is_sequence)) {
    return invalid("a scan output is a sequence");
  }
  const graph::TensorType type = c.b.type(parts.front());
  TESSERA_TRY(const std::int64_t axis,
              c.axis(new_axis, static_cast<std::int64_t>(type.shape.size()) + 1));
  Shape shape = type.shape;
  shape.insert(shape.begin() + axis, 1);
  std::vector<ValueId> slabs;
  for (const ValueId part : parts) {
    if (c.b.type(part) != type) {
      return invalid("iterations give {} and {}", graph::to_text(type),
                     graph::to_text(c.b.type(part)));
    }
    TESSERA_TRY(const ValueId slab, c.b.reshape(part, shape));
    slabs.push_back(slab);
  }
  if (slabs.size() == 1) return slabs[0];
  return c.b.add("concat", slabs, {{"axis", axis}});
}

Result<ValueId> empty_tensor(Context& c, DType dtype, Shape shape, std::int64_t new_axis) {
  TESSERA_TRY(const std::int64_t axis,
              c.axis(new_axis, static_cast<std::int64_t>(shape.size()) + 1));
  shape.insert(shape.begin() + axis, 0);
  TESSERA_TRY(const std::int64_t count, checked_elements(shape, dtype));
  TESSERA_CHECK(count == 0, "an empty tensor has {} elements", count);
  return c.b.constant(HostTensor(dtype, std::move(shape)));
}

// What iterations of a body leave: the last carried values, and what is to be stacked.
struct Iterations {
  std::vector<ValueId> carried;
  std::vector<std::vector<ValueId>> scans;  // by scan output, then by iteration

  void add(const std::vector<ValueId>& outputs, std::size_t first) {
    carried.assign(outputs.begin() + static_cast<std::ptrdiff_t>(first),
                   outputs.begin() + static_cast<std::ptrdiff_t>(first + carried.size()));
    for (std::size_t k = 0; k < scans.size(); ++k) {
      scans[k].push_back(outputs[first + carried.size() + k]);
    }
  }
};

// The scan output of a loop that never ran: its element type is what the body declares.
Result<ValueId> never_ran(Context& c, const ValueInfo& declared, std::int64_t axis) {
  const auto dtype = dtype_from_text(declared.type);
  bool known = dtype.has_value() && declared.has_shape;
  Shape shape;
  for (const Dim& d : declared.dims) {
    known = known && d.size >= 0;
    shape.push_back(d.size);
  }
  if (!known) {
    return make_error(ErrorCode::kUnsupported,
                      "the body runs zero times and does not declare the shape of '{}'",
                      declared.name);
  }
  return empty_tensor(c, *dtype, shape, axis);
}

// A counter or condition as the body declares it: rank 0, or one element of rank 1.
HostTensor body_scalar(const Graph& body, std::size_t input, DType dtype, std::int64_t value) {
  const ValueInfo& declared = body.inputs[input];
  HostTensor t(dtype, declared.has_shape && declared.dims.size() == 1 ? Shape{1} : Shape{});
  t.set_int(0, value);
  return t;
}

Result<std::int64_t> trip_count(Context& c) {
  if (!c.has(0)) return std::int64_t{INT64_MAX};
  if (Sequences::is_sequence(c.in(0))) return invalid("the trip count is a sequence");
  TESSERA_TRY(const HostTensor* value, c.constant(0, "the trip count"));
  if (value->size() != 1 || !is_int(value->dtype()))
    return invalid("the trip count is not a number");
  return std::max<std::int64_t>(0, value->get_int(0));
}

Values import_loop(Context& c) {
  TESSERA_TRY(const Graph* body, c.body("body"));
  TESSERA_TRY(const std::int64_t trips, trip_count(c));
  Iterations done;
  if (c.inputs.size() > 2) done.carried.assign(c.inputs.begin() + 2, c.inputs.end());
  const std::size_t carried = done.carried.size();
  if (body->inputs.size() != carried + 2 || body->outputs.size() < carried + 1) {
    return invalid("the body has {} inputs and {} outputs for {} carried values",
                   body->inputs.size(), body->outputs.size(), carried);
  }
  done.scans.resize(body->outputs.size() - carried - 1);
  bool running = true;
  if (c.has(1)) {
    TESSERA_TRY(running, known_condition(c, c.in(1), "the condition"));
  }
  // A condition may end the loop before.
  if (!c.has(1)) TESSERA_DO(check_steps(c, *body, trips));
  for (std::int64_t i = 0; running && i < trips; ++i) {
    TESSERA_DO(check_steps(c, *body, i + 1));
    std::vector<ValueId> args{c.b.constant(body_scalar(*body, 0, DType::kI64, i)),
                              c.b.constant(body_scalar(*body, 1, DType::kBool, 1))};
    args.insert(args.end(), done.carried.begin(), done.carried.end());
    TESSERA_TRY(const std::vector<ValueId> outputs, c.bodies.import_body(*body, args));
    done.add(outputs, 1);
    // Without a condition at the start, the one that the body computes means nothing.
    if (c.has(1)) {
      TESSERA_TRY(running, known_condition(c, outputs[0], "the condition after an iteration"));
    }
  }
  std::vector<ValueId> results = done.carried;
  for (std::size_t k = 0; k < done.scans.size(); ++k) {
    TESSERA_TRY(const ValueId scan, done.scans[k].empty()
                                        ? never_ran(c, body->outputs[1 + carried + k], 0)
                                        : stack(c, done.scans[k], 0));
    results.push_back(scan);
  }
  return results;
}

// One entry per scan input or output; `absent` where the attribute is not there.
Result<std::vector<std::int64_t>> per_scan(Context& c, const char* name, std::size_t count) {
  TESSERA_TRY(std::vector<std::int64_t> list,
              c.integers(name, std::vector<std::int64_t>(count, 0)));
  if (list.size() != count) return invalid("{} has {} entries, not {}", name, list.size(), count);
  return list;
}

struct ScanPlan {
  const Graph* body = nullptr;
  std::size_t states = 0, scan_inputs = 0, scan_outputs = 0;
};

// Inputs before `first` are not data.
Result<ScanPlan> plan_scan(Context& c, std::size_t first) {
  for (std::size_t i = first; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return invalid("input {} is missing", i);
  }
  const std::size_t inputs = c.inputs.size() - std::min(first, c.inputs.size());
  ScanPlan plan;
  TESSERA_TRY(plan.body, c.body("body"));
  TESSERA_TRY(const std::int64_t scans, c.integer("num_scan_inputs"));
  if (scans < 1 || scans > static_cast<std::int64_t>(inputs)) {
    return invalid("num_scan_inputs is {} of {} inputs", scans, inputs);
  }
  plan.scan_inputs = static_cast<std::size_t>(scans);
  plan.states = inputs - plan.scan_inputs;
  if (plan.body->inputs.size() != inputs || plan.body->outputs.size() < plan.states) {
    return invalid("the body has {} inputs and {} outputs for {} inputs", plan.body->inputs.size(),
                   plan.body->outputs.size(), inputs);
  }
  plan.scan_outputs = plan.body->outputs.size() - plan.states;
  return plan;
}

// Runs the body over `length` positions of the scan inputs. `axes` and `reverse` are per scan
// input.
Result<Iterations> run_scan(Context& c, const ScanPlan& plan, std::vector<ValueId> states,
                            const std::vector<ValueId>& scans, const std::vector<std::size_t>& axes,
                            const std::vector<std::int64_t>& reverse, std::int64_t length) {
  TESSERA_DO(check_steps(c, *plan.body, length));
  Iterations done;
  done.carried = std::move(states);
  done.scans.resize(plan.scan_outputs);
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<ValueId> args = done.carried;
    for (std::size_t k = 0; k < scans.size(); ++k) {
      const std::int64_t size = c.b.shape(scans[k])[axes[k]];
      TESSERA_TRY(const ValueId part,
                  take(c, scans[k], axes[k], reverse[k] != 0 ? size - 1 - i : i));
      args.push_back(part);
    }
    TESSERA_TRY(const std::vector<ValueId> outputs, c.bodies.import_body(*plan.body, args));
    done.add(outputs, 0);
  }
  return done;
}

Values import_scan(Context& c) {
  TESSERA_TRY(const ScanPlan plan, plan_scan(c, 0));
  TESSERA_TRY(const auto in_axes, per_scan(c, "scan_input_axes", plan.scan_inputs));
  TESSERA_TRY(const auto in_reverse, per_scan(c, "scan_input_directions", plan.scan_inputs));
  TESSERA_TRY(const auto out_axes, per_scan(c, "scan_output_axes", plan.scan_outputs));
  TESSERA_TRY(const auto out_reverse, per_scan(c, "scan_output_directions", plan.scan_outputs));
  const auto first_scan = c.inputs.begin() + static_cast<std::ptrdiff_t>(plan.states);
  const std::vector<ValueId> scans(first_scan, c.inputs.end());
  std::vector<std::size_t> axes;
  std::int64_t length = -1;
  for (std::size_t k = 0; k < scans.size(); ++k) {
    TESSERA_TRY(const std::int64_t axis, c.axis(in_axes[k], c.rank(plan.states + k)));
    axes.push_back(static_cast<std::size_t>(axis));
    const std::int64_t size = c.b.shape(scans[k])[axes[k]];
    if (length >= 0 && size != length)
      return invalid("scan inputs of length {} and {}", length, size);
    length = size;
  }
  TESSERA_TRY(Iterations done,
              run_scan(c, plan, {c.inputs.begin(), first_scan}, scans, axes, in_reverse, length));
  std::vector<ValueId> results = done.carried;
  for (std::size_t k = 0; k < plan.scan_outputs; ++k) {
    if (out_reverse[k] != 0) std::reverse(done.scans[k].begin(), done.scans[k].end());
    TESSERA_TRY(const ValueId scan,
                done.scans[k].empty()
                    ? never_ran(c, plan.body->outputs[plan.states + k], out_axes[k])
                    : stack(c, done.scans[k], out_axes[k]));
    results.push_back(scan);
  }
  return results;
}

// Lengths per batch entry of Scan-8; those beyond are filled with zeros.
Result<std::vector<std::int64_t>> scan8_lengths(Context& c, std::int64_t batch,
                                                std::int64_t length) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), length);
  if (!c.has(0)) return lengths;
  TESSERA_TRY(lengths, c.constant_integers(0, "sequence_lens"));
  if (lengths.size() != static_cast<std::size_t>(batch)) {
    return invalid("{} sequence lengths for a batch of {}", lengths.size(), batch);
  }
  for (const std::int64_t n : lengths) {
    if (n < 1 || n > length) return invalid("sequence length {} of {}", n, length);
  }
  return lengths;
}

Result<ValueId> zeros_like(Context& c, ValueId x) {
  const graph::TensorType type = c.b.type(x);
  HostTensor zero(type.dtype, {});
  return c.b.add("expand", {c.b.constant(std::move(zero))}, {{"shape", type.shape}});
}

// Version 8 has a batch axis first and scans along axis 1; each batch entry runs by itself.
Values import_scan8(Context& c) {
  TESSERA_TRY(const ScanPlan plan, plan_scan(c, 1));
  const std::vector<ValueId> data(c.inputs.begin() + 1, c.inputs.end());
  TESSERA_TRY(const auto reverse, per_scan(c, "directions", plan.scan_inputs));
  const Shape first = c.b.shape(data[plan.states]);
  if (first.size() < 2 || first[0] < 1 || first[1] < 1) {
    return invalid("a scan input of shape {} has no batch and sequence", to_text(first));
  }
  for (std::size_t k = 0; k < data.size(); ++k) {
    const Shape shape = c.b.shape(data[k]);
    const bool is_scan = k >= plan.states;
    if (shape.empty() || shape[0] != first[0] ||
        (is_scan && (shape.size() < 2 || shape[1] != first[1]))) {
      return invalid("input {} of shape {} does not fit batch {}, length {}", k + 1, to_text(shape),
                     first[0], first[1]);
    }
  }
  TESSERA_TRY(const auto lengths, scan8_lengths(c, first[0], first[1]));
  const std::vector<std::size_t> axes(plan.scan_inputs, 0);
  std::vector<std::vector<ValueId>> rows(plan.states + plan.scan_outputs);
  for (std::int64_t n = 0; n < first[0]; ++n) {
    std::vector<ValueId> states, scans;
    for (std::size_t k = 0; k < data.size(); ++k) {
      TESSERA_TRY(const ValueId part, take(c, data[k], 0, n));
      (k < plan.states ? states : scans).push_back(part);
    }
    const std::int64_t length = lengths[static_cast<std::size_t>(n)];
    TESSERA_TRY(Iterations done, run_scan(c, plan, states, scans, axes, reverse, length));
    for (std::size_t k = 0; k < plan.states; ++k) rows[k].push_back(done.carried[k]);
    for (std::size_t k = 0; k < plan.scan_outputs; ++k) {
      TESSERA_TRY(const ValueId zeros, zeros_like(c, done.scans[k][0]));
      done.scans[k].resize(static_cast<std::size_t>(first[1]), zeros);
      TESSERA_TRY(const ValueId row, stack(c, done.scans[k], 0));
      rows[plan.states + k].push_back(row);
    }
  }
  std::vector<ValueId> results;
  for (const auto& row : rows) {
    TESSERA_TRY(const ValueId joined, stack(c, row, 0));
    results.push_back(joined);
  }
  return results;
}

}  // namespace

Error too_many_steps(std::int64_t limit) {
  return make_error(ErrorCode::kUnsupported,
                    "a loop of more than {} steps; --max-loop-steps N allows more", limit);
}

std::vector<OnnxOp> control_flow_rows() {
  return {{"If", 1, 1, 1, import_if},
          {"Loop", 1, 0, -1, import_loop, "", true},
          {"Scan", 8, 0, -1, import_scan8},
          {"Scan", 9, 1, -1, import_scan}};
}

}  // namespace tessera::onnx

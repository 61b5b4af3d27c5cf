// interp::run for te::Dag: every operation over its whole domain, in index order.
#include <deque>
#include <map>

#include "tessera/lang/interp/interp.h"
#include "tessera/lang/interp/program.h"

namespace tessera::interp {
namespace {

using te::Reducer;

constexpr double kMaxBytes =
    0x1p34;  // of all buffers together: beyond it a reference run is a mistake

Result<void> check_inputs(const te::Dag& dag, const std::vector<HostTensor>& inputs) {
  if (inputs.size() != dag.inputs.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {} inputs given, {} needed", dag.name,
                      inputs.size(), dag.inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Buffer& want = dag.inputs[i].buffer;
    if (inputs[i].dtype() != want->dtype || inputs[i].shape() != want->shape) {
      return make_error(ErrorCode::kInvalidArgument, "{}: input {} is {} {}, {} {} is needed",
                        dag.name, want->name, to_text(inputs[i].dtype()),
                        to_text(inputs[i].shape()), to_text(want->dtype), to_text(want->shape));
    }
  }
  double bytes = 0;
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& out : op.outputs) {
      bytes += static_cast<double>(elements(out->shape)) * size_bytes(out->dtype);
    }
  }
  if (bytes > kMaxBytes) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {:.3g} bytes are too many to interpret",
                      dag.name, bytes);
  }
  return {};
}

// Advances the variables in `slots` like an odometer, last fastest; false after the last point.
bool advance(const std::vector<te::Axis>& axes, const std::vector<std::size_t>& slots,
             Frame& frame) {
  for (std::size_t d = axes.size(); d-- > 0;) {
    if (++frame.vars[slots[d]] < axes[d].extent) return true;
    frame.vars[slots[d]] = 0;
  }
  return false;
}

bool is_empty(const std::vector<te::Axis>& axes) {
  for (const te::Axis& axis : axes) {
    if (axis.extent == 0) return true;
  }
  return false;
}

class OpRunner {
 public:
  OpRunner(const te::Op& op, Program& program, Frame& frame) : op_(op), frame_(frame) {
    for (const ir::Buffer& out : op.outputs) outs_.push_back(*program.slot_of(out));
    for (const te::Axis& axis : op.axes) axes_.push_back(program.declare(axis.var));
    for (const te::Axis& axis : op.reduce_axes) reduce_axes_.push_back(program.declare(axis.var));
    for (const ir::Expr& value : op.values) values_.push_back(program.compile(value));
    for (std::size_t i = 0; i < op.values.size() && op.reducer != Reducer::kNone; ++i) {
      identity_.push_back(
          eval(*program.compile(te::identity(op.reducer, op.outputs[i]->dtype, i)), 0, frame_));
    }
    frame_.vars.resize(frame_.vars.size() + axes_.size() + reduce_axes_.size());
  }

  Result<void> run() {
    for (std::size_t i = 0; i < outs_.size(); ++i) {
      frame_.memory[outs_[i]]->data = HostTensor(op_.outputs[i]->dtype, op_.outputs[i]->shape);
    }
    if (is_empty(op_.axes)) return {};
    std::int64_t element = 0;
    do {
      set_element(element++);
      if (frame_.error) return frame_.error->with_context("op " + op_.name);
    } while (advance(op_.axes, axes_, frame_));
    return {};
  }

  // Prepares for compute(): nothing is defined yet.
  void clear() {
    for (std::size_t i = 0; i < outs_.size(); ++i) {
      Memory& memory = *frame_.memory[outs_[i]];
      memory.data = HostTensor(op_.outputs[i]->dtype, op_.outputs[i]->shape);
      memory.defined.assign(static_cast<std::size_t>(elements(op_.outputs[i]->shape)), 0);
    }
  }

  // One element of every output; what it reads is demanded from the frame.
  void compute(std::int64_t element) {
    std::int64_t rest = element;
    for (std::size_t d = op_.axes.size(); d-- > 0;) {
      frame_.vars[axes_[d]] = rest % op_.axes[d].extent;
      rest /= op_.axes[d].extent;
    }
    set_element(element);
  }

 private:
  void set_element(std::int64_t element) {
    const std::vector<Scalar>& point = op_.reducer == Reducer::kNone ? evaluate() : reduce();
    for (std::size_t i = 0; i < outs_.size(); ++i) frame_.memory[outs_[i]]->set(element, point[i]);
  }

  const std::vector<Scalar>& evaluate() {
    current_.clear();
    for (const Node* value : values_) current_.push_back(eval(*value, 0, frame_));
    return current_;
  }

  const std::vector<Scalar>& reduce() {
    acc_ = identity_;
    if (is_empty(op_.reduce_axes)) return acc_;
    do {
      combine(evaluate());
    } while (advance(op_.reduce_axes, reduce_axes_, frame_) && !frame_.error);
    return acc_;
  }

  void combine(const std::vector<Scalar>& value) {
    const auto is = [&](ir::BinaryOp op, std::size_t i, Scalar a, Scalar b) {
      return binary(op, op_.outputs[i]->dtype, a, b).i != 0;
    };
    if (op_.reducer == Reducer::kArgMax || op_.reducer == Reducer::kArgMin) {
      const bool wins = op_.reducer == Reducer::kArgMax
                            ? is(ir::BinaryOp::kLt, 0, acc_[0], value[0])
                            : is(ir::BinaryOp::kLt, 0, value[0], acc_[0]);
      const bool before = is(ir::BinaryOp::kLt, 1, value[1], acc_[1]);
      const bool tie = is(ir::BinaryOp::kEq, 0, acc_[0], value[0]) && before;
      const bool nan = is(ir::BinaryOp::kNe, 0, value[0], value[0]);
      const bool over_number = is(ir::BinaryOp::kEq, 0, acc_[0], acc_[0]);
      if (wins || tie || (nan && (over_number || before))) acc_ = value;
      return;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      acc_[i] = binary(combiner(), op_.outputs[i]->dtype, acc_[i], value[i]);
    }
  }

  ir::BinaryOp combiner() const {
    switch (op_.reducer) {
      case Reducer::kProd:
        return ir::BinaryOp::kMul;
      case Reducer::kMax:
        return ir::BinaryOp::kMax;
      case Reducer::kMin:
        return ir::BinaryOp::kMin;
      default:
        return ir::BinaryOp::kAdd;
    }
  }

  const te::Op& op_;
  Frame& frame_;
  std::vector<std::size_t> outs_, axes_, reduce_axes_;
  std::vector<const Node*> values_;
  std::vector<Scalar> identity_, current_, acc_;
};

// The buffers of a Dag declared in a program: inputs first, in order.
Program declare_buffers(const te::Dag& dag) {
  Program program;
  for (const te::Input& input : dag.inputs) program.declare(input.buffer);
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& out : op.outputs) program.declare(out);
  }
  return program;
}

}  // namespace

Result<std::vector<double>> run_points(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                                       std::size_t output,
                                       const std::vector<std::int64_t>& points) {
  TESSERA_DO(te::verify(dag));
  TESSERA_DO(check_inputs(dag, inputs));
  Program program = declare_buffers(dag);
  Frame frame = program.make_frame();
  for (std::size_t i = 0; i < inputs.size(); ++i) frame.memory[i]->data = inputs[i];
  std::deque<OpRunner> runners;
  std::map<std::size_t, OpRunner*> writer;  // by memory slot
  for (const te::Op& op : dag.ops) {
    OpRunner& runner = runners.emplace_back(op, program, frame);
    runner.clear();
    for (const ir::Buffer& out : op.outputs) writer[*program.slot_of(out)] = &runner;
  }
  // Recursion is as deep as the Dag: an op never demands itself.
  frame.demand = [&](std::size_t slot, std::int64_t element) { writer.at(slot)->compute(element); };
  const std::size_t slot = *program.slot_of(dag.outputs[output]);
  std::vector<double> values;
  for (const std::int64_t point : points) {
    Memory& memory = *frame.memory[slot];
    if (point < 0 || point >= memory.data.size()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: output {} has no element {}", dag.name,
                        output, point);
    }
    if (!memory.defined.empty() && memory.defined[static_cast<std::size_t>(point)] == 0)
      frame.demand(slot, point);
    if (frame.error) return frame.error->with_context(dag.name);
    values.push_back(memory.data.get_float(point));
  }
  return values;
}

Result<std::vector<HostTensor>> run(const te::Dag& dag, const std::vector<HostTensor>& inputs) {
  TESSERA_DO(te::verify(dag));
  TESSERA_DO(check_inputs(dag, inputs));
  Program program = declare_buffers(dag);
  Frame frame = program.make_frame();
  for (std::size_t i = 0; i < inputs.size(); ++i) frame.memory[i]->data = inputs[i];
  for (const te::Op& op : dag.ops) {
    if (auto ok = OpRunner(op, program, frame).run(); !ok.ok())
      return ok.error().with_context(dag.name);
  }
  std::vector<HostTensor> outputs;
  for (const ir::Buffer& out : dag.outputs)
    outputs.push_back(frame.memory[*program.slot_of(out)]->data);
  return outputs;
}

}  // namespace tessera::interp

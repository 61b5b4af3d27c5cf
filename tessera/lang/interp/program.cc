#include "tessera/lang/interp/program.h"

namespace tessera::interp {

std::size_t Program::declare(const ir::Expr& var) { return vars_[var.get()] = var_count_++; }

std::size_t Program::declare(const ir::Buffer& buffer) {
  memory_.push_back(buffer);
  return buffers_[buffer] = memory_.size() - 1;
}

Frame Program::make_frame() const {
  Frame frame;
  frame.vars.resize(var_count_);
  for (const ir::Buffer& buffer : memory_) {
    frame.memory.push_back(std::make_shared<Memory>());
    frame.memory.back()->buffer = buffer;
  }
  return frame;
}

void Program::fail(const std::string& message) {
  if (!error_) error_ = Error{ErrorCode::kInvalidArgument, message};
}

std::optional<std::size_t> Program::slot_of(const ir::Buffer& buffer) {
  const auto it = buffers_.find(buffer);
  if (it != buffers_.end()) return it->second;
  fail(fmt::format("buffer {} is neither a parameter nor allocated here", buffer->name));
  return std::nullopt;
}

bool Program::fill_args(const std::vector<ir::Expr>& args, Node* node) {
  for (const ir::Expr& arg : args) {
    const Node* compiled = compile(arg);
    if (!compiled) return false;
    node->args.push_back(compiled);
  }
  return true;
}

const Node* Program::compile(const ir::Expr& e) {
  Node node;
  node.kind = e.kind();
  node.dtype = e.dtype();
  node.lanes = e.lanes();
  if (!fill(e, &node)) return nullptr;
  nodes_.push_back(std::move(node));
  return &nodes_.back();
}

bool Program::fill(const ir::Expr& e, Node* node) {
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
      node->value = of_int(e.as<ir::IntImm>()->value);
      return true;
    case ir::ExprKind::kFloatImm:
      node->value = of_float(e.as<ir::FloatImm>()->value);
      return true;
    case ir::ExprKind::kVar: {
      const auto it = vars_.find(e.get());
      if (it == vars_.end())
        return fail(fmt::format("variable {} is not bound", e.as<ir::Var>()->name)), false;
      node->slot = it->second;
      return true;
    }
    case ir::ExprKind::kBinary: {
      const auto* b = e.as<ir::Binary>();
      node->op = b->op;
      return fill_args({b->a, b->b}, node);
    }
    case ir::ExprKind::kSelect: {
      const auto* s = e.as<ir::Select>();
      return fill_args({s->cond, s->on_true, s->on_false}, node);
    }
    case ir::ExprKind::kCast:
      return fill_args({e.as<ir::Cast>()->value}, node);
    case ir::ExprKind::kLoad: {
      const auto* load = e.as<ir::Load>();
      const std::optional<std::size_t> slot = slot_of(load->buffer);
      if (!slot) return false;
      node->slot = *slot;
      return fill_args(load->indices, node);
    }
    case ir::ExprKind::kRamp: {
      node->value = of_int(e.as<ir::Ramp>()->stride);
      return fill_args({e.as<ir::Ramp>()->base}, node);
    }
    case ir::ExprKind::kBroadcast:
      return fill_args({e.as<ir::Broadcast>()->value}, node);
    case ir::ExprKind::kShuffle: {
      node->picks = e.as<ir::Shuffle>()->picks;
      return fill_args({e.as<ir::Shuffle>()->value}, node);
    }
    case ir::ExprKind::kCall: {
      node->fn = e.as<ir::Call>()->fn;
      return fill_args(e.as<ir::Call>()->args, node);
    }
  }
  return false;
}

}  // namespace tessera::interp

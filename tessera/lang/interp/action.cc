#include "tessera/lang/interp/action.h"

namespace tessera::interp {
namespace {

class Compiler {
 public:
  explicit Compiler(Program& program) : program_(program) {}

  // Null, and an error in the program, when the statement uses something undeclared.
  std::unique_ptr<Action> operator()(const ir::Stmt& s) {
    auto action = std::make_unique<Action>();
    action->kind = s.kind();
    return fill(s, action.get()) ? std::move(action) : nullptr;
  }

 private:
  bool add_child(const ir::Stmt& s, Action* action) {
    action->children.push_back((*this)(s));
    return action->children.back() != nullptr;
  }

  bool fill(const ir::Stmt& s, Action* action) {
    switch (s.kind()) {
      case ir::StmtKind::kFor: {
        const auto* loop = s.as<ir::For>();
        action->value = program_.compile(loop->extent);
        action->slot = program_.declare(loop->var);
        return action->value && add_child(loop->body, action);
      }
      case ir::StmtKind::kStore:
        return fill_store(*s.as<ir::Store>(), action);
      case ir::StmtKind::kBlock: {
        for (const ir::Stmt& child : s.as<ir::Block>()->stmts) {
          if (!add_child(child, action)) return false;
        }
        return true;
      }
      case ir::StmtKind::kIf: {
        const auto* branch = s.as<ir::If>();
        action->value = program_.compile(branch->cond);
        if (!action->value || !add_child(branch->then_body, action)) return false;
        return !branch->else_body || add_child(branch->else_body, action);
      }
      case ir::StmtKind::kAllocate: {
        action->slot = program_.declare(s.as<ir::Allocate>()->buffer);
        return add_child(s.as<ir::Allocate>()->body, action);
      }
      case ir::StmtKind::kEvaluate: {
        action->value = program_.compile(s.as<ir::Evaluate>()->value);
        return action->value != nullptr;
      }
      case ir::StmtKind::kBarrier:
        return true;
    }
    return false;
  }

  bool fill_store(const ir::Store& store, Action* action) {
    const std::optional<std::size_t> slot = program_.slot_of(store.buffer);
    action->value = program_.compile(store.value);
    if (!slot || !action->value) return false;
    action->slot = *slot;
    for (const ir::Expr& index : store.indices) {
      action->indices.push_back(program_.compile(index));
      if (!action->indices.back()) return false;
    }
    return true;
  }

  Program& program_;
};

}  // namespace

std::unique_ptr<Action> compile_stmt(const ir::Stmt& s, Program& program) {
  return Compiler(program)(s);
}

Result<void> check_params(const std::string& name, const std::vector<ir::Buffer>& want,
                          const std::vector<HostTensor>& given) {
  if (given.size() != want.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {} parameters given, {} needed", name,
                      given.size(), want.size());
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].dtype() != want[i]->dtype || given[i].shape() != want[i]->shape) {
      return make_error(ErrorCode::kInvalidArgument, "{}: parameter {} is {} {}, {} {} is needed",
                        name, want[i]->name, to_text(given[i].dtype()), to_text(given[i].shape()),
                        to_text(want[i]->dtype), to_text(want[i]->shape));
    }
  }
  return {};
}

}  // namespace tessera::interp

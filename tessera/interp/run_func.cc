// interp::run for ir::Func: statements compiled once, then executed in order.
#include <memory>

#include "tessera/interp/interp.h"
#include "tessera/interp/program.h"

namespace tessera::interp {
namespace {

// One statement with its expressions compiled.
struct Action {
  ir::StmtKind kind = ir::StmtKind::kBlock;
  std::size_t slot = 0;         // loop variable, stored or allocated memory
  const Node* value = nullptr;  // extent, condition, stored or evaluated value
  std::vector<const Node*> indices;
  std::vector<std::unique_ptr<Action>>
      children;  // body; branches (the second may be absent); statements
};

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

class Executor {
 public:
  explicit Executor(Frame& frame) : frame_(frame) {}

  void operator()(const Action& action) {
    if (frame_.error) return;
    switch (action.kind) {
      case ir::StmtKind::kFor:
        run_loop(action);
        break;
      case ir::StmtKind::kStore:
        run_store(action);
        break;
      case ir::StmtKind::kBlock:
        for (const auto& child : action.children) (*this)(*child);
        break;
      case ir::StmtKind::kIf:
        run_if(action);
        break;
      case ir::StmtKind::kAllocate:
        run_allocate(action);
        break;
      case ir::StmtKind::kEvaluate:
        for (int lane = 0; lane < action.value->lanes; ++lane) eval(*action.value, lane, frame_);
        break;
      case ir::StmtKind::kBarrier:  // one thread waits for nobody
        break;
    }
  }

 private:
  void run_loop(const Action& action) {
    const std::int64_t extent = eval(*action.value, 0, frame_).i;
    for (std::int64_t i = 0; i < extent && !frame_.error; ++i) {
      frame_.vars[action.slot] = i;
      (*this)(*action.children[0]);
    }
  }

  void run_if(const Action& action) {
    const bool taken = eval(*action.value, 0, frame_).i != 0;
    if (taken) {
      (*this)(*action.children[0]);
    } else if (action.children.size() > 1) {
      (*this)(*action.children[1]);
    }
  }

  void run_store(const Action& action) {
    lanes_.clear();  // all lanes before the first store: the value may read what it overwrites
    for (int lane = 0; lane < action.value->lanes; ++lane)
      lanes_.push_back(eval(*action.value, lane, frame_));
    for (int lane = 0; lane < action.value->lanes && !frame_.error; ++lane) {
      const std::optional<std::int64_t> element =
          element_of(action.slot, action.indices, lane, "store", frame_);
      if (element) frame_.memory[action.slot].set(*element, lanes_[static_cast<std::size_t>(lane)]);
    }
  }

  void run_allocate(const Action& action) {
    Memory& memory = frame_.memory[action.slot];
    memory.data = HostTensor(memory.buffer->dtype, memory.buffer->shape);
    memory.defined.assign(static_cast<std::size_t>(memory.data.size()) + 1,
                          0);  // +1: empty means all defined
    (*this)(*action.children[0]);
    memory.data = HostTensor();
  }

  Frame& frame_;
  std::vector<Scalar> lanes_;
};

Result<void> check_params(const ir::Func& func, const std::vector<HostTensor>& params) {
  if (params.size() != func.params.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {} parameters given, {} needed", func.name,
                      params.size(), func.params.size());
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    const ir::Buffer& want = func.params[i];
    if (params[i].dtype() != want->dtype || params[i].shape() != want->shape) {
      return make_error(ErrorCode::kInvalidArgument, "{}: parameter {} is {} {}, {} {} is needed",
                        func.name, want->name, to_text(params[i].dtype()),
                        to_text(params[i].shape()), to_text(want->dtype), to_text(want->shape));
    }
  }
  return {};
}

}  // namespace

Result<void> run(const ir::Func& func, std::vector<HostTensor>& params) {
  TESSERA_DO(check_params(func, params));
  Program program;
  for (const ir::Buffer& param : func.params) program.declare(param);
  if (!func.body) return {};
  const std::unique_ptr<Action> body = Compiler(program)(func.body);
  if (!body) return program.error()->with_context(func.name);
  Frame frame = program.make_frame();
  const std::size_t first_output = params.size() - static_cast<std::size_t>(func.num_outputs);
  for (std::size_t i = 0; i < params.size(); ++i) {
    frame.memory[i].data = params[i];
    if (i >= first_output)
      frame.memory[i].defined.assign(static_cast<std::size_t>(params[i].size()) + 1, 0);
  }
  Executor{frame}(*body);
  if (frame.error) return frame.error->with_context(func.name);
  return {};
}

}  // namespace tessera::interp

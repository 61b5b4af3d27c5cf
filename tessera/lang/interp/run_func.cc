// interp::run for ir::Func: statements executed in order.
#include "tessera/lang/interp/action.h"
#include "tessera/lang/interp/interp.h"

namespace tessera::interp {
namespace {

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
      if (element)
        frame_.memory[action.slot]->set(*element, lanes_[static_cast<std::size_t>(lane)]);
    }
  }

  void run_allocate(const Action& action) {
    Memory& memory = *frame_.memory[action.slot];
    memory.data = HostTensor(memory.buffer->dtype, memory.buffer->shape);
    memory.defined.assign(static_cast<std::size_t>(memory.data.size()) + 1,
                          0);  // +1: empty means all defined
    (*this)(*action.children[0]);
    memory.data = HostTensor();
  }

  Frame& frame_;
  std::vector<Scalar> lanes_;
};

}  // namespace

Result<void> run(const ir::Func& func, std::vector<HostTensor>& params) {
  TESSERA_DO(check_params(func.name, func.params, params));
  Program program;
  for (const ir::Buffer& param : func.params) program.declare(param);
  if (!func.body) return {};
  const std::unique_ptr<Action> body = compile_stmt(func.body, program);
  if (!body) return program.error()->with_context(func.name);
  Frame frame = program.make_frame();
  const std::size_t first_output = params.size() - static_cast<std::size_t>(func.num_outputs);
  for (std::size_t i = 0; i < params.size(); ++i) {
    frame.memory[i]->data = params[i];
    if (i >= first_output)
      frame.memory[i]->defined.assign(static_cast<std::size_t>(params[i].size()) + 1, 0);
  }
  Executor{frame}(*body);
  if (frame.error) return frame.error->with_context(func.name);
  return {};
}

}  // namespace tessera::interp

// interp::run for ir::DeviceProgram: blocks one after the other, the threads of a block in
// lockstep. Whatever depends on the order of threads is a race, which is reported, so one order is
// enough.
#include <algorithm>
#include <numeric>

#include "tessera/lang/interp/action.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/lang/interp/threads.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/shared_places.h"

namespace tessera::interp {
namespace {

using Active = std::vector<std::size_t>;  // numbers of threads

constexpr std::size_t kMaxThreads = 1024;
constexpr std::int64_t kMaxBlocks = 1 << 20;

class BlockRunner {
 public:
  explicit BlockRunner(Threads& threads) : threads_(threads) {}

  void operator()(const Action& action, const Active& active) {
    if (failed() || active.empty()) return;
    switch (action.kind) {
      case ir::StmtKind::kFor:
        return run_loop(action, active);
      case ir::StmtKind::kStore:
        return run_store(action, active);
      case ir::StmtKind::kBlock:
        for (const auto& child : action.children) (*this)(*child, active);
        return;
      case ir::StmtKind::kIf:
        return run_if(action, active);
      case ir::StmtKind::kAllocate:
        return run_allocate(action, active);
      case ir::StmtKind::kEvaluate:
        return run_evaluate(*action.value, active);
      case ir::StmtKind::kBarrier:
        return run_barrier(0, active);
    }
  }

  // The thread that failed first; nothing when none did.
  std::optional<std::size_t> failed() const { return failed_; }

 private:
  void check(const Active& active) {
    for (const std::size_t t : active) {
      if (!failed_ && threads_.frames[t].error) failed_ = t;
    }
  }

  // Marks the threads that run the statement, for exchanges between them.
  void begin(const Active& active) {
    std::fill(threads_.active.begin(), threads_.active.end(), std::uint8_t{0});
    for (const std::size_t t : active) threads_.active[t] = 1;
  }

  std::vector<std::int64_t> evaluate(const Node& node, const Active& active) {
    begin(active);
    std::vector<std::int64_t> values;
    for (const std::size_t t : active) values.push_back(eval(node, 0, threads_.frames[t]).i);
    check(active);
    return values;
  }

  void run_loop(const Action& action, const Active& active) {
    const std::vector<std::int64_t> extents = evaluate(*action.value, active);
    const std::int64_t longest = *std::max_element(extents.begin(), extents.end());
    for (std::int64_t i = 0; i < longest && !failed_; ++i) {
      Active still;
      for (std::size_t k = 0; k < active.size(); ++k) {
        if (i >= extents[k]) continue;
        still.push_back(active[k]);
        threads_.frames[active[k]].vars[action.slot] = i;
      }
      (*this)(*action.children[0], still);
    }
  }

  void run_if(const Action& action, const Active& active) {
    const std::vector<std::int64_t> taken = evaluate(*action.value, active);
    Active yes, no;
    for (std::size_t k = 0; k < active.size(); ++k) (taken[k] != 0 ? yes : no).push_back(active[k]);
    (*this)(*action.children[0], yes);
    if (action.children.size() > 1) (*this)(*action.children[1], no);
  }

  void set(std::size_t thread, std::size_t slot, std::int64_t element, Scalar value) {
    Frame& frame = threads_.frames[thread];
    Memory& memory = *frame.memory[slot];
    if (memory.log) note_access(frame, memory, element, true);
    if (!frame.error) memory.set(element, value);
  }

  // All threads and lanes are evaluated before the first store.
  void run_store(const Action& action, const Active& active) {
    begin(active);
    const int lanes = action.value->lanes;
    std::vector<Scalar> values;
    std::vector<std::optional<std::int64_t>> elements;
    for (const std::size_t t : active) {
      for (int lane = 0; lane < lanes; ++lane) {
        values.push_back(eval(*action.value, lane, threads_.frames[t]));
        elements.push_back(
            element_of(action.slot, action.indices, lane, "store", threads_.frames[t]));
      }
    }
    check(active);
    std::size_t next = 0;
    for (const std::size_t t : active) {
      for (int lane = 0; lane < lanes && !failed_; ++lane, ++next)
        set(t, action.slot, *elements[next], values[next]);
    }
    if (!failed_ && is_group_product(*action.value)) start_products(*action.value, active);
    check(active);
  }

  // All threads of a group take part, and nothing may touch their sums or tiles from now on.
  void start_products(const Node& product, const Active& active) {
    constexpr auto kThreads = static_cast<std::size_t>(ir::kGroupThreads);
    for (const std::size_t t : active) {
      Frame& frame = threads_.frames[t];
      const std::size_t first = t / kThreads * kThreads;
      for (std::size_t other = first; other < first + kThreads; ++other) {
        if ((other >= threads_.active.size() || threads_.active[other] == 0) && !frame.error) {
          frame.error =
              make_error(ErrorCode::kRunFailed,
                         "product of a group without thread {}, which does not take part", other);
        }
      }
      Threads::Product p = start_product(product, frame);
      for (const Threads::Use& u : p.sums) {
        Memory& memory = *frame.memory[u.slot];
        memory.in_flight.resize(static_cast<std::size_t>(memory.data.size()));
        ++memory.in_flight[static_cast<std::size_t>(u.element)];
      }
      threads_.queues[t].products.push_back(std::move(p));
    }
  }

  void run_allocate(const Action& action, const Active& active) {
    for (const std::size_t t : active) {
      Memory& memory = *threads_.frames[t].memory[action.slot];
      if (memory.defined.empty()) {
        memory.data = HostTensor(memory.buffer->dtype, memory.buffer->shape);
        memory.defined.resize(static_cast<std::size_t>(memory.data.size()) + 1);
      }
      std::fill(memory.defined.begin(), memory.defined.end(), std::uint8_t{0});
    }
    (*this)(*action.children[0], active);
  }

  void run_evaluate(const Node& node, const Active& active) {
    begin(active);
    for (const std::size_t t : active) {
      if (node.kind == ir::ExprKind::kCall && node.fn == ir::Intrinsic::kAsyncCopy) {
        start_copy(node, t);
      } else if (node.kind == ir::ExprKind::kCall && node.fn == ir::Intrinsic::kAsyncCommit) {
        Threads::Queue& queue = threads_.queues[t];
        queue.groups.push_back(std::move(queue.open));
        queue.open.clear();
      } else if (node.kind == ir::ExprKind::kCall && node.fn == ir::Intrinsic::kAsyncWait) {
        const std::int64_t left = node.args[0]->value.i;
        wait(static_cast<std::size_t>(left), t);
        finish_products(left == 0 ? 0 : 1, threads_.frames[t]);
      } else if (node.kind == ir::ExprKind::kCall && node.fn == ir::Intrinsic::kProductsWait) {
        finish_products(0, threads_.frames[t]);
      } else {
        for (int lane = 0; lane < node.lanes; ++lane) eval(node, lane, threads_.frames[t]);
      }
    }
    check(active);
    const bool waits = node.kind == ir::ExprKind::kCall && node.fn == ir::Intrinsic::kAsyncWait;
    if (waits && node.args.size() > 1 && !failed_) run_barrier(node.args[1]->value.i, active);
  }

  // The element may change from now on: that counts as a store here and when it is waited for.
  void start_copy(const Node& node, std::size_t thread) {
    Frame& frame = threads_.frames[thread];
    const Node& place = *node.args[0];
    for (int lane = 0; lane < place.lanes; ++lane) {
      const Scalar value = eval(*node.args[1], lane, frame);
      const auto element = element_of(place.slot, place.args, lane, "copy", frame);
      if (!element || frame.error) return;
      Memory& memory = *frame.memory[place.slot];
      if (memory.log) note_access(frame, memory, *element, true);
      memory.in_flight.resize(static_cast<std::size_t>(memory.data.size()));
      memory.in_flight[static_cast<std::size_t>(*element)] = 1;
      threads_.queues[thread].open.push_back({place.slot, *element, value});
    }
  }

  void wait(std::size_t groups_left, std::size_t thread) {
    auto& groups = threads_.queues[thread].groups;
    while (groups.size() > groups_left) {
      for (const Threads::Copy& copy : groups.front()) {
        Memory& memory = *threads_.frames[thread].memory[copy.slot];
        memory.in_flight[static_cast<std::size_t>(copy.element)] = 0;
        set(thread, copy.slot, copy.element, copy.value);
      }
      groups.erase(groups.begin());
    }
  }

  void run_barrier(std::int64_t group, const Active& active) {
    if (active.size() != threads_.frames.size()) {
      failed_ = active.front();
      threads_.frames[active.front()].error =
          make_error(ErrorCode::kRunFailed, "divergent barrier: {} of {} threads arrive",
                     active.size(), threads_.frames.size());
    }
    AccessLog::Time& now = threads_.now;
    ++now.moment;
    if (group == 0) {
      ++now.phase;
      now.group = 0;
    } else {
      now.group = now.group == 0 ? group : std::min(now.group, group);
    }
  }

  Threads& threads_;
  std::optional<std::size_t> failed_;
};

std::array<std::int64_t, 3> coordinates(std::int64_t number,
                                        const std::array<std::int64_t, 3>& extents) {
  return {number % extents[0], number / extents[0] % extents[1],
          number / (extents[0] * extents[1])};
}

class LaunchRunner {
 public:
  explicit LaunchRunner(const ir::Launch& launch)
      : launch_(launch), places_(ir::place_shared(launch)) {}

  // `device` holds the memory of every parameter.
  Result<void> run(const std::vector<std::shared_ptr<Memory>>& device) {
    const auto count = static_cast<std::size_t>(launch_.threads());
    if (count > kMaxThreads || launch_.blocks() > kMaxBlocks) {
      return make_error(ErrorCode::kRunFailed, "{}: {} blocks of {} threads are too many to run",
                        launch_.name, launch_.blocks(), count);
    }
    for (const ir::Buffer& b : launch_.params) program_.declare(b);
    for (const ir::Buffer& b : launch_.shared) program_.declare(b);
    std::array<std::size_t, 3> block_slots{}, thread_slots{};
    for (std::size_t d = 0; d < 3; ++d) {
      block_slots[d] = program_.declare(launch_.block_vars[d]);
      thread_slots[d] = program_.declare(launch_.thread_vars[d]);
    }
    const std::unique_ptr<Action> body = compile_stmt(launch_.body, program_);
    if (!body) return program_.error()->with_context(launch_.name);
    Threads threads;
    for (std::size_t t = 0; t < count; ++t) {
      Frame& frame = threads.frames.emplace_back(program_.make_frame());
      frame.thread = t;
      const auto at = coordinates(static_cast<std::int64_t>(t), launch_.block);
      for (std::size_t d = 0; d < 3; ++d) frame.vars[thread_slots[d]] = at[d];
      for (std::size_t i = 0; i < launch_.params.size(); ++i) frame.memory[i] = device[i];
    }
    for (Frame& frame : threads.frames) frame.threads = &threads;
    threads.active.resize(count);
    Active all(count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (std::int64_t block = 0; block < launch_.blocks(); ++block) {
      const auto at = coordinates(block, launch_.grid);
      start_block(block, &threads);
      for (Frame& frame : threads.frames) {
        for (std::size_t d = 0; d < 3; ++d) frame.vars[block_slots[d]] = at[d];
      }
      BlockRunner runner(threads);
      runner(*body, all);
      if (const auto t = runner.failed()) {
        return threads.frames[*t].error->with_context(
            fmt::format("{}: block {}, thread {}", launch_.name, block, *t));
      }
    }
    return {};
  }

 private:
  void start_block(std::int64_t block, Threads* threads) {
    threads->block = block;
    ++threads->now.phase;
    threads->now.group = 0;
    threads->queues.assign(threads->frames.size(), {});
    std::shared_ptr<AccessLog> log;  // byte by byte
    if (places_.overlap) log = std::make_shared<AccessLog>(static_cast<std::size_t>(places_.bytes));
    for (std::size_t i = 0; i < launch_.shared.size(); ++i) {
      const ir::Buffer& b = launch_.shared[i];
      const auto memory = std::make_shared<Memory>();
      memory->buffer = b;
      memory->data = HostTensor(b->dtype, b->shape);
      memory->defined.assign(static_cast<std::size_t>(b.size()) + 1, 0);
      if (log) {
        memory->log = log;
        memory->log_width = static_cast<std::size_t>(size_bytes(b->dtype));
        memory->log_begin = static_cast<std::size_t>(places_.offsets[i]);
      } else {
        memory->log = std::make_shared<AccessLog>(static_cast<std::size_t>(b.size()));
      }
      for (Frame& frame : threads->frames) frame.memory[launch_.params.size() + i] = memory;
    }
  }

  const ir::Launch& launch_;
  const ir::SharedPlaces places_;
  Program program_;
};

}  // namespace

Result<void> run(const ir::DeviceProgram& program, std::vector<HostTensor>& params) {
  TESSERA_DO(check_params(program.name, program.params, params));
  std::map<ir::Buffer, std::shared_ptr<Memory>> device;
  const std::size_t first_output = params.size() - static_cast<std::size_t>(program.num_outputs);
  const auto add = [&](const ir::Buffer& b, const HostTensor& data, bool defined) {
    auto& memory = device[b] = std::make_shared<Memory>();
    memory->buffer = b;
    memory->data = data;
    if (!defined) memory->defined.assign(static_cast<std::size_t>(data.size()) + 1, 0);
  };
  for (std::size_t i = 0; i < params.size(); ++i)
    add(program.params[i], params[i], i < first_output);
  for (const ir::Buffer& b : program.temporaries) add(b, HostTensor(b->dtype, b->shape), false);
  for (const ir::Launch& launch : program.launches) {
    std::vector<std::shared_ptr<Memory>> memory;
    for (const ir::Buffer& b : launch.params) {
      const auto it = device.find(b);
      if (it == device.end()) {
        return make_error(ErrorCode::kInvalidArgument, "{}: {} has no buffer {}", launch.name,
                          program.name, b->name);
      }
      it->second->log = std::make_shared<AccessLog>(static_cast<std::size_t>(b.size()));
      memory.push_back(it->second);
    }
    TESSERA_DO(LaunchRunner(launch).run(memory));
  }
  return {};
}

}  // namespace tessera::interp

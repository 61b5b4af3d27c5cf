#include "tessera/scheduling/lower/split_launches.h"

#include <set>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/lower/bind_threads.h"

namespace tessera::lower {
namespace {

using ir::LoopKind;

class Splitter {
 public:
  explicit Splitter(const LoopAttrs& attrs) : attrs_(attrs) {}

  ir::DeviceProgram run(const ir::Func& func) {
    program_.name = func.name;
    program_.params = func.params;
    program_.num_outputs = func.num_outputs;
    visit(func.body);
    for (ir::Launch& l : program_.launches) set_params(&l);
    return std::move(program_);
  }

 private:
  void visit(const ir::Stmt& s) {
    if (!s) return;
    if (const auto* block = s.as<ir::Block>()) {
      for (const ir::Stmt& child : block->stmts) visit(child);
    } else if (const auto* alloc = s.as<ir::Allocate>()) {
      program_.temporaries.push_back(alloc->buffer);
      visit(alloc->body);
    } else {
      const auto* loop = s.as<ir::For>();
      TESSERA_CHECK(loop, "statement outside a launch");
      program_.launches.push_back(launch(*loop));
    }
  }

  ir::Launch launch(const ir::For& outermost) const {
    const LaunchShape fresh = make_launch_shape();
    ir::Launch l{.name = "",
                 .params = {},
                 .shared = {},
                 .block_vars = fresh.block_vars,
                 .thread_vars = fresh.thread_vars,
                 .body = {}};
    const auto name = attrs_.launches.find(outermost.var.get());
    TESSERA_CHECK(name != attrs_.launches.end(), "loop {} is not a launch",
                  outermost.var.as<ir::Var>()->name);
    l.name = name->second;
    l.warp = attrs_.warp;
    ir::Stmt s(&outermost);
    for (;;) {
      if (const auto* alloc = s.as<ir::Allocate>();
          alloc && alloc->buffer->scope == ir::Scope::kShared) {
        l.shared.push_back(alloc->buffer);
        s = alloc->body;
        continue;
      }
      const auto* loop = s.as<ir::For>();
      if (!loop || loop->loop_kind < LoopKind::kBlockX || loop->loop_kind > LoopKind::kThreadZ)
        break;
      const bool block = loop->loop_kind <= LoopKind::kBlockZ;
      const auto d = static_cast<std::size_t>(loop->loop_kind) -
                     static_cast<std::size_t>(block ? LoopKind::kBlockX : LoopKind::kThreadX);
      const auto extent = ir::as_const_int(loop->extent);
      TESSERA_CHECK(extent.has_value(), "launch without constant extents");
      (block ? l.block_vars : l.thread_vars)[d] = loop->var;
      (block ? l.grid : l.block)[d] = *extent;
      s = loop->body;
    }
    l.body = s;
    return l;
  }

  // In the order of the program: what is only read, then what is written.
  void set_params(ir::Launch* l) const {
    std::set<ir::Buffer> read, written;  // copies write shared memory only
    ir::for_each_expr(l->body, [&](const ir::Expr& e) {
      if (const auto* load = e.as<ir::Load>()) read.insert(load->buffer);
    });
    ir::for_each_stmt(l->body, [&](const ir::Stmt& s) {
      if (const auto* store = s.as<ir::Store>()) written.insert(store->buffer);
    });
    std::vector<ir::Buffer> device = program_.params;
    device.insert(device.end(), program_.temporaries.begin(), program_.temporaries.end());
    for (const ir::Buffer& b : device) {
      if (read.count(b) && !written.count(b)) l->params.push_back(b);
    }
    for (const ir::Buffer& b : device) {
      if (!written.count(b)) continue;
      l->params.push_back(b);
      ++l->num_outputs;
    }
  }

  const LoopAttrs& attrs_;
  ir::DeviceProgram program_;
};

}  // namespace

ir::DeviceProgram split_launches(const ir::Func& func, const LoopAttrs& attrs) {
  return Splitter(attrs).run(func);
}

}  // namespace tessera::lower

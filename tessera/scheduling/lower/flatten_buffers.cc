#include "tessera/scheduling/lower/flatten_buffers.h"

#include <map>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

class FlattenBuffers final : public ir::Mutator {
 public:
  ir::Buffer flat(const ir::Buffer& b) {
    if (b->shape.size() == 1) return b;
    const auto [it, fresh] = flat_.try_emplace(b);
    if (fresh) it->second = ir::Buffer::make(b->name, b->dtype, {b.size()}, b->scope);
    return it->second;
  }

 private:
  using ir::Mutator::rewrite;

  static ir::Expr linear(const ir::Buffer& b, const std::vector<ir::Expr>& indices) {
    ir::Expr out = ir::int_imm(0);
    std::int64_t stride = 1;
    std::vector<std::int64_t> strides(indices.size(), 1);
    for (std::size_t d = indices.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= b->shape[d];
    }
    const auto* ramp = indices.empty() ? nullptr : indices.back().as<ir::Ramp>();
    for (std::size_t d = 0; d < indices.size(); ++d)
      out = out + (ramp && d + 1 == indices.size() ? ramp->base : indices[d] * strides[d]);
    return ramp ? ir::Ramp::make(out, ramp->stride, ramp->type.lanes) : out;
  }

  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    if (load.buffer->shape.size() == 1) return Mutator::rewrite(e, load);
    std::vector<ir::Expr> indices;
    rewrite_all(load.indices, &indices);
    return ir::Load::make(flat(load.buffer), {linear(load.buffer, indices)});
  }
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    if (store.buffer->shape.size() == 1) return Mutator::rewrite(s, store);
    std::vector<ir::Expr> indices;
    rewrite_all(store.indices, &indices);
    return ir::Store::make(flat(store.buffer), {linear(store.buffer, indices)},
                           (*this)(store.value));
  }
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Allocate& alloc) override {
    if (alloc.buffer->shape.size() == 1) return Mutator::rewrite(s, alloc);
    return ir::Allocate::make(flat(alloc.buffer), (*this)(alloc.body));
  }

  std::map<ir::Buffer, ir::Buffer> flat_;
};

}  // namespace

ir::Func flatten_buffers(const ir::Func& func) {
  FlattenBuffers flatten;
  ir::Func out = func;
  for (ir::Buffer& b : out.params) b = flatten.flat(b);
  out.body = flatten(func.body);
  return out;
}

}  // namespace tessera::lower

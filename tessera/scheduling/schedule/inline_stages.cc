#include "tessera/scheduling/schedule/inline_stages.h"

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::schedule {
namespace {

class InlineOp final : public ir::Mutator {
 public:
  explicit InlineOp(const te::Op& op) : op_(op) {}

 private:
  using ir::Mutator::rewrite;
  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    ir::Expr inner = Mutator::rewrite(e, load);
    const auto* node = inner.as<ir::Load>();
    for (std::size_t o = 0; o < op_.outputs.size(); ++o) {
      if (node->buffer != op_.outputs[o]) continue;
      ir::VarMap axes;
      for (std::size_t d = 0; d < op_.axes.size(); ++d)
        axes[op_.axes[d].var.get()] = node->indices[d];
      return ir::substitute(op_.values[o], axes);
    }
    return inner;
  }
  const te::Op& op_;
};

}  // namespace

State inline_stages(const State& state) {
  State out = state;
  out.stages.clear();
  std::vector<te::Op> inlined;
  for (const Stage& s : state.stages) {
    Stage stage = s;
    // Earlier inlined ops first, so that chains collapse whole.
    for (const te::Op& op : inlined) {
      for (ir::Expr& v : stage.op.values) v = InlineOp(op)(v);
    }
    if (s.attach.kind == Attach::Kind::kInline) {
      inlined.push_back(stage.op);
    } else {
      out.stages.push_back(std::move(stage));
    }
  }
  return out;
}

}  // namespace tessera::schedule

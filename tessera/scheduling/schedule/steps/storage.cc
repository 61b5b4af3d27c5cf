// layout, storage_align: how tensors lie in memory.
#include "tessera/scheduling/schedule/steps/step_text.h"

namespace tessera::schedule {

std::string SetLayout::args() const { return fmt::format("{} {}", buffer, to_text(layout)); }

Result<void> SetLayout::apply(State& state) const {
  ir::Buffer found;
  for (const te::Input& in : state.dag.inputs) {
    if (in.buffer->name != buffer) continue;
    if (!in.constant)
      return illegal("input {} is not constant: cache_read it and lay out the copy", buffer);
    found = in.buffer;
  }
  for (const Stage& s : state.stages) {
    for (const ir::Buffer& b : s.op.outputs) {
      if (b->name != buffer) continue;
      if (state.dag.is_output(b))
        return illegal("{} is an output: its layout belongs to the caller", buffer);
      found = b;
    }
  }
  if (!found) return illegal("no tensor {}", buffer);
  TESSERA_DO(check_layout(layout, found->shape.size()));
  state.layouts[found] = layout;
  return {};
}

Result<Step> parse_layout(ArgReader& args) {
  SetLayout s;
  TESSERA_TRY(s.buffer, args.word("tensor"));
  for (const std::string& part : args.rest()) {
    TESSERA_TRY(const Layout dim, layout_from_text(part));
    s.layout.insert(s.layout.end(), dim.begin(), dim.end());
  }
  return Step(s);
}

std::string StorageAlign::args() const {
  return fmt::format("{} {} {} {}", stage, dim, factor, offset);
}

Result<void> StorageAlign::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  for (const ir::Buffer& b : s->op.outputs) {
    if (state.dag.is_output(b))
      return illegal("{} is an output: its layout belongs to the caller", stage);
  }
  const int rank = static_cast<int>(s->op.axes.size());
  int last = rank - 1;  // as stored
  for (const ir::Buffer& b : s->op.outputs) {
    const auto layout = state.layouts.find(b);
    if (rank > 0 && layout != state.layouts.end() &&
        static_cast<int>(layout->second.size()) == rank)
      last = layout->second.back().dim;
  }
  if (dim < 0 || dim >= rank || dim == last)
    return illegal("dimension {} has no stride to align (rank {})", dim, rank);
  if (factor < 1 || factor > 4096 || offset < 0 || offset >= factor) {
    return illegal("factor must be in 1..4096 and offset in 0..factor-1");
  }
  s->align[dim] = {factor, offset};
  return {};
}

Result<Step> parse_storage_align(ArgReader& args) {
  StorageAlign s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.dim, args.small_number("dimension"));
  TESSERA_TRY(s.factor, args.number("factor"));
  TESSERA_TRY(s.offset, args.number("offset"));
  return Step(s);
}

}  // namespace tessera::schedule

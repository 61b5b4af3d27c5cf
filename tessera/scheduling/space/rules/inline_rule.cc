#include "tessera/scheduling/space/rules/inline_rule.h"

#include <algorithm>

#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/schedule/inline_stages.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/writer.h"

namespace tessera::space {
namespace {

bool selects(const te::Op& op) {
  bool found = false;
  for (const ir::Expr& v : op.values) {
    ir::for_each_expr(v, [&](const ir::Expr& e) { found = found || e.as<ir::Select>(); });
  }
  return found;
}

// A stage with a condition that a reduction reads.
bool is_padding(const Analysis& analysis, const std::string& name) {
  for (const Stage& s : analysis.stages) {
    if (s.op.name != name) continue;
    return selects(s.op) && std::any_of(s.users.begin(), s.users.end(), [&](std::size_t u) {
             return analysis.stages[u].reduces();
           });
  }
  return false;
}

bool apply_inlining(const te::Dag& dag, const std::vector<std::string>& names, Inlined* out) {
  Writer writer;
  for (const std::string& name : names) writer.compute_inline(name);
  const auto state = schedule::apply(dag, writer.schedule());
  if (!state.ok()) return false;
  out->steps = writer.schedule();
  for (const schedule::Stage& s : schedule::inline_stages(*state).stages) out->ops.push_back(s.op);
  return true;
}

}  // namespace

std::vector<Inlined> inlined_variants(const te::Dag& dag) {
  const Analysis analysis = analyse(dag, dag.ops);
  std::vector<std::string> names = choose_inlined(analysis);
  std::vector<Inlined> out;
  Inlined all;
  if (apply_inlining(dag, names, &all)) out.push_back(std::move(all));
  const std::size_t count = names.size();
  std::erase_if(names, [&](const std::string& n) { return is_padding(analysis, n); });
  Inlined fewer{.name = "+copy", .steps = {}, .ops = {}};
  if (names.size() < count && apply_inlining(dag, names, &fewer)) out.push_back(std::move(fewer));
  if (out.empty()) out.push_back({.name = "", .steps = {}, .ops = dag.ops});
  return out;
}

}  // namespace tessera::space

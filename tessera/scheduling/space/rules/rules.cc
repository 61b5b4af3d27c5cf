#include "tessera/scheduling/space/rules/rules.h"

#include "tessera/scheduling/space/rules/derivation.h"
#include "tessera/scheduling/space/rules/inline_rule.h"

namespace tessera::space {

Result<std::vector<std::unique_ptr<Sketch>>> rule_sketches(const te::Dag& dag,
                                                           const target::Target& target) {
  std::vector<std::unique_ptr<Sketch>> out;
  if (rule_table(target).empty()) return out;
  for (const Inlined& inlined : inlined_variants(dag)) {
    const Problem problem = make_problem(dag, inlined.ops, target);
    for (const Draft& draft : derive(problem)) {
      auto sketch =
          make_sketch(problem, draft, "rules." + draft.name + inlined.name, inlined.steps);
      if (sketch) out.push_back(std::move(sketch));
    }
  }
  if (!out.empty()) return out;
  // Every stage by itself, one vector at a time, is always legal.
  const Problem problem = make_problem(dag, dag.ops, target);
  Draft draft{.stages = std::vector<StageDraft>(dag.ops.size()), .name = "rows"};
  for (StageDraft& own : draft.stages) own.kind = StageDraft::Kind::kRows;
  auto sketch = make_sketch(problem, draft, "rules.rows", {});
  TESSERA_CHECK(sketch != nullptr, "stages by themselves have no legal choice");
  out.push_back(std::move(sketch));
  return out;
}

}  // namespace tessera::space

#include "tessera/space/rules/rules.h"

#include "tessera/space/rules/derivation.h"
#include "tessera/space/rules/inline_rule.h"

namespace tessera::space {

Result<std::vector<std::unique_ptr<Sketch>>> rule_sketches(const te::Dag& dag,
                                                           const target::Target& target) {
  std::vector<std::unique_ptr<Sketch>> out;
  for (const Inlined& inlined : inlined_variants(dag)) {
    const Problem problem = make_problem(dag, inlined.ops, target);
    for (const Draft& draft : derive(problem)) {
      out.push_back(
          make_sketch(problem, draft, "rules." + draft.name + inlined.name, inlined.steps));
    }
  }
  return out;
}

}  // namespace tessera::space

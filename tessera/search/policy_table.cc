#include <fmt/ranges.h>

#include "tessera/search/policies/policies.h"
#include "tessera/search/policy.h"
#include "tessera/support/nearest_name.h"

namespace tessera::search {
namespace {

class NoScorer final : public Scorer {
 public:
  bool ready() const override { return false; }
  std::vector<float> score(std::span<const decide::Candidate>) override { return {}; }
  std::vector<float> spread(std::span<const decide::Candidate>) override { return {}; }
};

// The first letters of a name stand for it ("evolution").
constexpr std::size_t kLeastLetters = 4;

}  // namespace

Scorer& no_scorer() {
  static NoScorer scorer;  // has no state
  return scorer;
}

const std::vector<PolicyEntry>& policy_table() {
  static const std::vector<PolicyEntry> table = {
      {"evolutionary", "evolution on the scores of a model; the default", true, make_evolutionary},
      {"annealing", "parallel simulated annealing on the scores of a model", true, make_annealing},
      {"lm", "written by a language model, then bred where a task stalls", true, make_language},
      {"cut", "single gains together, layouts by a minimum cut, then evolution", true, make_cut},
      {"local", "mutations of the fastest measured, no model", false, make_local},
      {"genetic", "generations of measured candidates, no model", false, make_genetic},
      {"random", "legal points at random, none twice", false, make_random},
      {"exec", "exec:COMMAND, a program of your own", true, make_program},
      {"grid", "every point in order", false, make_grid},
  };
  return table;
}

Result<const PolicyEntry*> find_policy(const std::string& name) {
  std::vector<std::string> names;
  const PolicyEntry* begun = nullptr;
  for (const PolicyEntry& entry : policy_table()) {
    if (name == entry.name) return &entry;
    if (name.size() >= kLeastLetters && std::string_view(entry.name).starts_with(name))
      begun = &entry;
    names.push_back(entry.name);
  }
  if (begun != nullptr) return begun;
  return make_error(ErrorCode::kInvalidArgument, "no search policy '{}'{} Policies: {}", name,
                    suggest_name(name, names, "."), fmt::join(names, ", "));
}

}  // namespace tessera::search

#include <algorithm>
#include <iterator>

#include "tessera/scheduling/space/reasoned.h"
#include "tessera/scheduling/space/rules/rules.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/scheduling/space/templates/templates.h"

namespace tessera::space {
namespace {

using Sketches = std::vector<std::unique_ptr<Sketch>>;

struct Source {
  const char* name;
  Result<Sketches> (*make)(const te::Dag& dag, const target::Target& target);
};

// The first gives the preferred candidate.
constexpr Source kSources[] = {
    {"reasoned", reasoned_sketches},
    {"rules", rule_sketches},
    {"templates", template_sketches},
};

Result<void> check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string known;
    bool found = false;
    for (const Source& s : kSources) {
      known += std::string(" ") + s.name;
      found = found || name == s.name;
    }
    if (!found) {
      return make_error(ErrorCode::kInvalidArgument, "no source of sketches {}; there are{}", name,
                        known);
    }
  }
  return {};
}

}  // namespace

Result<Space> make_space(const te::Dag& dag, const target::Target& target,
                         const SpaceOptions& options) {
  TESSERA_DO(check_names(options.sources));
  Sketches sketches;
  for (const Source& source : kSources) {
    const bool wanted = options.sources.empty() ||
                        std::find(options.sources.begin(), options.sources.end(), source.name) !=
                            options.sources.end();
    if (!wanted) continue;
    TESSERA_TRY(Sketches more, source.make(dag, target));
    std::move(more.begin(), more.end(), std::back_inserter(sketches));
  }
  // A source may have nothing to say about a Dag.
  if (sketches.empty()) {
    TESSERA_TRY(sketches, reasoned_sketches(dag, target));
  }
  return Space(dag, target, std::move(sketches));
}

}  // namespace tessera::space

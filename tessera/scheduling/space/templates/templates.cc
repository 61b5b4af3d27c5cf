#include "tessera/scheduling/space/templates/templates.h"

#include <algorithm>

#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/rules/derivation.h"
#include "tessera/scheduling/space/rules/inline_rule.h"

namespace tessera::space {
namespace {

// A known operation: how it is tiled and what stays open beside the tiles.
struct Template {
  const char* name;
  bool (*matches)(const Problem& problem, const Stage& stage);
  const char* structure;
  // Decisions of a tiling by their last word.
  std::vector<const char*> open;
};

// An index of several axes: a window that slides.
bool has_window(const Stage& s) {
  return std::any_of(s.reads.begin(), s.reads.end(), [](const Access& r) {
    return std::any_of(r.indices.begin(), r.indices.end(),
                       [](const Index& i) { return i.terms.size() > 1; });
  });
}

// Axes that every operand has.
bool has_batch(const Stage& s) {
  for (std::size_t i = 0; i < s.rank(); ++i) {
    const bool all =
        std::all_of(s.reads.begin(), s.reads.end(), [&](const Access& r) { return r.uses(i); });
    if (s.extent(i) > 1 && all) return true;
  }
  return false;
}

bool matches_depthwise(const Problem&, const Stage& s) { return is_lanewise(s) && has_window(s); }

bool matches_conv(const Problem&, const Stage& s) {
  return is_contraction(s) && (has_window(s) || s.rank() >= 4) && !has_batch(s);
}

bool matches_batch(const Problem&, const Stage& s) { return is_contraction(s) && has_batch(s); }

bool matches_dense(const Problem& p, const Stage& s) {
  return is_contraction(s) && std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& r) {
           return p.analysis->constant(r.buffer);
         });
}

bool matches_product(const Problem&, const Stage& s) { return is_contraction(s); }

// The first that matches is used.
const std::vector<Template>& template_table() {
  static const std::vector<Template> table = {
      {"depthwise", matches_depthwise, "SRS", {"order", "unroll", "parallel", "tail"}},
      {"conv2d", matches_conv, "SRS", {"order", "reduce_order", "unroll", "tail"}},
      {"batch_matmul", matches_batch, "SRSRS", {"unroll"}},
      {"dense", matches_dense, "SRSRS", {"unroll"}},
      {"matmul", matches_product, "SRSRS", {"unroll"}},
  };
  return table;
}

// The last word of the name of a decision, and its name as a knob.
using Knobs = std::vector<std::pair<std::string, std::string>>;

Knobs knobs_of(const Stage& s, const Template& t) {
  Knobs out;
  for (std::size_t i = 0; i < s.axis_count(); ++i)
    out.emplace_back(s.axis_name(i), "tile_" + s.axis_name(i));
  for (const char* word : t.open) out.emplace_back(word, word);
  return out;
}

}  // namespace

Result<std::vector<std::unique_ptr<Sketch>>> template_sketches(const te::Dag& dag,
                                                               const target::Target& target) {
  std::vector<std::unique_ptr<Sketch>> out;
  if (rule_table(target).empty()) return out;
  const Inlined inlined = inlined_variants(dag).front();
  const Problem problem = make_problem(dag, inlined.ops, target);
  if (!problem.main) return out;
  const Stage& main = problem.stage(*problem.main);
  const auto& table = template_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Template& t) { return t.matches(problem, main); });
  if (found == table.end()) return out;
  for (Draft& draft : derive(problem)) {
    StageDraft& own = draft.stages[*problem.main];
    if (own.kind != StageDraft::Kind::kTiled) continue;
    const int fused = own.nest && own.tiling.fused > 0 ? 1 : 0;
    own.tiling = {.structure = found->structure, .fused = fused, .small = true};
    const PartHook hook = [&](Part& part, std::size_t stage) {
      part.keep_open(stage == *problem.main ? knobs_of(main, *found) : Knobs{});
    };
    auto sketch =
        make_sketch(problem, draft, std::string("template.") + found->name, inlined.steps, hook);
    if (sketch) out.push_back(std::move(sketch));
    break;
  }
  return out;
}

}  // namespace tessera::space

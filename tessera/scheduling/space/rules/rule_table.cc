// The rules. Each is one function and one row.
#include <algorithm>

#include "tessera/scheduling/space/rules/derivation.h"
#include "tessera/scheduling/space/transform.h"

namespace tessera::space {
namespace {

// A nest that is still free to take over the result of `stage`.
std::optional<Nest> free_nest(const Problem& p, const Draft& draft, std::size_t stage) {
  std::optional<Nest> nest = find_nest(*p.analysis, stage);
  if (!nest) return std::nullopt;
  if (draft.stages[nest->stage].kind != StageDraft::Kind::kRows) return std::nullopt;
  return nest;
}

void add_tiling(const Draft& draft, std::size_t stage, const Tiling& tiling,
                const std::optional<Nest>& nest, bool main, std::vector<Draft>* out) {
  Draft next = draft;
  next.stages[stage] = {StageDraft::Kind::kTiled, tiling, nest};
  if (nest && tiling.fused > 0 && !tiling.cache_write)
    next.stages[nest->stage].kind = StageDraft::Kind::kNest;
  if (main) {
    next.name = tiling.structure;
    std::transform(next.name.begin(), next.name.end(), next.name.begin(),
                   [](char c) { return c == 'S' ? 's' : 'r'; });
    if (tiling.fused > 0) next.name += (tiling.cache_write ? ".cache" : ".fused");
    if (tiling.fused > 0) next.name += std::to_string(tiling.fused);
  }
  out->push_back(std::move(next));
}

// Conditions cut every loop around them: one group of loops outside is enough.
bool is_conditional(const Stage& s) {
  return std::any_of(s.reads.begin(), s.reads.end(), [](const Access& r) { return r.conditional; });
}

// Stages that choose a row of a small matrix by an index are unrolled along that index.
Answer transform_rule(const Problem& p, const Draft& draft, std::size_t stage,
                      std::vector<Draft>* out) {
  if (!is_transform(p.stage(stage))) return Answer::kPass;
  out->push_back(draft);
  out->back().stages[stage].kind = StageDraft::Kind::kTransform;
  return Answer::kOnly;
}

// Few sums of many terms: folded along the reduction instead of tiled.
Answer fold_rule(const Problem& p, const Draft& draft, std::size_t stage, std::vector<Draft>* out) {
  const Stage& s = p.stage(stage);
  if (!is_tiled(s)) return Answer::kPass;
  const double space = s.elements(), depth = s.iterations() / std::max(1.0, space);
  if (space > depth || space > 16.0 * p.target.code_threads()) return Answer::kPass;
  out->push_back(draft);
  out->back().stages[stage].kind = StageDraft::Kind::kRows;
  if (p.main == stage) out->back().name = "fold";
  return Answer::kMore;
}

// The stage is computed for a tile of the elementwise stage that reads it.
Answer fuse_rule(const Problem& p, const Draft& draft, std::size_t stage, std::vector<Draft>* out) {
  if (!is_tiled(p.stage(stage))) return Answer::kPass;
  const std::optional<Nest> nest = free_nest(p, draft, stage);
  if (!nest) return Answer::kPass;
  const bool main = p.main == stage;
  if (is_conditional(p.stage(stage))) {
    add_tiling(draft, stage, {.structure = "SRS", .fused = 1}, nest, main, out);
    return main ? Answer::kMore : Answer::kOnly;
  }
  add_tiling(draft, stage, {.structure = "SSRS", .fused = 2}, nest, main, out);
  if (!main) return Answer::kOnly;
  add_tiling(draft, stage, {.structure = "SRS", .fused = 1}, nest, main, out);
  add_tiling(draft, stage, {.structure = "SSRSRS", .fused = 1}, nest, main, out);
  add_tiling(draft, stage, {.structure = "SSRSRS", .fused = 2}, nest, main, out);
  return Answer::kMore;
}

// Sums of blocks are collected in a local copy of a tile.
Answer cache_write_rule(const Problem& p, const Draft& draft, std::size_t stage,
                        std::vector<Draft>* out) {
  const Stage& s = p.stage(stage);
  if (!is_tiled(s) || p.main != stage || is_conditional(s) || free_nest(p, draft, stage))
    return Answer::kPass;
  for (const int level : {1, 2}) {
    add_tiling(draft, stage, {.structure = "SSRSRS", .fused = level, .cache_write = true},
               std::nullopt, true, out);
  }
  return Answer::kMore;
}

Answer tile_rule(const Problem& p, const Draft& draft, std::size_t stage, std::vector<Draft>* out) {
  if (!is_tiled(p.stage(stage))) return Answer::kPass;
  const bool main = p.main == stage;
  if (is_conditional(p.stage(stage))) {
    add_tiling(draft, stage, {.structure = "SRS"}, std::nullopt, main, out);
    return Answer::kOnly;
  }
  add_tiling(draft, stage, {.structure = "SSRS"}, std::nullopt, main, out);
  if (!main) return Answer::kOnly;
  add_tiling(draft, stage, {.structure = "SSRSRS"}, std::nullopt, main, out);
  if (!free_nest(p, draft, stage))
    add_tiling(draft, stage, {.structure = "SRS"}, std::nullopt, main, out);
  return Answer::kOnly;
}

Answer row_rule(const Problem&, const Draft& draft, std::size_t stage, std::vector<Draft>* out) {
  out->push_back(draft);
  out->back().stages[stage].kind = StageDraft::Kind::kRows;
  return Answer::kOnly;
}

}  // namespace

const std::vector<Rule>& rule_table(const target::Target& target) {
  static const std::vector<Rule> cpu = {
      {"transform", transform_rule}, {"fuse", fuse_rule}, {"cache_write", cache_write_rule},
      {"fold", fold_rule},           {"tile", tile_rule}, {"rows", row_rule},
  };
  static const std::vector<Rule> none;
  return target.row().launches ? none : cpu;
}

}  // namespace tessera::space

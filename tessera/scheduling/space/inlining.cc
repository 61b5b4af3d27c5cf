#include "tessera/scheduling/space/inlining.h"

#include <algorithm>
#include <map>

#include "tessera/lang/ir/visitor.h"

namespace tessera::space {
namespace {

// Expression nodes of a stage with all that is inlined into it.
constexpr int kMaxNodes = 500;
// Operations that may be repeated rather than stored.
constexpr double kCheap = 1;
constexpr double kMaxRepeats = 1.5;

// A stage into which another one ends up.
struct Site {
  double evaluations =
      0;           // of the inlined stage per evaluation of the site; equal reads count once
  int copies = 0;  // of its expression in the text of the site
};
using Sites = std::map<std::size_t, Site>;

struct Uses {
  int copies = 0;         // loads
  int distinct = 0;       // loads that differ in their indices
  bool identity = false;  // one distinct load, indexed by the axes of the user in order
};

Uses uses_of(const te::Op& user, const te::Op& producer) {
  std::vector<ir::Expr> seen;
  Uses out;
  for (const ir::Expr& v : user.values) {
    ir::for_each_expr(v, [&](const ir::Expr& e) {
      const auto* load = e.as<ir::Load>();
      if (!load || load->buffer != producer.outputs[0]) return;
      ++out.copies;
      if (std::none_of(seen.begin(), seen.end(), [&](const ir::Expr& s) { return equal(s, e); }))
        seen.push_back(e);
    });
  }
  out.distinct = static_cast<int>(seen.size());
  if (out.distinct != 1) return out;
  const auto* load = seen[0].as<ir::Load>();
  out.identity = load->indices.size() == user.axes.size();
  for (std::size_t d = 0; out.identity && d < user.axes.size(); ++d)
    out.identity = load->indices[d].same_as(user.axes[d].var);
  return out;
}

// A read and nothing else, of a constant input: repacked in advance, it costs nothing.
bool is_constant_copy(const Analysis& analysis, const Stage& s) {
  return s.op.values.size() == 1 && s.op.values[0].as<ir::Load>() && s.reads.size() == 1 &&
         s.reads[0].regular() && analysis.constant(s.reads[0].buffer);
}

// Lanes of a reduction would differ in the condition of the padding.
bool pads_last_axis(const Stage& producer, const Stage& site) {
  if (!site.reduces() || producer.rank() == 0) return false;
  bool found = false;
  const ir::Expr& last = producer.op.axes.back().var;
  ir::for_each_expr(producer.op.values[0], [&](const ir::Expr& e) {
    const auto* select = e.as<ir::Select>();
    found = found || (select && ir::uses_var(select->cond, last));
  });
  return found;
}

// Little is left of loops that the conditions of the padding are cut off from.
bool mostly_padding(const Stage& producer) {
  double elements = 0;
  for (const Access& read : producer.reads) {
    double count = 1;
    for (const std::int64_t d : read.buffer->shape) count *= static_cast<double>(d);
    elements = std::max(elements, count);
  }
  return producer.elements() > 2 * elements;
}

class Inliner {
 public:
  Inliner(const Analysis& analysis, Inlining inlining)
      : analysis_(analysis),
        inlining_(inlining),
        sites_(analysis.stages.size()),
        nodes_(analysis.stages.size()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i] = analysis.stages[i].nodes;
  }

  std::vector<std::string> run() {
    std::vector<std::string> out;
    for (std::size_t i = analysis_.stages.size(); i-- > 0;) {
      const Sites sites = sites_of(i);
      if (!may_inline(i, sites)) {
        sites_[i] = {{i, Site{.evaluations = 1, .copies = 1}}};
        continue;
      }
      for (const auto& [site, use] : sites) nodes_[site] += use.copies * analysis_.stages[i].nodes;
      sites_[i] = sites;
      out.push_back(analysis_.stages[i].op.name);
    }
    return out;
  }

 private:
  Sites sites_of(std::size_t i) const {
    Sites out;
    for (const std::size_t user : analysis_.stages[i].users) {
      const Uses uses = uses_of(analysis_.stages[user].op, analysis_.stages[i].op);
      for (const auto& [site, through] : sites_[user]) {
        Site& s = out[site];
        const double evaluations = uses.distinct * through.evaluations;
        // Equal reads become one in machine code.
        s.evaluations =
            uses.identity ? std::max(s.evaluations, evaluations) : s.evaluations + evaluations;
        s.copies += uses.copies * through.copies;
      }
    }
    return out;
  }

  bool may_inline(std::size_t i, const Sites& sites) const {
    const Stage& s = analysis_.stages[i];
    if (s.output || s.reduces() || s.users.empty() || s.op.outputs.size() != 1) return false;
    const bool threads = inlining_ == Inlining::kThreads;
    const bool eager = inlining_ == Inlining::kEager || (threads && s.selectors.empty());
    double evaluations = 0;
    for (const auto& [site, use] : sites) {
      const Stage& nest = analysis_.stages[site];
      const bool copy = is_constant_copy(analysis_, s);
      if (inlining_ == Inlining::kLazy && nest.reduces() && !copy) return false;
      if (is_contraction(nest) && !copy) return false;
      if (is_lanewise(nest) && (s.cost > (widens(s) ? kCheap : 0) || !is_shifted(s))) return false;
      if (is_lanewise(nest) && mostly_padding(s)) return false;
      if (pads_last_axis(s, nest)) return false;
      if (nodes_[site] + use.copies * s.nodes > kMaxNodes) return false;
      if (!threads && !nest.reduces() && use.evaluations >= 3 && has_select(s)) return false;
      evaluations += use.evaluations * nest.iterations();
    }
    return eager || s.cost <= kCheap || evaluations <= kMaxRepeats * std::max(1.0, s.elements());
  }

  // What it reads is stored narrower: fewer bytes for a little more work.
  bool widens(const Stage& s) const {
    return std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
      if (size_bytes(read.buffer->dtype) < size_bytes(s.dtype())) return true;
      const int p = analysis_.producer(read.buffer);
      return p >= 0 && !analysis_.stages[static_cast<std::size_t>(p)].reduces() &&
             widens(analysis_.stages[static_cast<std::size_t>(p)]);
    });
  }

  static bool has_select(const Stage& s) {
    bool found = false;
    ir::for_each_expr(s.op.values[0],
                      [&](const ir::Expr& e) { found = found || e.as<ir::Select>(); });
    return found;
  }

  static bool is_shifted(const Stage& s) {
    return std::all_of(s.reads.begin(), s.reads.end(), [](const Access& a) { return a.regular(); });
  }

  const Analysis& analysis_;
  Inlining inlining_;
  std::vector<Sites> sites_;
  std::vector<int> nodes_;
};

}  // namespace

bool is_lanewise(const Stage& stage) { return stage.operands_along_last == 2; }

bool is_contraction(const Stage& stage) {
  return stage.operands_along_last == 0 || stage.operands_along_last == 1;
}

std::vector<std::string> choose_inlined(const Analysis& analysis, Inlining inlining) {
  return Inliner(analysis, inlining).run();
}

}  // namespace tessera::space

#include "tessera/learn/lm/question.h"

#include <algorithm>

#include "tessera/support/check.h"

namespace tessera::lm {
namespace {

std::size_t heaviest(const space::Analysis& analysis) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < analysis.stages.size(); ++i) {
    if (analysis.stages[i].iterations() > analysis.stages[best].iterations()) best = i;
  }
  return best;
}

// The stage with the longest name that the decision's begins with, or -1: names may hold dots.
std::int32_t stage_of(std::string_view name, const space::Analysis& analysis) {
  std::int32_t found = -1;
  std::size_t length = 0;
  for (std::size_t i = 0; i < analysis.stages.size(); ++i) {
    const std::string& stage = analysis.stages[i].op.name;
    if (stage.size() < name.size() && name[stage.size()] == '.' && name.starts_with(stage) &&
        stage.size() >= length) {
      found = static_cast<std::int32_t>(i);
      length = stage.size();
    }
  }
  return found;
}

std::int32_t axis_of(std::string_view name, const space::Stage& stage) {
  for (std::size_t a = 0; a < stage.axis_count(); ++a) {
    if (stage.axis_name(a) == name) return static_cast<std::int32_t>(a);
  }
  return -1;
}

std::int32_t operand_of(std::string_view name, const space::Stage& stage) {
  for (std::size_t r = 0; r < stage.reads.size(); ++r) {
    if (stage.reads[r].buffer->name == name) return static_cast<std::int32_t>(r);
  }
  return -1;
}

double product_of(const std::vector<std::int64_t>& lengths) {
  double out = 1;
  for (const std::int64_t n : lengths) out *= static_cast<double>(std::max<std::int64_t>(n, 0));
  return out;
}

}  // namespace

void read_decision(const decide::Point& decision, const space::Analysis& analysis,
                   ReadDecision* out) {
  TESSERA_CHECK(!analysis.stages.empty(), "a decision about no stage");
  QuestionFacts& q = out->facts;
  q = {};
  q.kind = decision.kind;
  q.index = stage_of(decision.name, analysis);
  std::string_view what = decision.name;
  q.stage = &analysis.stages[q.index >= 0 ? static_cast<std::size_t>(q.index) : heaviest(analysis)];
  if (q.index >= 0) what.remove_prefix(q.stage->op.name.size() + 1);

  out->what.clear();
  q.operand = operand_of(what, *q.stage);
  if (q.operand < 0) q.axis = axis_of(what, *q.stage);
  constexpr std::string_view kTile = "tile_";
  if (q.index < 0 && what.starts_with(kTile)) q.axis = axis_of(what.substr(kTile.size()), *q.stage);
  if (q.operand < 0) out->what = q.axis < 0 ? std::string(what) : "axis";
  q.what = out->what;
  q.values = decision.values.size();
  q.words = !decision.labels.empty();
  if (q.words) return;
  q.preferred = product_of(decision.values[static_cast<std::size_t>(decision.preferred)]);
  q.least = q.most = q.preferred;
  for (const auto& lengths : decision.values) {
    q.least = std::min(q.least, product_of(lengths));
    q.most = std::max(q.most, product_of(lengths));
  }
}

Question question_of(const decide::Point& decision, const space::Analysis& analysis,
                     const target::Target& target) {
  ReadDecision read;
  read_decision(decision, analysis, &read);
  Question out{.word = word_of(read.facts), .values = {}};
  const std::size_t count = decision.values.size();
  out.values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    ValueFacts value;
    if (read.facts.words) {
      value.label = decision.labels[i];
    } else {
      value.numbers = decision.values[i];
    }
    value.preferred = static_cast<std::size_t>(decision.preferred) == i;
    value.place = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
    out.values.push_back(value_of(value, read.facts, target));
  }
  return out;
}

}  // namespace tessera::lm

#include "tessera/learn/lm/subject.h"

#include <algorithm>
#include <cmath>

#include "tessera/frontend/task/task.h"
#include "tessera/lang/te/canonical.h"
#include "tessera/learn/lm/columns.h"
#include "tessera/learn/lm/question.h"
#include "tessera/support/hash.h"

namespace tessera::lm {
namespace {

constexpr std::size_t kMostReads = 4;  // of one stage, those with the most bytes

double bytes_of(const ir::Buffer& b) {
  return static_cast<double>(b.size()) * size_bytes(b->dtype);
}

double log2_size(const decide::Sketch& sketch) {
  double out = 0;
  for (const decide::Point& d : sketch.points())
    out += std::log2(static_cast<double>(d.values.size()));
  return out;
}

TaskFacts task_facts(const te::Dag& dag) {
  TaskFacts out;
  out.flops = te::flop_count(dag);
  for (const te::Input& input : dag.inputs) out.bytes += bytes_of(input.buffer);
  for (const ir::Buffer& output : dag.outputs) out.bytes += bytes_of(output);
  out.stages = dag.ops.size();
  out.inputs = dag.inputs.size();
  out.outputs = dag.outputs.size();
  out.reductions =
      static_cast<std::size_t>(std::count_if(dag.ops.begin(), dag.ops.end(), [](const te::Op& op) {
        return op.reducer != te::Reducer::kNone;
      }));
  return out;
}

void add_stage(const space::Analysis& analysis, std::size_t index, const target::Target& target,
               std::vector<Word>* out) {
  const space::Stage& s = analysis.stages[index];
  out->push_back(word_of(StageFacts{&s, index}));
  const std::int64_t lanes = std::max(1, target.vector_bytes / size_bytes(s.dtype()));
  for (std::size_t a = 0; a < s.axis_count(); ++a) {
    if (s.extent(a) != 1) out->push_back(word_of(AxisFacts{&s, index, a, lanes}));
  }
  std::vector<const space::Access*> reads;
  for (const space::Access& r : s.reads) reads.push_back(&r);
  std::stable_sort(reads.begin(), reads.end(), [](const auto* a, const auto* b) {
    return bytes_of(a->buffer) > bytes_of(b->buffer);
  });
  if (reads.size() > kMostReads) reads.resize(kMostReads);
  for (const space::Access* r : reads) {
    out->push_back(word_of(
        ReadFacts{&s, r, index, analysis.constant(r->buffer), analysis.producer(r->buffer) >= 0}));
  }
}

// Those with the most work where there are many, in their order.
std::vector<std::size_t> told_stages(const space::Analysis& analysis) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < analysis.stages.size(); ++i) out.push_back(i);
  if (out.size() <= kMostStages) return out;
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
    return analysis.stages[a].iterations() > analysis.stages[b].iterations();
  });
  out.resize(kMostStages);
  std::sort(out.begin(), out.end());
  return out;
}

SketchFacts sketch_facts(const space::Space& space, std::size_t i) {
  const decide::Sketch& s = *space.sketches()[i];
  return {
      .name = s.name(), .first = i == 0, .decisions = s.points().size(), .log2_size = log2_size(s)};
}

}  // namespace

Scribe::Scribe(const space::Space& space)
    : space_(space), analysis_(space::analyse(space.dag(), space.dag().ops)) {
  const te::Dag& dag = space.dag();
  common_.task = task::key_of(dag);
  common_.reduction = to_hex(hash_bytes(te::reduction_of(dag)));
  common_.machine =
      fmt::format("{} threads={}", space.target().name, space.target().code_threads());
  common_.prompt.push_back(word_of(task_facts(dag)));
  for (const std::size_t i : told_stages(analysis_)) {
    add_stage(analysis_, i, space.target(), &common_.prompt);
  }
  common_.prompt.push_back(word_of(space.target()));
}

Subject Scribe::subject(std::int32_t sketch) const {
  const auto index = static_cast<std::size_t>(sketch);
  const decide::Sketch& s = *space_.sketches().at(index);
  Subject out = common_;
  out.sketch = s.name();
  out.prompt.push_back(word_of(sketch_facts(space_, index)));
  for (const decide::Point& d : s.points()) {
    out.questions.push_back(question_of(d, analysis_, space_.target()));
  }
  return out;
}

Subject Scribe::choice_of_sketch() const {
  Subject out = common_;
  // As a decision whose values are two sizes and a name.
  const std::size_t count = space_.sketches().size();
  QuestionFacts facts;
  facts.what = "sketch";
  facts.is_sketch = true;
  facts.stage = &analysis_.stages.front();
  facts.values = count;
  facts.words = true;
  Question question{.word = word_of(facts), .values = {}};
  for (std::size_t i = 0; i < count; ++i) {
    const SketchFacts sketch = sketch_facts(space_, i);
    const std::int64_t sizes[] = {std::llround(sketch.log2_size),
                                  static_cast<std::int64_t>(sketch.decisions)};
    const ValueFacts value{
        .numbers = sizes,
        .label = sketch.name,
        .preferred = sketch.first,
        .place = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0};
    question.values.push_back(value_of(value, facts, space_.target()));
  }
  out.questions.push_back(std::move(question));
  return out;
}

}  // namespace tessera::lm

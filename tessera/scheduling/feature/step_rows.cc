#include "tessera/scheduling/feature/step_rows.h"

#include <algorithm>

#include "tessera/scheduling/feature/schema.h"
#include "tessera/support/hash.h"

namespace tessera::feature {
namespace {

using schedule::Annotation;
using schedule::State;

constexpr std::size_t kArguments = 8;
// Raise when a column keeps its name but changes its meaning.
constexpr int kVersion = 1;

struct Row {
  const StepValues& step;
  double share = 0;  // of the steps before it
};

struct Column {
  const char* name;
  float (*read)(const Row& r);
};

template <Annotation kKind>
float is_kind(const Row& r) {
  return r.step.annotation == kKind ? 1 : 0;
}

float is_block(const Row& r) {
  const Annotation a = r.step.annotation;
  return a == Annotation::kBlockX || a == Annotation::kBlockY || a == Annotation::kBlockZ ? 1 : 0;
}

float is_thread(const Row& r) {
  const Annotation a = r.step.annotation;
  return a == Annotation::kThreadX || a == Annotation::kThreadY || a == Annotation::kThreadZ ? 1
                                                                                             : 0;
}

constexpr Column kColumns[] = {
    {"is_unroll", is_kind<Annotation::kUnroll>},
    {"is_vectorize", is_kind<Annotation::kVectorize>},
    {"is_parallel", is_kind<Annotation::kParallel>},
    {"is_vthread", is_kind<Annotation::kVThread>},
    {"is_block", is_block},
    {"is_thread", is_thread},
    {"is_tensorize", is_kind<Annotation::kTensorize>},
    {"stage", [](const Row& r) { return slog(r.step.stage); }},
    {"iterator", [](const Row& r) { return slog(r.step.iterator); }},
    {"extent", [](const Row& r) { return slog(r.step.extent); }},
    {"from_outer", [](const Row& r) { return r.step.from_outer ? 1.f : 0.f; }},
    {"peel", [](const Row& r) { return r.step.peel ? 1.f : 0.f; }},
    {"pad", [](const Row& r) { return r.step.pad ? 1.f : 0.f; }},
    {"arguments", [](const Row& r) { return static_cast<float>(r.step.arguments.size()); }},
    {"position", [](const Row& r) { return static_cast<float>(r.share); }},
};

// Fills in what a step says, in the state just before it.
class Reader {
 public:
  explicit Reader(const State& state) : state_(state) {}

  StepValues read(const schedule::Step& step) {
    out_.kind = step.index();
    std::visit([this](const auto& s) { take(s); }, step);
    return std::move(out_);
  }

 private:
  double stage_number(const std::string& name) const {
    const int index = state_.index_of(name);
    if (index >= 0) return index;
    for (std::size_t i = 0; i < state_.dag.inputs.size(); ++i) {
      if (state_.dag.inputs[i].buffer->name == name) return -1 - static_cast<double>(i);
    }
    return 0;
  }

  // Position and extent of a loop; the step itself refuses names that are none.
  double position(const std::string& stage, const std::string& iter, double* extent) const {
    const schedule::Stage* s = state_.find(stage);
    if (s == nullptr) return 0;
    const Result<int> id = s->find_leaf(iter);
    if (!id) return 0;
    if (extent != nullptr)
      *extent = static_cast<double>(s->iters[static_cast<std::size_t>(*id)].extent);
    return s->position(*id);
  }

  void at(const std::string& stage, const std::string& iter) {
    out_.stage = stage_number(stage);
    out_.iterator = position(stage, iter, &out_.extent);
  }
  void argument(double value) { out_.arguments.push_back(value); }
  void tail(schedule::Tail t) {
    out_.peel = t == schedule::Tail::kPeel;
    out_.pad = t == schedule::Tail::kPad;
  }
  void positions(const std::string& stage, const std::vector<std::string>& iters) {
    out_.stage = stage_number(stage);
    for (const std::string& iter : iters) argument(position(stage, iter, nullptr));
  }

  void take(const schedule::Split& s) {
    at(s.stage, s.iter);
    for (const std::int64_t length : s.lengths) argument(static_cast<double>(length));
    out_.from_outer = s.from_outer;
    tail(s.tail);
  }
  void take(const schedule::FollowSplit& s) {
    at(s.stage, s.iter);
    argument(s.source);
    argument(s.parts);
    tail(s.tail);
  }
  void take(const schedule::FollowFusedSplit& s) {
    at(s.stage, s.iter);
    argument(s.level);
    for (const int source : s.sources) argument(source);
    out_.from_outer = s.from_outer;
  }
  void take(const schedule::Fuse& s) { positions(s.stage, s.iters); }
  void take(const schedule::Reorder& s) { positions(s.stage, s.iters); }
  void take(const schedule::Annotate& s) {
    at(s.stage, s.iter);
    out_.annotation = s.annotation;
  }
  void take(const schedule::Tensorize& s) {
    at(s.stage, s.iter);
    out_.annotation = Annotation::kTensorize;
  }
  void take(const schedule::Pragma& s) {
    at(s.stage, s.iter);
    argument(static_cast<double>(s.value));
  }
  void take(const schedule::ComputeAt& s) {
    out_.stage = stage_number(s.stage);
    out_.iterator = position(s.target, s.iter, &out_.extent);
    argument(stage_number(s.target));
  }
  void take(const schedule::ComputeInline& s) { out_.stage = stage_number(s.stage); }
  void take(const schedule::ComputeRoot& s) { out_.stage = stage_number(s.stage); }
  void take(const schedule::CacheRead& s) {
    out_.stage = stage_number(s.buffer);
    for (const std::string& reader : s.readers) argument(stage_number(reader));
  }
  void take(const schedule::CacheWrite& s) { out_.stage = stage_number(s.stage); }
  void take(const schedule::RFactor& s) {
    at(s.stage, s.iter);
    argument(s.axis);
  }
  void take(const schedule::StorageAlign& s) {
    out_.stage = stage_number(s.stage);
    argument(s.dim);
    argument(static_cast<double>(s.factor));
    argument(static_cast<double>(s.offset));
  }
  void take(const schedule::SetLayout& s) {
    out_.stage = stage_number(s.buffer);
    // A dimension by the part of it that is stored there: blocks as their size, below 0.
    for (const schedule::LayoutDim& d : s.layout) {
      argument(d.modulus > 0 ? -static_cast<double>(d.modulus) : static_cast<double>(d.divisor));
    }
  }
  void take(const schedule::PrefetchStep& s) {
    at(s.stage, s.iter);
    argument(static_cast<double>(s.distance));
    argument(stage_number(s.buffer));
  }

  const State& state_;
  StepValues out_;
};

template <std::size_t... kIndex>
std::vector<std::string> verbs(std::index_sequence<kIndex...>) {
  return {std::variant_alternative_t<kIndex, schedule::Step>::kVerb...};
}

}  // namespace

const std::vector<std::string>& step_kinds() {
  static const std::vector<std::string> kinds =
      verbs(std::make_index_sequence<std::variant_size_v<schedule::Step>>());
  return kinds;
}

const std::vector<std::string>& step_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out = step_kinds();
    for (const Column& c : kColumns) out.push_back(c.name);
    for (std::size_t i = 0; i < kArguments; ++i) out.push_back(fmt::format("argument_{}", i));
    return out;
  }();
  return names;
}

std::string step_schema_digest() {
  std::string text = fmt::format("step {}", kVersion);
  for (const std::string& name : step_names()) text += " " + name;
  return to_hex(hash_bytes(text));
}

void append_step_row(const StepValues& step, std::size_t position, std::size_t count,
                     std::vector<float>* out) {
  const std::size_t at = out->size();
  out->resize(at + step_names().size());
  float* to = out->data() + at;
  to[step.kind] = 1;
  to += step_kinds().size();
  const Row row{
      step, static_cast<double>(position) / static_cast<double>(std::max<std::size_t>(1, count))};
  for (const Column& c : kColumns) *to++ = c.read(row);
  for (std::size_t i = 0; i < std::min(kArguments, step.arguments.size()); ++i) {
    to[i] = slog(step.arguments[i]);
  }
}

Result<StepRows> append_step_rows(const te::Dag& dag, const schedule::Schedule& schedule,
                                  std::vector<float>* out) {
  const std::size_t before = out->size(), count = schedule.steps.size();
  State state = schedule::initial_state(dag);
  StepRows done;
  done.rows = std::min(count, kMostStepRows);
  done.cut = count - done.rows;
  for (std::size_t i = 0; i < count; ++i) {
    const schedule::Step& step = schedule.steps[i];
    if (i < done.rows) append_step_row(Reader(state).read(step), i, count, out);
    const Result<void> applied = schedule::apply_step(step, i, state);
    if (!applied) {
      out->resize(before);
      return applied.error();
    }
  }
  if (count == 0) {
    out->resize(before + step_names().size());
    done.rows = 1;
  }
  return done;
}

}  // namespace tessera::feature

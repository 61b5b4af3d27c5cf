#include "tessera/learn/lm/columns.h"

#include <algorithm>
#include <cmath>

#include "tessera/machine/target/properties.h"
#include "tessera/support/hash.h"

namespace tessera::lm {
namespace {

using space::Stage;
using target::Property;
using target::Target;

constexpr int kVersion = 1;

template <class Facts>
struct Column {
  const char* name;
  double (*read)(const Facts& facts);
};

double flag(bool b) { return b ? 1 : 0; }
// Sizes and counts: 2^8 is 1.
double level(double x) { return std::log2(1 + std::max(0.0, x)) / 8; }
double level(std::int64_t x) { return level(static_cast<double>(x)); }
double level(std::size_t x) { return level(static_cast<double>(x)); }
double level(int x) { return level(static_cast<double>(x)); }
double log_ratio(double a, double b) {
  return std::log2(std::max(1e-3, a) / std::max(1e-3, b)) / 4;
}

double power_of(std::int64_t prime, std::int64_t n) {
  int power = 0;
  for (; n > 0 && n % prime == 0; n /= prime) ++power;
  return power / 4.0;
}

std::int64_t lanes_of(const Stage& stage, const Target& t) {
  return std::max(1, t.vector_bytes / size_bytes(stage.dtype()));
}

double inner_position(const Stage& s, std::size_t axis) {
  const std::size_t end = axis < s.rank() ? s.rank() : s.axis_count();
  return static_cast<double>(end - 1 - axis) / 4;
}

// Reads that meet the axis in one way.
template <class Test>
double count_reads(const AxisFacts& f, Test&& test) {
  const auto& reads = f.stage->reads;
  return static_cast<double>(std::count_if(reads.begin(), reads.end(), test)) / 4;
}

bool moves_with_others(const space::Access& read, std::size_t axis) {
  return std::any_of(read.indices.begin(), read.indices.end(), [&](const space::Index& i) {
    return i.terms.size() > 1 && std::any_of(i.terms.begin(), i.terms.end(),
                                             [&](const auto& t) { return t.axis == axis; });
  });
}

// The axes that lengths are held against: that of the name, the two innermost of the output, the
// whole reduction; 0 where there is none.
std::array<std::int64_t, 4> extents_of(const QuestionFacts& q) {
  const Stage& s = *q.stage;
  std::array<std::int64_t, 4> out{};
  if (q.axis >= 0) out[0] = s.extent(static_cast<std::size_t>(q.axis));
  if (s.rank() > 0) out[1] = s.extent(s.rank() - 1);
  if (s.rank() > 1) out[2] = s.extent(s.rank() - 2);
  if (s.reduces()) {
    out[3] = 1;
    for (const te::Axis& a : s.op.reduce_axes) out[3] *= a.extent;
  }
  return out;
}

constexpr Column<TaskFacts> kTask[] = {
    {"flops", [](const TaskFacts& f) { return level(f.flops); }},
    {"bytes", [](const TaskFacts& f) { return level(f.bytes); }},
    {"intensity", [](const TaskFacts& f) { return log_ratio(f.flops, f.bytes); }},
    {"stages", [](const TaskFacts& f) { return level(f.stages); }},
    {"reductions", [](const TaskFacts& f) { return level(f.reductions); }},
    {"inputs", [](const TaskFacts& f) { return level(f.inputs); }},
    {"outputs", [](const TaskFacts& f) { return level(f.outputs); }},
};

template <Property P>
double flag_of(const Target& t) {
  return target::value_of(P, t);
}
template <Property P>
double level_of(const Target& t) {
  return level(target::value_of(P, t));
}

// The first four have the names of the machines that the shipped weights were trained for; names
// are part of the schema.
constexpr Column<Target> kMachine[] = {
    {"x86_64", flag_of<Property::kMemoryOperands>},
    {"aarch64", flag_of<Property::kLaneOperands>},
    {"cuda", flag_of<Property::kAssembledAhead>},
    {"opencl", flag_of<Property::kDriverCompiles>},
    {"threads", level_of<Property::kThreads>},
    {"cores", level_of<Property::kCores>},
    {"vector_bytes", level_of<Property::kVectorBytes>},
    {"vector_registers", level_of<Property::kVectorRegisters>},
    {"l1_bytes", level_of<Property::kL1Bytes>},
    {"l2_bytes", level_of<Property::kL2Bytes>},
    {"l3_bytes", level_of<Property::kL3Bytes>},
    {"line_bytes", level_of<Property::kLineBytes>},
    {"has_fma", flag_of<Property::kFma>},
    {"has_f16", flag_of<Property::kF16>},
    {"has_bf16_dot", flag_of<Property::kBf16Dot>},
    {"has_bf16_mma", flag_of<Property::kBf16Mma>},
    {"has_i8_dot", flag_of<Property::kI8Dot>},
    {"has_i8_mma", flag_of<Property::kI8Mma>},
    {"capability", [](const Target& t) { return t.gpu.capability / 64.0; }},
    {"warp", level_of<Property::kWarp>},
    {"block_threads", level_of<Property::kBlockThreads>},
    {"core_threads", level_of<Property::kCoreThreads>},
    {"core_registers", level_of<Property::kCoreRegisters>},
    {"block_shared_bytes", level_of<Property::kBlockSharedBytes>},
    {"core_lanes", level_of<Property::kCoreLanes>},
    {"clock_mhz", level_of<Property::kClockMhz>},
    {"bandwidth_gb_s", level_of<Property::kBandwidthGbS>},
};

constexpr Column<SketchFacts> kSketch[] = {
    {"first", [](const SketchFacts& f) { return flag(f.first); }},
    {"decisions", [](const SketchFacts& f) { return level(f.decisions); }},
    {"log2_size", [](const SketchFacts& f) { return f.log2_size / 32; }},
};

constexpr Column<Stage> kStage[] = {
    {"sum", [](const Stage& s) { return flag(s.op.reducer == te::Reducer::kSum); }},
    {"max", [](const Stage& s) { return flag(s.op.reducer == te::Reducer::kMax); }},
    {"other_reduction",
     [](const Stage& s) {
       return flag(s.reduces() && s.op.reducer != te::Reducer::kSum &&
                   s.op.reducer != te::Reducer::kMax);
     }},
    {"output", [](const Stage& s) { return flag(s.output); }},
    {"elements", [](const Stage& s) { return level(s.elements()); }},
    {"iterations", [](const Stage& s) { return level(s.iterations()); }},
    {"cost", [](const Stage& s) { return level(s.cost); }},
    {"nodes", [](const Stage& s) { return level(s.nodes); }},
    {"users", [](const Stage& s) { return level(s.users.size()); }},
    {"reads", [](const Stage& s) { return level(s.reads.size()); }},
    {"rank", [](const Stage& s) { return static_cast<double>(s.rank()) / 4; }},
    {"reduce_rank",
     [](const Stage& s) { return static_cast<double>(s.op.reduce_axes.size()) / 4; }},
    {"product", [](const Stage& s) { return flag(s.operands_along_last >= 0); }},
    {"along_last", [](const Stage& s) { return std::max(0, s.operands_along_last) / 2.0; }},
    {"selects", [](const Stage& s) { return level(s.selectors.size()); }},
    {"element_bytes", [](const Stage& s) { return size_bytes(s.dtype()) / 4.0; }},
    {"float", [](const Stage& s) { return flag(is_float(s.dtype())); }},
    {"one_line", [](const Stage& s) { return flag(space::walks_one_line(s)); }},
};

constexpr Column<AxisFacts> kAxis[] = {
    {"extent", [](const AxisFacts& f) { return level(f.stage->extent(f.axis)); }},
    {"twos", [](const AxisFacts& f) { return power_of(2, f.stage->extent(f.axis)); }},
    {"threes", [](const AxisFacts& f) { return power_of(3, f.stage->extent(f.axis)); }},
    {"fives", [](const AxisFacts& f) { return power_of(5, f.stage->extent(f.axis)); }},
    {"sevens", [](const AxisFacts& f) { return power_of(7, f.stage->extent(f.axis)); }},
    {"reduced", [](const AxisFacts& f) { return flag(f.axis >= f.stage->rank()); }},
    {"from_inner", [](const AxisFacts& f) { return inner_position(*f.stage, f.axis); }},
    {"whole_vectors",
     [](const AxisFacts& f) { return flag(f.stage->extent(f.axis) % f.lanes == 0); }},
    {"vectors",
     [](const AxisFacts& f) {
       return log_ratio(static_cast<double>(f.stage->extent(f.axis)), static_cast<double>(f.lanes));
     }},
    {"reads_along",
     [](const AxisFacts& f) {
       return count_reads(f, [&](const space::Access& r) { return r.strides[f.axis] == 1; });
     }},
    {"reads_across",
     [](const AxisFacts& f) {
       return count_reads(f,
                          [&](const space::Access& r) { return std::abs(r.strides[f.axis]) > 1; });
     }},
    {"reads_still",
     [](const AxisFacts& f) {
       return count_reads(f, [&](const space::Access& r) { return !r.uses(f.axis); });
     }},
    {"reads_irregular",
     [](const AxisFacts& f) {
       return count_reads(f, [&](const space::Access& r) { return r.irregular[f.axis]; });
     }},
    {"reads_window",
     [](const AxisFacts& f) {
       return count_reads(f, [&](const space::Access& r) { return moves_with_others(r, f.axis); });
     }},
};

constexpr Column<ReadFacts> kRead[] = {
    {"constant", [](const ReadFacts& f) { return flag(f.constant); }},
    {"computed", [](const ReadFacts& f) { return flag(f.computed); }},
    {"conditional", [](const ReadFacts& f) { return flag(f.read->conditional); }},
    {"regular", [](const ReadFacts& f) { return flag(f.read->regular()); }},
    {"element_bytes", [](const ReadFacts& f) { return size_bytes(f.read->buffer->dtype) / 4.0; }},
    {"bytes",
     [](const ReadFacts& f) {
       return level(static_cast<double>(f.read->buffer.size()) * size_bytes(f.read->buffer->dtype));
     }},
    {"reuse",
     [](const ReadFacts& f) {
       double reuse = 1;
       for (std::size_t a = 0; a < f.stage->axis_count(); ++a) {
         if (!f.read->uses(a)) reuse *= static_cast<double>(f.stage->extent(a));
       }
       return level(reuse);
     }},
    {"along_last",
     [](const ReadFacts& f) {
       return flag(f.stage->rank() > 0 && f.read->strides[f.stage->rank() - 1] == 1);
     }},
    {"along_reduction",
     [](const ReadFacts& f) {
       return flag(f.stage->reduces() && f.stage->axis_count() > f.stage->rank() &&
                   f.read->strides.back() == 1);
     }},
};

constexpr Column<QuestionFacts> kQuestion[] = {
    {"is_sketch", [](const QuestionFacts& f) { return flag(f.is_sketch); }},
    {"values", [](const QuestionFacts& f) { return level(f.values); }},
    {"words", [](const QuestionFacts& f) { return flag(f.words); }},
    {"least", [](const QuestionFacts& f) { return level(f.least); }},
    {"most", [](const QuestionFacts& f) { return level(f.most); }},
    {"preferred", [](const QuestionFacts& f) { return level(f.preferred); }},
    {"axis", [](const QuestionFacts& f) { return flag(f.axis >= 0); }},
    {"reduced",
     [](const QuestionFacts& f) {
       return flag(f.axis >= 0 && static_cast<std::size_t>(f.axis) >= f.stage->rank());
     }},
    {"from_inner",
     [](const QuestionFacts& f) {
       return f.axis < 0 ? 0 : inner_position(*f.stage, static_cast<std::size_t>(f.axis));
     }},
    {"axis_extent", [](const QuestionFacts& f) { return level(extents_of(f)[0]); }},
    {"last_extent", [](const QuestionFacts& f) { return level(extents_of(f)[1]); }},
    {"next_extent", [](const QuestionFacts& f) { return level(extents_of(f)[2]); }},
    {"reduce_extent", [](const QuestionFacts& f) { return level(extents_of(f)[3]); }},
    {"axis_twos", [](const QuestionFacts& f) { return power_of(2, extents_of(f)[0]); }},
    {"last_twos", [](const QuestionFacts& f) { return power_of(2, extents_of(f)[1]); }},
    {"reduces", [](const QuestionFacts& f) { return flag(f.stage->reduces()); }},
    {"operand_0", [](const QuestionFacts& f) { return flag(f.operand == 0); }},
    {"operand_1", [](const QuestionFacts& f) { return flag(f.operand == 1); }},
    {"operand_2", [](const QuestionFacts& f) { return flag(f.operand == 2); }},
    {"operand_3", [](const QuestionFacts& f) { return flag(f.operand >= 3); }},
};

// Columns of a word: kinds, name, number of the stage, kind of a decision, then those of each kind.
constexpr std::size_t kNameAt = kWordKinds, kStageAt = kNameAt + kNameBits,
                      kDecisionAt = kStageAt + kMostStages + 1,
                      kTaskAt = kDecisionAt + kDecisionKinds,
                      kMachineAt = kTaskAt + std::size(kTask),
                      kSketchAt = kMachineAt + std::size(kMachine),
                      kStageColumnsAt = kSketchAt + std::size(kSketch),
                      kAxisAt = kStageColumnsAt + std::size(kStage),
                      kReadAt = kAxisAt + std::size(kAxis),
                      kQuestionAt = kReadAt + std::size(kRead),
                      kWordEnd = kQuestionAt + std::size(kQuestion);
static_assert(kWordEnd == kWordNumbers);

// Every part of a name sets three columns: names that share parts are near each other, and new ones
// need no room.
template <class Numbers>
void add_name(std::string_view name, std::size_t at, std::size_t bits, Numbers* out) {
  constexpr std::string_view kBetween = "._+";
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of(kBetween), name.size());
    if (end > 0) {
      std::uint64_t h = hash_bytes(name.substr(0, end));
      for (int i = 0; i < 3; ++i, h >>= 16)
        (*out)[at + (h & 0x7fff) % bits] += (h & 0x8000) != 0 ? 1.0f : -1.0f;
    }
    name.remove_prefix(std::min(end + 1, name.size()));
  }
}

template <class Facts, std::size_t N>
void add(const Column<Facts> (&columns)[N], const Facts& facts, std::size_t at, Word* out) {
  for (const auto& c : columns) (*out)[at++] = rounded(c.read(facts));
}

Word begin(WordKind kind) {
  Word out{};
  out[static_cast<std::size_t>(kind)] = 1;
  return out;
}

void add_stage_number(std::size_t index, Word* out) {
  (*out)[kStageAt + std::min<std::size_t>(index, kMostStages)] = 1;
}

// One length of a value.
struct Component {
  std::int64_t length = 0;
  bool present = false;
};

constexpr Column<Component> kComponent[] = {
    {"present", [](const Component& c) { return flag(c.present); }},
    {"zero", [](const Component& c) { return flag(c.present && c.length == 0); }},
    {"log2", [](const Component& c) { return level(c.length - 1); }},
    {"twos", [](const Component& c) { return power_of(2, c.length); }},
    {"threes", [](const Component& c) { return power_of(3, c.length); }},
    {"fives", [](const Component& c) { return power_of(5, c.length); }},
    {"sevens", [](const Component& c) { return power_of(7, c.length); }},
};

struct WholeValue {
  const ValueFacts* value;
  const QuestionFacts* question;
  const Target* target;
  std::array<std::int64_t, 4> extents;
  double product, inner, lanes, element_bytes;
};

double divides(const WholeValue& v, std::size_t axis) {
  const auto product = static_cast<std::int64_t>(v.product);
  return flag(v.extents[axis] > 0 && product > 0 && v.extents[axis] % product == 0);
}
double ratio(const WholeValue& v, std::size_t axis) {
  return v.extents[axis] > 0 && !v.question->words
             ? log_ratio(v.product, static_cast<double>(v.extents[axis]))
             : 0;
}
// Of lengths only: words have no size.
double against(const WholeValue& v, double size) {
  return v.question->words || size <= 0 ? 0 : log_ratio(v.product, size);
}

constexpr Column<WholeValue> kWhole[] = {
    {"product", [](const WholeValue& v) { return v.question->words ? 0 : level(v.product); }},
    {"divides_axis", [](const WholeValue& v) { return divides(v, 0); }},
    {"of_axis", [](const WholeValue& v) { return ratio(v, 0); }},
    {"divides_last", [](const WholeValue& v) { return divides(v, 1); }},
    {"of_last", [](const WholeValue& v) { return ratio(v, 1); }},
    {"divides_next", [](const WholeValue& v) { return divides(v, 2); }},
    {"of_next", [](const WholeValue& v) { return ratio(v, 2); }},
    {"divides_reduction", [](const WholeValue& v) { return divides(v, 3); }},
    {"of_reduction", [](const WholeValue& v) { return ratio(v, 3); }},
    {"whole_vectors",
     [](const WholeValue& v) {
       return flag(!v.question->words && v.inner > 0 && std::fmod(v.inner, v.lanes) == 0);
     }},
    {"of_lanes", [](const WholeValue& v) { return against(v, v.lanes); }},
    {"of_registers",
     [](const WholeValue& v) { return against(v, v.lanes * v.target->vector_registers); }},
    {"of_l1",
     [](const WholeValue& v) {
       return against(v, static_cast<double>(v.target->l1_bytes) / v.element_bytes) / 2;
     }},
    {"of_l2",
     [](const WholeValue& v) {
       return against(v, static_cast<double>(v.target->l2_bytes) / v.element_bytes) / 2;
     }},
    {"of_threads", [](const WholeValue& v) { return against(v, v.target->code_threads()); }},
    {"of_warp",
     [](const WholeValue& v) { return against(v, target::value_of(Property::kWarp, *v.target)); }},
    {"of_block",
     [](const WholeValue& v) {
       return against(v, target::value_of(Property::kBlockThreads, *v.target));
     }},
    {"preferred", [](const WholeValue& v) { return flag(v.value->preferred); }},
    {"of_preferred", [](const WholeValue& v) { return against(v, v.question->preferred); }},
    {"place", [](const WholeValue& v) { return v.value->place; }},
    {"sketch_place",
     [](const WholeValue& v) { return v.question->is_sketch ? v.value->place : 0; }},
    {"yes", [](const WholeValue& v) { return flag(v.value->label == "yes"); }},
};
constexpr std::size_t kWholeAt = kMostComponents * std::size(kComponent),
                      kLabelAt = kWholeAt + std::size(kWhole), kValueEnd = kLabelAt + kLabelBits;
static_assert(kValueEnd == kValueNumbers);

// Columns from `first` to before `end` become one name.
template <class Numbers>
void hash_columns(std::size_t first, std::size_t end, std::size_t at, std::size_t bits,
                  Numbers* numbers) {
  const std::string text(reinterpret_cast<const char*>(numbers->data() + first),
                         (end - first) * sizeof(float));
  std::fill(numbers->begin() + static_cast<std::ptrdiff_t>(first),
            numbers->begin() + static_cast<std::ptrdiff_t>(end), 0.0F);
  add_name(to_hex(hash_bytes(text)), at, bits, numbers);
}

template <class Facts, std::size_t N>
void name_columns(const Column<Facts> (&columns)[N], const std::string& prefix,
                  std::vector<std::string>* out) {
  for (const auto& c : columns) out->push_back(prefix + c.name);
}

void number_columns(const char* name, int count, std::vector<std::string>* out) {
  for (int i = 0; i < count; ++i) out->push_back(fmt::format("{}{}", name, i));
}

}  // namespace

float rounded(double x) {
  return static_cast<float>(std::nearbyint(std::clamp(x, -127.0, 127.0) / kUnit)) * kUnit;
}

Word word_of(const TaskFacts& facts) {
  Word out = begin(WordKind::kTask);
  add(kTask, facts, kTaskAt, &out);
  return out;
}

Word word_of(const Target& facts) {
  Word out = begin(WordKind::kMachine);
  add(kMachine, facts, kMachineAt, &out);
  return out;
}

Word word_of(const SketchFacts& facts) {
  Word out = begin(WordKind::kSketch);
  add_name(facts.name, kNameAt, kNameBits, &out);
  add(kSketch, facts, kSketchAt, &out);
  return out;
}

Word word_of(const StageFacts& facts) {
  Word out = begin(WordKind::kStage);
  add_stage_number(facts.index, &out);
  add(kStage, *facts.stage, kStageColumnsAt, &out);
  return out;
}

Word word_of(const AxisFacts& facts) {
  Word out = begin(WordKind::kAxis);
  add_stage_number(facts.index, &out);
  add(kAxis, facts, kAxisAt, &out);
  return out;
}

Word word_of(const ReadFacts& facts) {
  Word out = begin(WordKind::kRead);
  add_stage_number(facts.index, &out);
  add(kRead, facts, kReadAt, &out);
  return out;
}

Word word_of(const QuestionFacts& facts) {
  Word out = begin(WordKind::kQuestion);
  add_name(facts.what, kNameAt, kNameBits, &out);
  if (facts.index >= 0) add_stage_number(static_cast<std::size_t>(facts.index), &out);
  if (!facts.is_sketch) out[kDecisionAt + static_cast<std::size_t>(facts.kind)] = 1;
  add(kQuestion, facts, kQuestionAt, &out);
  return out;
}

Value value_of(const ValueFacts& facts, const QuestionFacts& question, const Target& t) {
  Value out{};
  WholeValue whole{.value = &facts,
                   .question = &question,
                   .target = &t,
                   .extents = extents_of(question),
                   .product = 1,
                   .inner = 0,
                   .lanes = static_cast<double>(lanes_of(*question.stage, t)),
                   .element_bytes = static_cast<double>(size_bytes(question.stage->dtype()))};
  std::array<Component, kMostComponents> components;  // innermost first
  for (std::size_t i = 0; i < facts.numbers.size(); ++i) {
    const std::int64_t n = facts.numbers[facts.numbers.size() - 1 - i];
    if (i == 0) whole.inner = static_cast<double>(n);
    whole.product *= static_cast<double>(std::max<std::int64_t>(n, i == 0 ? 0 : 1));
    Component& c = components[std::min<std::size_t>(i, kMostComponents - 1)];
    c.length = c.present ? c.length * n : n;
    c.present = true;
  }
  std::size_t at = 0;
  for (const Component& c : components) {
    for (const auto& column : kComponent) out[at++] = rounded(column.read(c));
  }
  for (const auto& column : kWhole) out[at++] = rounded(column.read(whole));
  add_name(facts.label, kLabelAt, kLabelBits, &out);
  return out;
}

std::uint64_t question_kind(const Word& word) {
  std::string text(reinterpret_cast<const char*>(word.data()), kTaskAt * sizeof(float));
  for (std::size_t i = 0; i < std::size(kQuestion); ++i) {
    const std::string_view name = kQuestion[i].name;
    const bool about = name == "reduced" || name == "from_inner" || name.starts_with("operand");
    if (about) text.append(reinterpret_cast<const char*>(&word[kQuestionAt + i]), sizeof(float));
  }
  return hash_bytes(text);
}

void make_opaque(Word* word) { hash_columns(kTaskAt, kWordEnd, kNameAt, kNameBits, word); }

void make_opaque(Value* value) { hash_columns(0, kLabelAt, kLabelAt, kLabelBits, value); }

const std::vector<std::string>& word_columns() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out = {"task", "machine", "sketch",  "stage",
                                    "axis", "read",    "question"};
    number_columns("name", kNameBits, &out);
    number_columns("stage", kMostStages + 1, &out);
    for (int k = 0; k < kDecisionKinds; ++k)
      out.emplace_back(to_text(static_cast<decide::PointKind>(k)));
    name_columns(kTask, "task.", &out);
    name_columns(kMachine, "machine.", &out);
    name_columns(kSketch, "sketch.", &out);
    name_columns(kStage, "stage.", &out);
    name_columns(kAxis, "axis.", &out);
    name_columns(kRead, "read.", &out);
    name_columns(kQuestion, "question.", &out);
    return out;
  }();
  return names;
}

const std::vector<std::string>& value_columns() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (int i = 0; i < kMostComponents; ++i)
      name_columns(kComponent, fmt::format("length{}.", i), &out);
    name_columns(kWhole, "", &out);
    number_columns("label", kLabelBits, &out);
    return out;
  }();
  return names;
}

const std::string& schema() {
  static const std::string digest = [] {
    std::string text = fmt::format("{}\n", kVersion);
    for (const std::string& name : word_columns()) text += name + "\n";
    for (const std::string& name : value_columns()) text += name + "\n";
    return to_hex(hash_bytes(text));
  }();
  return digest;
}

}  // namespace tessera::lm

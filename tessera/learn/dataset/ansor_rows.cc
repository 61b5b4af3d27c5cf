#include "tessera/learn/dataset/ansor_rows.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/scheduling/feature/machine_columns.h"
#include "tessera/scheduling/feature/operator_embedding.h"
#include "tessera/scheduling/feature/schema.h"
#include "tessera/scheduling/feature/step_rows.h"
#include "tessera/support/hash.h"

namespace tessera::dataset {
namespace {

using Json = nlohmann::json;

// What the members of a step mean, in the order of the log after its name.
enum class Member : std::uint8_t {
  kStage,
  kIterator,
  kExtent,
  kArgument,    // a number or a list of numbers
  kAnnotation,  // Ansor's number of it, which is ours too
  kPragma,      // "auto_unroll_max_step$64"
  kSkipped,     // a scope, a flag that is always the same
};

struct StepKind {
  const char* name;  // in logs
  const char* verb;  // of feature::step_kinds()
  std::vector<Member> members;
};

const std::vector<StepKind>& kinds() {
  using enum Member;
  static const std::vector<StepKind> table = {
      {"AN", "annotate", {kStage, kIterator, kAnnotation}},
      {"FU", "fuse", {kStage, kArgument}},
      {"PR", "pragma", {kStage, kIterator, kPragma}},
      {"RE", "reorder", {kStage, kArgument}},
      {"SP", "split", {kStage, kIterator, kExtent, kArgument, kSkipped}},
      {"FSP", "follow_split", {kStage, kIterator, kArgument, kArgument}},
      {"FFSP", "follow_fused_split", {kStage, kIterator, kArgument, kArgument, kSkipped}},
      {"SA", "storage_align", {kStage, kIterator, kArgument, kArgument}},
      {"CA", "compute_at", {kStage, kArgument, kIterator}},
      {"CI", "compute_inline", {kStage}},
      {"CR", "compute_root", {kStage}},
      {"CHR", "cache_read", {kStage, kSkipped, kArgument}},
      {"CHW", "cache_write", {kStage, kSkipped}},
      {"RF", "rfactor", {kStage, kIterator, kArgument}},
  };
  return table;
}

std::size_t kind_number(const char* verb) {
  const std::vector<std::string>& verbs = feature::step_kinds();
  return static_cast<std::size_t>(std::find(verbs.begin(), verbs.end(), verb) - verbs.begin());
}

// The number behind '$'; 0: none.
double pragma_value(const std::string& text) {
  const std::size_t at = text.find('$');
  double value = 0;
  if (at != std::string::npos) {
    std::from_chars(text.data() + at + 1, text.data() + text.size(), value);
  }
  return value;
}

// Throws what nlohmann throws.
void take(const Json& value, Member member, feature::StepValues* out) {
  switch (member) {
    case Member::kStage:
      out->stage = value.get<double>();
      break;
    case Member::kIterator:
      out->iterator = value.get<double>();
      break;
    case Member::kExtent:
      out->extent = value.is_null() ? 0 : value.get<double>();
      break;
    case Member::kArgument:
      if (value.is_array()) {
        for (const Json& v : value) out->arguments.push_back(v.is_null() ? 0 : v.get<double>());
      } else {
        out->arguments.push_back(value.get<double>());
      }
      break;
    case Member::kAnnotation: {
      const int number = value.get<int>();
      const bool known =
          number >= 0 && number <= static_cast<int>(schedule::Annotation::kTensorize);
      if (known) out->annotation = static_cast<schedule::Annotation>(number);
      break;
    }
    case Member::kPragma:
      out->arguments.push_back(pragma_value(value.get<std::string>()));
      break;
    case Member::kSkipped:
      break;
  }
}

Result<feature::StepValues> read_step(const Json& step) {
  const std::string name = step.at(0).get<std::string>();
  for (const StepKind& kind : kinds()) {
    if (name != kind.name) continue;
    feature::StepValues out;
    out.kind = kind_number(kind.verb);
    for (std::size_t i = 0; i < kind.members.size() && i + 1 < step.size(); ++i) {
      take(step[i + 1], kind.members[i], &out);
    }
    return out;
  }
  return make_error(ErrorCode::kInvalidArgument, "no step '{}'", name.substr(0, 16));
}

// All whole numbers of a text outside of quotation marks, in order: "[\"4f1e\", [1, 56], 3]".
std::vector<double> numbers_of(const std::string& text) {
  std::vector<double> out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') quoted = !quoted;
    const bool digit = text[i] >= '0' && text[i] <= '9';
    double value = 0;
    if (quoted || !digit) {
      ++i;
      continue;
    }
    const auto parsed = std::from_chars(text.data() + i, text.data() + text.size(), value);
    i = std::max(i + 1, static_cast<std::size_t>(parsed.ptr - text.data()));
    out.push_back(value);
  }
  return out;
}

// The name of the computation: what is quoted first.
std::string quoted_name(const std::string& key) {
  const std::size_t begin = key.find('"');
  if (begin == std::string::npos) return key;
  return key.substr(begin + 1, key.find('"', begin + 1) - begin - 1);
}

void append_bits(const std::string& text, std::size_t count, std::vector<float>* out) {
  const std::uint64_t h = hash_bytes(text);
  for (std::size_t i = 0; i < count; ++i) out->push_back((h >> i & 1) != 0 ? 1.f : -1.f);
}

target::Target machine_of(const MachineInfo& info) {
  target::Target t;
  t.arch = info.target.find("aarch64") != std::string::npos ? target::Arch::kAArch64
                                                            : target::Arch::kX86_64;
  t.vector_registers = 0;
  t.has_fma = false;
  t.cores = info.threads;
  const std::size_t at = info.target.rfind(" hw=");
  if (at == std::string::npos) return t;
  const std::vector<double> hw = numbers_of(info.target.substr(at));
  if (hw.size() > 1) t.vector_bytes = static_cast<int>(std::min(hw[1], 1e6));
  if (hw.size() > 2) t.line_bytes = static_cast<int>(std::min(hw[2], 1e6));
  return t;
}

}  // namespace

Result<std::size_t> append_ansor_rows(const std::string& steps, std::vector<float>* rows,
                                      std::size_t* cut) {
  const Json list = Json::parse(steps, nullptr, false);
  if (!list.is_array()) return make_error(ErrorCode::kInvalidArgument, "steps: no list");
  const std::size_t before = rows->size();
  const std::size_t count = std::min(list.size(), feature::kMostStepRows);
  try {
    for (std::size_t i = 0; i < count; ++i) {
      const Result<feature::StepValues> step = read_step(list[i]);
      if (!step) {
        rows->resize(before);
        return step.error().with_context(fmt::format("step {}", i));
      }
      feature::append_step_row(*step, i, list.size(), rows);
    }
  } catch (const Json::exception& e) {
    rows->resize(before);
    return make_error(ErrorCode::kInvalidArgument, "steps: {}", e.what());
  }
  *cut += list.size() - count;
  if (count == 0) rows->resize(before + feature::step_names().size());
  return std::max<std::size_t>(1, count);
}

void append_ansor_context(const TaskInfo& task, const MachineInfo& machine,
                          std::vector<float>* out) {
  out->resize(out->size() + feature::operator_embedding_names().size());
  feature::append_machine(machine_of(machine), out);
  const std::vector<double> dims = numbers_of(task.definition);
  for (std::size_t i = 0; i < kExtents; ++i) {
    out->push_back(i < dims.size() ? feature::slog(dims[i]) : 0.f);
  }
  append_bits(quoted_name(task.definition), kTaskBits, out);
  append_bits(machine.target, kTargetBits, out);
}

}  // namespace tessera::dataset

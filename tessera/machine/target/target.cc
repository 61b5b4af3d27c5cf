#include "tessera/machine/target/target.h"

#include <charconv>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/machine/target/fast_math.h"
#include "tessera/machine/target/features.h"
#include "tessera/machine/target/machine_table.h"
#include "tessera/support/nearest_name.h"

namespace tessera::target {

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"host"};
  for (const Machine& m : machines()) names.emplace_back(m.name);
  for (const GpuMachine& m : gpu_machines()) names.emplace_back(m.name);
  for (const Alias& a : aliases()) names.emplace_back(a.name);
  return names;
}

// The threads of GPUs are decisions of their schedules.
Target code_target(Target machine, int threads) {
  if (!machine.is_gpu()) machine.threads = threads == machine.cores ? 0 : threads;
  return machine;
}

namespace {

// The row whose code what people call otherwise can run: an instruction set, or the generation of a
// GPU. Empty: none.
std::string row_meant_by(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"aarch64", "armv8-a"}, {"arm64", "armv8-a"},  {"x86_64", "x86-64-v3"},
      {"amd64", "x86-64-v3"}, {"avx2", "x86-64-v3"}, {"avx512", "x86-64-v4"}};
  for (const auto& [other, row] : kOtherNames) {
    if (other == name) return std::string(row);
  }
  for (const GpuMachine& m : gpu_machines()) {
    if (name.starts_with("sm_") && make_target(m).cpu.starts_with(name)) return std::string(m.name);
  }
  return "";
}

}  // namespace

Result<Target> find_target(std::string_view name) {
  if (name == "host") return host();
  std::string_view machine = name;
  for (const Alias& a : aliases()) {
    if (a.name == name) machine = a.machine;
  }
  for (const Machine& m : machines()) {
    if (m.name == machine) return make_target(m);
  }
  for (const GpuMachine& m : gpu_machines()) {
    if (m.name == machine) return make_target(m);
  }
  const std::vector<std::string> names = target_names();
  const std::string meant = row_meant_by(name);
  return make_error(
      ErrorCode::kInvalidArgument, "no target '{}'{} Targets: {}", name.substr(0, 64),
      meant.empty() ? suggest_name(name, names, ".") : fmt::format("; did you mean '{}'?", meant),
      fmt::join(names, ", "));
}

double flops_per_byte(const Target& t) {
  const Rates& r = t.rates;
  const double fma = t.is_gpu() ? t.cores * r.fma_per_cycle : r.fma_per_cycle * t.vector_bytes / 4;
  const double bytes = t.is_gpu() ? r.all_memory_bytes_per_cycle : r.memory_bytes_per_cycle;
  return bytes > 0 ? 2 * fma / bytes : 0;
}

namespace {

// The words of a GPU's limits, in the order of its line. The capability follows from the cpu.
struct GpuWord {
  std::string_view key;
  int GpuLimits::*number = nullptr;
  std::int64_t GpuLimits::*bytes = nullptr;
};
constexpr GpuWord kGpuWords[] = {{"warp", &GpuLimits::warp},
                                 {"block", &GpuLimits::block_threads},
                                 {"core_threads", &GpuLimits::core_threads},
                                 {"core_blocks", &GpuLimits::core_blocks},
                                 {"registers", &GpuLimits::core_registers},
                                 {"shared", nullptr, &GpuLimits::block_shared_bytes},
                                 {"core_shared", nullptr, &GpuLimits::core_shared_bytes},
                                 {"lanes", &GpuLimits::core_lanes},
                                 {"mhz", &GpuLimits::clock_mhz},
                                 {"gb_s", &GpuLimits::bandwidth_gb_s}};

}  // namespace

std::string to_text(const Target& t) {
  std::string text =
      fmt::format("{} triple={} cpu={} features={} vector={}x{} cores={} l1={} l2={} l3={} line={}",
                  t.name, t.triple, t.cpu, t.features, t.vector_registers, t.vector_bytes, t.cores,
                  t.l1_bytes, t.l2_bytes, t.l3_bytes, t.line_bytes);
  if (t.threads > 0) text += fmt::format(" threads={}", t.threads);
  if (!t.is_gpu()) return text;
  for (const GpuWord& w : kGpuWords) {
    text += fmt::format(" {}={}", w.key, w.number ? t.gpu.*w.number : t.gpu.*w.bytes);
  }
  if (t.fast_math != FastMath::kNone) text += fmt::format(" fast_math={}", to_text(t.fast_math));
  return text;
}

namespace {

// The "key=value" words of a target's line.
class Fields {
 public:
  explicit Fields(std::string_view words) {
    while (!words.empty()) {
      const std::size_t end = std::min(words.find(' '), words.size());
      const std::string_view word = words.substr(0, end);
      const std::size_t sign = word.find('=');
      if (sign != std::string_view::npos) values_[word.substr(0, sign)] = word.substr(sign + 1);
      words.remove_prefix(std::min(end + 1, words.size()));
    }
  }

  Result<std::string> text(std::string_view key) const {
    const auto at = values_.find(key);
    if (at == values_.end()) {
      return make_error(ErrorCode::kInvalidArgument, "target: no {}=", key);
    }
    return std::string(at->second);
  }

  bool has(std::string_view key) const { return values_.contains(key); }

  template <class Int>
  Result<void> number(std::string_view key, std::int64_t least, Int* out) const {
    TESSERA_TRY(const std::string digits, text(key));
    return parse(key, digits, least, out);
  }

  template <class Int>
  static Result<void> parse(std::string_view key, std::string_view digits, std::int64_t least,
                            Int* out) {
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, *out);
    if (parsed.ec != std::errc() || parsed.ptr != end || *out < least) {
      return make_error(ErrorCode::kInvalidArgument, "target: {}='{}' is not a size", key,
                        digits.substr(0, 32));
    }
    return {};
  }

 private:
  std::map<std::string_view, std::string_view> values_;
};

// The kind and the architecture, by the first word of the triple.
Result<void> read_triple(std::string_view triple, Target& t) {
  const std::string_view word = triple.substr(0, triple.find('-'));
  for (const ArchRow& row : archs()) {
    if (word == row.name) return t.arch = row.arch, Result<void>();
  }
  for (const KindRow& row : kinds()) {
    if (row.triple.empty() || word != row.triple.substr(0, row.triple.find('-'))) continue;
    t.kind = row.kind;
    t.arch = Arch::kNone;
    return {};
  }
  return make_error(ErrorCode::kUnsupported, "target: architecture of '{}'", triple.substr(0, 64));
}

Result<void> read_gpu_limits(const Fields& fields, GpuLimits* gpu) {
  for (const GpuWord& w : kGpuWords) {
    TESSERA_DO(w.number ? fields.number(w.key, 0, &(gpu->*w.number))
                        : fields.number(w.key, 0, &(gpu->*w.bytes)));
  }
  return {};
}

}  // namespace

Result<Target> target_from_text(std::string_view line) {
  Target t;
  const std::size_t name_end = std::min(line.find(' '), line.size());
  t.name = std::string(line.substr(0, name_end));
  const Fields fields(line.substr(name_end));
  TESSERA_TRY(t.triple, fields.text("triple"));
  TESSERA_DO(read_triple(t.triple, t));
  TESSERA_TRY(t.cpu, fields.text("cpu"));
  TESSERA_TRY(t.features, fields.text("features"));
  derive_from_features(t);
  TESSERA_TRY(const std::string vector, fields.text("vector"));
  const std::size_t cross = std::min(vector.find('x'), vector.size());
  TESSERA_DO(Fields::parse("vector", vector.substr(0, cross), 1, &t.vector_registers));
  TESSERA_DO(Fields::parse("vector", vector.substr(std::min(cross + 1, vector.size())), 1,
                           &t.vector_bytes));
  TESSERA_DO(fields.number("cores", 1, &t.cores));
  TESSERA_DO(fields.number("l1", 0, &t.l1_bytes));
  TESSERA_DO(fields.number("l2", 0, &t.l2_bytes));
  TESSERA_DO(fields.number("l3", 0, &t.l3_bytes));
  TESSERA_DO(fields.number("line", 1, &t.line_bytes));
  if (fields.has("threads")) TESSERA_DO(fields.number("threads", 1, &t.threads));
  if (t.is_gpu()) {
    TESSERA_DO(read_gpu_limits(fields, &t.gpu));
    read_fast_math_feature(t);
    if (fields.has("fast_math")) {
      TESSERA_TRY(const std::string allowed, fields.text("fast_math"));
      TESSERA_TRY(t.fast_math, fast_math_from_text(allowed));
    }
  }
  t.rates = shipped_rates(t);
  return t;
}

}  // namespace tessera::target

#include "tessera/scheduling/feature/extract.h"

#include <algorithm>
#include <memory_resource>

#include "tessera/scheduling/feature/machine_columns.h"
#include "tessera/scheduling/feature/program.h"
#include "tessera/scheduling/feature/schema.h"
#include "tessera/scheduling/feature/statement_view.h"

namespace tessera::feature {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{1} << 19;

// `machine` are the last columns of each row. With `launches`, each goes on with the columns of its
// launch.
void append_statement_rows(const Program& program, const target::Target& target,
                           const std::vector<float>& machine, bool launches,
                           std::pmr::memory_resource* memory, std::vector<float>* out) {
  const std::vector<StatementColumn>& columns = statement_columns();
  const std::size_t own = columns.size() - machine.size();
  const std::vector<LaunchColumn>& more = launch_columns();
  const std::size_t width = columns.size() + (launches ? more.size() : 0);
  const LoopTotals totals(program, memory);
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    const StatementView view = view_statement(program.statements[i], totals, target, memory);
    const std::size_t at = out->size();
    out->resize(at + width);
    for (std::size_t c = 0; c < own; ++c) (*out)[at + c] = columns[c].read(view, columns[c].item);
    std::copy(machine.begin(), machine.end(), out->begin() + static_cast<std::ptrdiff_t>(at + own));
    if (!launches) continue;
    const LaunchView launch = view_launch(program, i, view, target);
    for (std::size_t c = 0; c < more.size(); ++c)
      (*out)[at + columns.size() + c] = more[c].read(launch, target);
  }
  if (program.statements.empty()) out->resize(out->size() + width);
}

}  // namespace

Extractor::Extractor(target::Target target) : target_(std::move(target)), memory_(kMemoryBytes) {
  append_machine(target_, &machine_);
}

Result<void> Extractor::extract(const schedule::State& state, FeatureKind kind,
                                std::vector<float>* out) {
  std::pmr::monotonic_buffer_resource memory(memory_.data(), memory_.size());
  Program program(&memory);
  TESSERA_DO(build_program(state, std::max(1, target_.line_bytes), &program, &memory, &reads_));
  switch (kind) {
    case FeatureKind::kStatement:
    case FeatureKind::kLaunch:
      append_statement_rows(program, target_, machine_, kind == FeatureKind::kLaunch, &memory, out);
      break;
    case FeatureKind::kLoop:
      append_loop_rows(program, &memory, out, nullptr);
      break;
    case FeatureKind::kCurve:
      append_curve_row(program, &memory, out);
      break;
  }
  return {};
}

Result<void> Extractor::extract_loops(const schedule::State& state, std::vector<float>* out,
                                      std::vector<std::int16_t>* parents) {
  std::pmr::monotonic_buffer_resource memory(memory_.data(), memory_.size());
  Program program(&memory);
  TESSERA_DO(build_program(state, std::max(1, target_.line_bytes), &program, &memory, &reads_));
  append_loop_rows(program, &memory, out, parents);
  return {};
}

Result<void> extract(const schedule::State& state, const target::Target& target, FeatureKind kind,
                     std::vector<float>* out) {
  return Extractor(target).extract(state, kind, out);
}

}  // namespace tessera::feature

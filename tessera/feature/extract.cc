#include "tessera/feature/extract.h"

#include <memory_resource>

#include "tessera/feature/program.h"
#include "tessera/feature/schema.h"
#include "tessera/feature/statement_view.h"

namespace tessera::feature {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{1} << 19;

void append_statement_rows(const Program& program, const target::Target& target,
                           std::pmr::memory_resource* memory, std::vector<float>* out) {
  const std::vector<StatementColumn>& columns = statement_columns();
  const LoopTotals totals(program, memory);
  for (const Statement& s : program.statements) {
    const StatementView view = view_statement(s, totals, target, memory);
    const std::size_t at = out->size();
    out->resize(at + columns.size());
    for (std::size_t c = 0; c < columns.size(); ++c)
      (*out)[at + c] = columns[c].read(view, columns[c].item);
  }
  if (program.statements.empty()) out->resize(out->size() + columns.size());
}

}  // namespace

Extractor::Extractor(target::Target target) : target_(std::move(target)), memory_(kMemoryBytes) {}

Result<void> Extractor::extract(const schedule::State& state, FeatureKind kind,
                                std::vector<float>* out) {
  std::pmr::monotonic_buffer_resource memory(memory_.data(), memory_.size());
  Program program(&memory);
  TESSERA_DO(build_program(state, std::max(1, target_.line_bytes), &program, &memory));
  switch (kind) {
    case FeatureKind::kStatement:
      append_statement_rows(program, target_, &memory, out);
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
  TESSERA_DO(build_program(state, std::max(1, target_.line_bytes), &program, &memory));
  append_loop_rows(program, &memory, out, parents);
  return {};
}

Result<void> extract(const schedule::State& state, const target::Target& target, FeatureKind kind,
                     std::vector<float>* out) {
  return Extractor(target).extract(state, kind, out);
}

}  // namespace tessera::feature

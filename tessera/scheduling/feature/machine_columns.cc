#include "tessera/scheduling/feature/machine_columns.h"

#include "tessera/scheduling/feature/schema.h"

namespace tessera::feature {
namespace {

using target::Target;

float flag(bool b) { return b ? 1 : 0; }
float bytes(std::int64_t n) { return slog(static_cast<double>(n)); }

}  // namespace

const std::vector<MachineColumn>& machine_columns() {
  static const std::vector<MachineColumn> columns = {
      {"cores", [](const Target& t) { return slog(t.code_threads()); }},
      {"vector_bytes", [](const Target& t) { return slog(t.vector_bytes); }},
      {"vector_registers", [](const Target& t) { return slog(t.vector_registers); }},
      {"l1_bytes", [](const Target& t) { return bytes(t.l1_bytes); }},
      {"l2_bytes", [](const Target& t) { return bytes(t.l2_bytes); }},
      {"l3_bytes", [](const Target& t) { return bytes(t.l3_bytes); }},
      {"line_bytes", [](const Target& t) { return slog(t.line_bytes); }},
      {"has_fma", [](const Target& t) { return flag(t.has_fma); }},
      {"has_f16", [](const Target& t) { return flag(t.has_f16); }},
      {"has_bf16_dot", [](const Target& t) { return flag(t.has_bf16_dot); }},
      {"has_bf16_mma", [](const Target& t) { return flag(t.has_bf16_mma); }},
      {"has_i8_dot", [](const Target& t) { return flag(t.has_i8_dot); }},
      {"has_i8_mma", [](const Target& t) { return flag(t.has_i8_mma); }},
      {"is_aarch64", [](const Target& t) { return flag(t.arch == target::Arch::kAArch64); }},
  };
  return columns;
}

void append_machine(const Target& t, std::vector<float>* out) {
  for (const MachineColumn& c : machine_columns()) out->push_back(c.read(t));
}

}  // namespace tessera::feature

#include "tessera/scheduling/feature/machine_columns.h"

#include "tessera/machine/target/properties.h"
#include "tessera/scheduling/feature/schema.h"

namespace tessera::feature {
namespace {

using target::Property;
using target::Target;

template <Property P>
float flag(const Target& t) {
  return static_cast<float>(target::value_of(P, t));
}
template <Property P>
float size(const Target& t) {
  return slog(target::value_of(P, t));
}

}  // namespace

// The last has the name of the architecture that the shipped weights were trained for; names are
// part of the schema.
const std::vector<MachineColumn>& machine_columns() {
  static const std::vector<MachineColumn> columns = {
      {"cores", size<Property::kThreads>},
      {"vector_bytes", size<Property::kVectorBytes>},
      {"vector_registers", size<Property::kVectorRegisters>},
      {"l1_bytes", size<Property::kL1Bytes>},
      {"l2_bytes", size<Property::kL2Bytes>},
      {"l3_bytes", size<Property::kL3Bytes>},
      {"line_bytes", size<Property::kLineBytes>},
      {"has_fma", flag<Property::kFma>},
      {"has_f16", flag<Property::kF16>},
      {"has_bf16_dot", flag<Property::kBf16Dot>},
      {"has_bf16_mma", flag<Property::kBf16Mma>},
      {"has_i8_dot", flag<Property::kI8Dot>},
      {"has_i8_mma", flag<Property::kI8Mma>},
      {"is_aarch64", flag<Property::kLaneOperands>},
  };
  return columns;
}

void append_machine(const Target& t, std::vector<float>* out) {
  for (const MachineColumn& c : machine_columns()) out->push_back(c.read(t));
}

}  // namespace tessera::feature

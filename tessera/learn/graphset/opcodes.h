// The ids that TpuGraphs gives to the operations of HLO.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::graphset {

inline constexpr int kOpcodes = 121;  // ids are below

// 0: unknown.
std::uint8_t opcode_id(std::string_view name);
// "" for ids that are not used.
std::string_view opcode_name(std::uint8_t id);

}  // namespace tessera::graphset

// The wire format of protocol buffers, as far as messages of tuning data use it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::graphset {

// One field: `number` for varints and fixed sizes, `bytes` for strings and messages.
struct WireField {
  std::uint32_t id = 0;
  bool is_bytes = false;
  std::uint64_t number = 0;
  std::string_view bytes;

  std::int64_t integer() const { return static_cast<std::int64_t>(number); }
};

// All fields of a message in their order. kInvalidArgument: cut off, or no message.
Result<std::vector<WireField>> wire_fields(std::string_view message);

// Appends a repeated number, packed or not.
Result<void> append_integers(const WireField& field, std::vector<std::int64_t>* out);

}  // namespace tessera::graphset

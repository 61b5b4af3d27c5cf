// The safetensors format: an 8-byte length, a JSON header, then the data of all tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/named_tensor.h"

namespace tessera {

struct Safetensors {
  NamedTensors tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Every offset, size and shape is checked; the data must be covered without holes or overlap, as
// the format demands. kUnsupported: element types that Tessera has not.
Result<Safetensors> parse_safetensors(std::string_view bytes);
Result<Safetensors> read_safetensors(const std::string& path);

// A file laid out but not joined, so that large tensors need no second copy.
struct SafetensorsLayout {
  std::string header;                  // with the 8 bytes of length; the data follows
  std::vector<std::uint64_t> offsets;  // of each tensor, from the start of the file
  std::uint64_t bytes = 0;             // of the whole file
};

// Each tensor starts at a multiple of `alignment` (a power of two, at least 8) from the start of
// the file; the format allows no holes, so u8 tensors named "_pad.N" fill the gaps. Names must
// differ.
Result<SafetensorsLayout> lay_out_safetensors(const NamedTensors& tensors,
                                              const std::map<std::string, std::string>& metadata,
                                              std::uint64_t alignment = 8);
Result<void> write_safetensors(const std::string& path, const NamedTensors& tensors,
                               const std::map<std::string, std::string>& metadata = {},
                               std::uint64_t alignment = 8);

}  // namespace tessera

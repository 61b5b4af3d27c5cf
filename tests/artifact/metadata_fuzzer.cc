// Arbitrary bytes as the metadata of an artifact, and as one of its libraries: an Error, or
// metadata that is written and read again.
#include <cstdint>
#include <string_view>

#include "tessera/backend/artifact/metadata.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::artifact;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto read = metadata_from_json(bytes); read.ok()) {
    if (!metadata_from_json(to_json(*read)).ok()) __builtin_trap();
  }
  const tessera::fuzz::MemoryFile file(bytes);
  (void)is_artifact(file.path());
  (void)read_metadata(file.path());
  return 0;
}

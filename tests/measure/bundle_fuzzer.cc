// Arbitrary frames as a bundle: an Error or candidates, never a crash. A file made of the input as
// it is would fail at its first checksum, so an input is a list of frames (kind, length in two
// bytes, body), which get theirs here; one that begins with 'T' is a file as it is.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tessera/support/hash.h"
#include "tessera/trials/measure/bundle.h"

namespace {

void put(std::string* out, std::uint64_t value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string framed(std::string_view input) {
  std::string file = "TSRBNDL\n";
  while (input.size() >= 3) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
    const std::uint64_t kind = byte(0);
    const std::size_t size = std::min<std::size_t>(byte(1) | byte(2) << 8, input.size() - 3);
    const std::string_view body = input.substr(3, size);
    put(&file, kind);
    put(&file, size);
    put(&file, tessera::hash_bytes(body, kind));
    file += body;
    input.remove_prefix(3 + size);
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string file = input.starts_with('T') ? std::string(input) : framed(input);
  static const int fd = memfd_create("bundle", 0);
  if (fd < 0 || ftruncate(fd, 0) != 0) std::abort();
  if (pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(file.size())) std::abort();
  const auto bundle = tessera::measure::Bundle::open(fmt::format("/proc/self/fd/{}", fd));
  if (!bundle.ok()) return 0;
  for (std::size_t i = 0; i < bundle->size(); ++i) {
    const auto item = bundle->item(i);
    if (item.ok() && item->task >= bundle->tasks().size()) __builtin_trap();
  }
  return 0;
}

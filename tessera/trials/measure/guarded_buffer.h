// Memory whose surroundings show what wrote or read beyond it.
#pragma once

#include <cstddef>
#include <string>

#include "tessera/support/result.h"

namespace tessera::measure {

// Data as aligned as in production (64 bytes; huge pages from 2 MiB on), between zones of known
// bytes and, beyond them, pages that cannot be touched:
//   [no access][zone][data][zone up to a page's end, at least kZone][no access]
class GuardedBuffer {
 public:
  static constexpr std::size_t kZone = 4096;

  GuardedBuffer() = default;
  static Result<GuardedBuffer> make(std::size_t bytes);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // From now on a write to data or zones faults. For inputs.
  void protect();
  // Empty, or "the 8 bytes from 64 beyond the end".
  std::string damage() const;
  void repair();  // makes the zones good again

 private:
  std::byte* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::byte* end_ = nullptr;  // of the zone after the data
};

// The exit status of a process that touched a page beyond a zone, or wrote a protected buffer.
inline constexpr int kGuardExit = 86;

// Ends the process with kGuardExit on a fault inside any GuardedBuffer; other faults keep their
// signal. Once per process.
void watch_guards();

}  // namespace tessera::measure

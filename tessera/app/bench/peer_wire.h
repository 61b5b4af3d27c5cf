// What a peer in a process of its own and `bench` say to each other, on a stream socket, in the
// byte order of the machine. peers/python/driver.py speaks it too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace tessera::app {

// First, from the peer: how it went. `length` bytes of text follow, its version or the reason, and
// after a success the bytes of each output.
struct PeerGreeting {
  std::int32_t ok = 0;
  std::int32_t code = 0;  // an ErrorCode, unless ok
  std::uint64_t length = 0;
};

// Then any number of times: take a sample.
struct PeerRequest {
  std::int32_t calls = 1;
  std::int32_t warm = 0;  // after one call that is not timed
};

// As runtime::TakenSample.
struct PeerReply {
  double total_s = 0, wait_s = 0, late_wait_s = 0;
  std::int64_t ok = 0;
};

enum class Transfer { kAll, kEnd, kLate };

inline constexpr double kForeverS = std::numeric_limits<double>::infinity();  // a deadline

// kEnd when the other end is gone, never a signal; kLate when `deadline_s`, of the steady clock,
// passes first.
Transfer send_bytes(int socket, const void* data, std::size_t bytes, double deadline_s);
Transfer receive_bytes(int socket, void* data, std::size_t bytes, double deadline_s);

// Whether a peer can have sent it; else it speaks another protocol. Errors have codes from 0 to
// `last_code`, texts are short, and times are numbers.
bool is_plausible(const PeerGreeting& greeting, std::int32_t last_code);
bool is_plausible(const PeerReply& reply);

// Seconds of the steady clock.
double steady_now_s();

}  // namespace tessera::app

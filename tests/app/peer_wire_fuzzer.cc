// Arbitrary bytes as what a peer sends: its greeting with a text, then replies. What is plausible
// has a text that fits and times that are numbers; the end of the stream is noticed.
#include <cmath>
#include <cstdint>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

#include "tessera/app/bench/peer_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::app;           // NOLINT(google-build-using-namespace)
  constexpr std::size_t kMost = 1 << 16;  // fits into the buffer of a socket
  if (size > kMost) return 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) __builtin_trap();
  const double deadline_s = steady_now_s() + 10;
  if (send_bytes(ends[1], data, size, deadline_s) != Transfer::kAll) __builtin_trap();
  close(ends[1]);
  PeerGreeting greeting;
  if (receive_bytes(ends[0], &greeting, sizeof greeting, deadline_s) == Transfer::kAll &&
      is_plausible(greeting, 7)) {
    std::string text(greeting.length, ' ');
    Transfer last = receive_bytes(ends[0], text.data(), text.size(), deadline_s);
    while (last == Transfer::kAll) {
      PeerReply reply;
      last = receive_bytes(ends[0], &reply, sizeof reply, deadline_s);
      if (last == Transfer::kAll && is_plausible(reply) && !(reply.total_s + reply.wait_s >= 0)) {
        __builtin_trap();
      }
    }
    if (last == Transfer::kLate) __builtin_trap();
  }
  close(ends[0]);
  return 0;
}

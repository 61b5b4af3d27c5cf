#include "tessera/app/bench/peer_wire.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <poll.h>
#include <sys/socket.h>

#include "tessera/support/clock.h"

namespace tessera::app {

double steady_now_s() { return seconds_between({}, Clock::now()); }

namespace {

// Calls `move` with what is left to transfer whenever the socket is ready for it.
template <class Move>
Transfer transfer(int socket, short events, std::size_t bytes, double deadline_s, Move move) {
  constexpr double kLongestWaitS = 3600;  // what poll() is told at once
  std::size_t done = 0;
  while (done < bytes) {
    const double left_s = std::clamp(deadline_s - steady_now_s(), 0.0, kLongestWaitS);
    pollfd ready{.fd = socket, .events = events, .revents = 0};
    const int polled = poll(&ready, 1, static_cast<int>(std::ceil(left_s * 1e3)));
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) {
      if (steady_now_s() < deadline_s) continue;
      return Transfer::kLate;
    }
    const ssize_t n = move(done, bytes - done);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return Transfer::kEnd;
    done += static_cast<std::size_t>(n);
  }
  return Transfer::kAll;
}

}  // namespace

bool is_plausible(const PeerGreeting& greeting, std::int32_t last_code) {
  constexpr std::uint64_t kLongestText = 1 << 16;
  const bool known = greeting.ok != 0 || (greeting.code >= 0 && greeting.code <= last_code);
  return known && greeting.length <= kLongestText;
}

bool is_plausible(const PeerReply& reply) {
  const auto is_time = [](double s) { return std::isfinite(s) && s >= 0; };
  return is_time(reply.total_s) && is_time(reply.wait_s) && is_time(reply.late_wait_s);
}

Transfer send_bytes(int socket, const void* data, std::size_t bytes, double deadline_s) {
  return transfer(socket, POLLOUT, bytes, deadline_s, [&](std::size_t at, std::size_t size) {
    return send(socket, static_cast<const char*>(data) + at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

Transfer receive_bytes(int socket, void* data, std::size_t bytes, double deadline_s) {
  return transfer(socket, POLLIN, bytes, deadline_s, [&](std::size_t at, std::size_t size) {
    return recv(socket, static_cast<char*>(data) + at, size, MSG_DONTWAIT);
  });
}

}  // namespace tessera::app

#include "tessera/trials/fleet/metrics_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace tessera::fleet {
namespace {

constexpr int kBacklog = 16;
constexpr int kRetryMs = 100;  // after a connection that could not be taken, as without descriptors

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family = AF_INET;
  std::string host;  // as in a URL
};

std::optional<Address> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end) return std::nullopt;
  Address out;
  out.host = text.substr(0, colon);
  sockaddr_in v4{};
  if (::inet_pton(AF_INET, out.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    out.size = sizeof(v4);
    std::memcpy(&out.storage, &v4, sizeof(v4));
    return out;
  }
  if (!out.host.starts_with('[') || !out.host.ends_with(']')) return std::nullopt;
  const std::string inside = out.host.substr(1, out.host.size() - 2);
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET6, inside.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  out.size = sizeof(v6);
  out.family = AF_INET6;
  std::memcpy(&out.storage, &v6, sizeof(v6));
  return out;
}

// That the socket got, where the address had 0.
int port_of(int listening) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(listening, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

// Whether the socket is ready for `events` before the deadline.
bool wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const double left_s = seconds_until(deadline);
    if (left_s <= 0) return false;
    pollfd ready{socket, events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(left_s * 1e3) + 1);
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

// Bytes that came, 0: the end; -1: none before the deadline, or the connection broke.
ssize_t receive(int client, std::array<char, 2048>* buffer, Clock::time_point deadline) {
  for (;;) {
    if (!wait_for(client, POLLIN, deadline)) return -1;
    const ssize_t count = ::recv(client, buffer->data(), buffer->size(), 0);
    if (count >= 0 || (errno != EINTR && errno != EAGAIN)) return count;
  }
}

void send_all(int client, std::string_view text, Clock::time_point deadline) {
  while (!text.empty() && wait_for(client, POLLOUT, deadline)) {
    const ssize_t count = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string response(const char* status, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, body.size(), body);
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& address,
                                                            const MetricsLimits& limits) {
  const std::optional<Address> at = parse_address(address);
  if (!at) {
    return make_error(ErrorCode::kInvalidArgument,
                      "'{}' is not an address and a port; write for example 127.0.0.1:9464",
                      address);
  }
  const auto unavailable = [&] {
    return make_error(ErrorCode::kUnavailable, "cannot listen at {}: {}", address,
                      std::strerror(errno));
  };
  Descriptor listening(::socket(at->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listening.valid()) return unavailable();
  // Or the address stays taken for a minute after an agent that ended.
  const int yes = 1;
  (void)::setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool listens =
      ::bind(listening.get(), reinterpret_cast<const sockaddr*>(&at->storage), at->size) == 0 &&
      ::listen(listening.get(), kBacklog) == 0;
  if (!listens) return unavailable();
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return unavailable();
  std::string url = fmt::format("http://{}:{}/metrics", at->host, port_of(listening.get()));
  std::unique_ptr<MetricsServer> server(
      new MetricsServer(listening.release(), wake.release(), std::move(url), limits));
  server->resume();
  return server;
}

MetricsServer::~MetricsServer() { pause(); }

void MetricsServer::show(std::string page) {
  const std::lock_guard<std::mutex> lock(mutex_);
  page_ = std::move(page);
}

void MetricsServer::pause() {
  if (!thread_.joinable()) return;
  (void)::eventfd_write(wake_.get(), 1);
  thread_.join();
  eventfd_t count = 0;
  (void)::eventfd_read(wake_.get(), &count);
}

void MetricsServer::resume() {
  if (thread_.joinable()) return;
  // Signals are for the thread that works.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { serve(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void MetricsServer::serve() {
  for (;;) {
    std::array<pollfd, 2> ready{pollfd{wake_.get(), POLLIN, 0},
                                pollfd{listening_.get(), POLLIN, 0}};
    const int count = ::poll(ready.data(), ready.size(), -1);
    if (ready[0].revents != 0) return;
    if (count <= 0) continue;
    const Descriptor client(
        ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client.valid()) {
      answer(client.get());
    } else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
      (void)::poll(ready.data(), 1, kRetryMs);
    }
  }
}

void MetricsServer::answer(int client) {
  const Clock::time_point deadline = seconds_from_now(limits_.exchange_s);
  std::array<char, 2048> buffer{};
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos && request.size() <= limits_.request_bytes) {
    const ssize_t count = receive(client, &buffer, deadline);
    if (count <= 0) return;  // it will not be asked
    request.append(buffer.data(), static_cast<std::size_t>(count));
  }
  send_all(client, reply(request), deadline);
  // What is unread when a socket closes takes the answer with it.
  ::shutdown(client, SHUT_WR);
  while (receive(client, &buffer, deadline) > 0) {
  }
}

std::string MetricsServer::reply(std::string_view request) {
  if (request.size() > limits_.request_bytes)
    return response("431 Request Header Fields Too Large", "the request is too long\n");
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == last || !line.substr(last + 1).starts_with("HTTP/1."))
    return response("400 Bad Request", "this is not HTTP/1\n");
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view path = target.substr(0, target.find('?'));
  if (line.substr(0, first) == "GET" && path == "/healthz") return response("200 OK", "ok\n");
  if (line.substr(0, first) == "GET" && path == "/metrics") {
    const std::lock_guard<std::mutex> lock(mutex_);
    return response("200 OK", page_);
  }
  return response("404 Not Found", "there are /metrics and /healthz\n");
}

}  // namespace tessera::fleet

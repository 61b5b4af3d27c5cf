// A TCP line to a PostgreSQL server that falls silent where a test wants it: the other end takes no
// byte any more, acknowledges none and never closes, as a machine without power.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/testing/postgres_server.h"

namespace tessera::record {

class BlackHole {
 public:
  explicit BlackHole(const tessera::testing::PostgresServer& server)
      : server_socket_(server.folder() + "/.s.PGSQL.5432") {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ok_ = ::bind(listening_, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
          ::listen(listening_, 8) == 0 &&
          ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    port_ = ntohs(address.sin_port);
    serving_ = std::thread([this] { serve(); });
  }
  ~BlackHole() {
    ending_ = true;
    serving_.join();
    for (std::thread& line : lines_) line.join();
    ::close(listening_);
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;

  bool ok() const { return ok_; }
  std::string url(const std::string& database) const {
    return "postgresql://127.0.0.1:" + std::to_string(port_) + "/" + database +
           "?user=tessera&sslmode=disable&gssencmode=disable";
  }
  // The line that carries `words` next is the one.
  void swallow(const std::string& words) {
    const std::lock_guard lock(mutex_);
    words_ = words;
  }
  int swallowed() const { return swallowed_; }
  int given_up() const { return given_up_; }  // lines that nobody else ended

 private:
  static constexpr int kPollMs = 20;
  static constexpr std::chrono::seconds kPatience{60};

  bool is_wanted(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (words_.empty() || text.find(words_) == std::string_view::npos) return false;
    words_.clear();
    return true;
  }
  // The kernel drops whatever comes, before it looks at it.
  static bool fall_silent(int client) {
    sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &drop_all};
    return ::setsockopt(client, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
  }
  void serve() {
    while (!ending_) {
      pollfd ready{listening_, POLLIN, 0};
      if (::poll(&ready, 1, kPollMs) <= 0) continue;
      const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client >= 0) lines_.emplace_back([this, client] { carry(client); });
    }
  }
  void carry(int client) {
    const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, server_socket_.c_str(), sizeof(address.sun_path) - 1);
    bool open = ::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    std::array<char, 1 << 16> buffer;
    while (open && !ending_) {
      std::array<pollfd, 2> ready{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
      if (::poll(ready.data(), ready.size(), kPollMs) <= 0) continue;
      for (std::size_t from = 0; open && from < 2; ++from) {
        if (ready[from].revents == 0) continue;
        const ssize_t count = ::recv(from == 0 ? client : server, buffer.data(), buffer.size(), 0);
        open = count > 0;
        if (!open) break;
        const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
        if (from == 0 && is_wanted(text)) {
          swallowed_ += fall_silent(client) ? 1 : 0;
          const auto until = std::chrono::steady_clock::now() + kPatience;
          while (!ending_ && std::chrono::steady_clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
          given_up_ += ending_ ? 0 : 1;
          open = false;
          break;
        }
        open =
            ::send(from == 0 ? server : client, buffer.data(), text.size(), MSG_NOSIGNAL) == count;
      }
    }
    ::close(client);
    ::close(server);
  }

  std::string server_socket_, words_;  // words_: guarded by mutex_
  std::mutex mutex_;
  int listening_ = -1, port_ = 0;
  bool ok_ = false;
  std::atomic<int> swallowed_ = 0, given_up_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread serving_;
  std::vector<std::thread> lines_;  // of serving_
};

}  // namespace tessera::record

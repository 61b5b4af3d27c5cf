#include "tests/testing/postgres_proxy.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace tessera::testing {
namespace {

constexpr int kPollMs = 20;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

bool send_all(int to, const char* bytes, ssize_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(to, bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= sent;
  }
  return true;
}

}  // namespace

PostgresProxy::PostgresProxy(const PostgresServer& server)
    : server_socket_(server.folder() + "/.s.PGSQL.5432") {
  char name[] = "/tmp/tessera-cut-XXXXXX";
  if (::mkdtemp(name) != nullptr) folder_ = name;
  listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(folder_ + "/.s.PGSQL.5432");
  if (::bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listening_, 64) != 0) {
    std::abort();
  }
  serving_ = std::thread([this] { serve(); });
}

PostgresProxy::~PostgresProxy() {
  ending_ = true;
  serving_.join();
  for (std::thread& line : lines_) line.join();
  ::close(listening_);
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

std::string PostgresProxy::url(const std::string& database) const {
  return "postgresql:///" + database + "?host=" + folder_ + "&user=tessera";
}

void PostgresProxy::serve() {
  while (!ending_) {
    pollfd ready{listening_, POLLIN, 0};
    if (::poll(&ready, 1, kPollMs) <= 0) continue;
    const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) lines_.emplace_back([this, client] { carry(client); });
  }
}

void PostgresProxy::carry(int client) {
  const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(server_socket_);
  bool open = ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  std::array<char, 1 << 16> buffer;
  bool answer_is_last = false, dropped = false;
  while (open && !ending_) {
    if (cut_ == Cut::kAll) {
      ++cuts_;
      break;
    }
    const bool dropping = cut_ == Cut::kDrop;
    if (dropped && !dropping) {
      ++cuts_;
      break;
    }
    std::array<pollfd, 2> ready{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), kPollMs) <= 0) continue;
    for (int from = 0; open && from < 2; ++from) {
      if (ready[static_cast<std::size_t>(from)].revents == 0) continue;
      const ssize_t count = ::recv(from == 0 ? client : server, buffer.data(), buffer.size(), 0);
      open = count > 0;
      if (!open) break;
      if (dropping) {
        dropped = true;
        continue;
      }
      const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
      if (from == 0 && text.find("COMMIT") != std::string_view::npos) {
        Cut wanted = Cut::kBeforeCommit;
        if (cut_.compare_exchange_strong(wanted, Cut::kNone)) {
          ++cuts_;
          open = false;
          break;
        }
        wanted = Cut::kAfterCommit;
        answer_is_last = cut_.compare_exchange_strong(wanted, Cut::kNone);
      }
      if (from == 1 && answer_is_last) {
        ++cuts_;
        open = false;
        break;
      }
      open = send_all(from == 0 ? server : client, buffer.data(), count);
    }
  }
  ::close(client);
  ::close(server);
}

}  // namespace tessera::testing

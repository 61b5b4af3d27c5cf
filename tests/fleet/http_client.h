// Asks a server on this machine by a plain socket, also what no browser would.
#pragma once

#include <array>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "tessera/support/descriptor.h"

namespace tessera::fleet {

inline int connect_to(int port) {
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{60, 0};
  (void)::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EXPECT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return client;
}

// False: the server closed the connection.
inline bool send_text(int client, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(client, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

inline std::string receive_all(int client) {
  std::string out;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 1; count > 0;) {
    count = ::recv(client, buffer.data(), buffer.size(), 0);
    if (count > 0) out.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return out;
}

// All that it answers. A connection that a loaded machine kept waiting for too long is cut off
// without an answer, and made again.
inline std::string http_reply(int port, const std::string& request) {
  std::string out;
  for (int tries = 0; tries < 100 && out.empty(); ++tries) {
    const Descriptor client(connect_to(port));
    (void)send_text(client.get(), request);
    out = receive_all(client.get());
  }
  return out;
}

inline std::string http_get(int port, const std::string& path) {
  return http_reply(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

// Of "http://127.0.0.1:PORT/metrics" in a text; 0: there is none.
inline int port_in(const std::string& text) {
  const std::string before = "http://127.0.0.1:";
  const std::size_t at = text.find(before);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + before.size());
}

}  // namespace tessera::fleet

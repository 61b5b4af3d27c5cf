// The server of metrics, asked by real sockets, also with what is damaged.
#include "tessera/trials/fleet/metrics_server.h"

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "tests/fleet/http_client.h"

namespace tessera::fleet {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<MetricsServer> server_of(const std::string& page,
                                         const MetricsLimits& limits = {.exchange_s = 30}) {
  auto server = MetricsServer::start("127.0.0.1:0", limits);
  EXPECT_TRUE(server.ok()) << server.error().message;
  (*server)->show(page);
  return std::move(server).value();
}

std::string body_of(const std::string& answer) {
  const std::size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

TEST(MetricsServer, AnswersThePageAndItsHealth) {
  const auto server = server_of("first 1\n");
  const int port = port_in(server->url());
  ASSERT_GT(port, 0) << server->url();
  const std::string answer = http_get(port, "/metrics");
  EXPECT_EQ(answer.find("HTTP/1.1 200 OK\r\n"), 0u) << answer;
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.find("Content-Length: 8\r\n"), std::string::npos);
  EXPECT_EQ(body_of(answer), "first 1\n");
  const std::string large(1'000'000, 'x');
  server->show(large);
  EXPECT_EQ(body_of(http_get(port, "/metrics?name=x")), large);
  EXPECT_EQ(body_of(http_get(port, "/healthz")), "ok\n");
}

TEST(MetricsServer, EverythingElseIsNotThere) {
  const auto server = server_of("first 1\n");
  const int port = port_in(server->url());
  for (const char* path : {"/", "/metric", "/metrics/", "/../etc/passwd", "http://x/metrics"}) {
    EXPECT_EQ(http_get(port, path).find("HTTP/1.1 404 "), 0u) << path;
  }
  for (const char* method : {"POST", "HEAD", "get"}) {
    const std::string answer = http_reply(port, std::string(method) + " /metrics HTTP/1.1\r\n\r\n");
    EXPECT_EQ(answer.find("HTTP/1.1 404 "), 0u) << method;
  }
}

TEST(MetricsServer, RefusesWhatIsDamaged) {
  const auto server = server_of("first 1\n");
  const int port = port_in(server->url());
  for (const std::string& request :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("GET /metrics\r\n\r\n"),
        std::string("GET /metrics FTP/1.1\r\n\r\n"), std::string(100, '\0') + "\r\n\r\n",
        std::string("\x16\x03\x01\x02 \xff\r\n\r\n")}) {
    EXPECT_EQ(http_reply(port, request).find("HTTP/1.1 400 "), 0u) << request;
  }
  const std::string long_one = "GET /metrics HTTP/1.1\r\nCookie: " + std::string(20'000, 'x');
  EXPECT_EQ(http_reply(port, long_one).find("HTTP/1.1 431 "), 0u);
  {
    const Descriptor half(connect_to(port));
    EXPECT_TRUE(send_text(half.get(), "GET /met"));
    ::shutdown(half.get(), SHUT_WR);
    EXPECT_EQ(receive_all(half.get()), "");
  }
  EXPECT_EQ(body_of(http_get(port, "/healthz")), "ok\n");
}

TEST(MetricsServer, CutsOffWhatDoesNotEnd) {
  const auto server = server_of("first 1\n", {.exchange_s = 0.2});
  const int port = port_in(server->url());
  const Descriptor silent(connect_to(port));
  EXPECT_EQ(receive_all(silent.get()), "");
  const Descriptor endless(connect_to(port));
  while (send_text(endless.get(), std::string(1000, 'x'))) {
  }
  EXPECT_EQ(body_of(http_get(port, "/healthz")), "ok\n");
}

TEST(MetricsServer, HasNoThreadWhileItPauses) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto server = server_of("first 1\n");
  for (int i = 0; i < 3; ++i) {
    const auto running = threads();
    server->pause();
    server->pause();
    // A thread that was joined may be listed for a moment more.
    for (int tries = 0; tries < 1000 && threads() == running; ++tries)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(threads(), running - 1);
    const Descriptor waiting(connect_to(port_in(server->url())));
    EXPECT_TRUE(send_text(waiting.get(), "GET /metrics HTTP/1.1\r\n\r\n"));
    server->resume();
    EXPECT_EQ(body_of(receive_all(waiting.get())), "first 1\n");
  }
}

TEST(MetricsServer, ListensOnlyWhereItIsTold) {
  const auto server = server_of("");
  const std::string taken = "127.0.0.1:" + std::to_string(port_in(server->url()));
  const auto second = MetricsServer::start(taken);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find("cannot listen at " + taken), std::string::npos);
  EXPECT_EQ(MetricsServer::start("192.0.2.1:0").error().code, ErrorCode::kUnavailable)
      << "an address of no machine";
  for (const char* wrong :
       {"", "9464", "127.0.0.1", "127.0.0.1:", ":9464", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:94x", "localhost:9464", "[::1:9464", "::1:9464", "256.0.0.1:9464"}) {
    const auto refused = MetricsServer::start(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << wrong;
    EXPECT_NE(refused.error().message.find("127.0.0.1:9464"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::fleet

// A small HTTP server for one page, asked by Prometheus.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "tessera/support/clock.h"
#include "tessera/support/descriptor.h"
#include "tessera/support/result.h"

namespace tessera::fleet {

struct MetricsLimits {
  std::size_t request_bytes = 8192;
  double exchange_s = 1;  // of a connection
};

// GET /metrics answers the page, GET /healthz "ok", everything else 404. A thread answers one
// connection after the other; a request that is damaged or reaches a limit is refused.
class MetricsServer {
 public:
  // `address` is a number and a port: "127.0.0.1:9464", "[::1]:9464"; with port 0 a free one is
  // taken. kInvalidArgument: it is something else; kUnavailable: nobody can listen there.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& address,
                                                      const MetricsLimits& limits = {});
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  const std::string& url() const { return url_; }  // of the page, with the port
  void show(std::string page);
  // Between them it has no thread, so that the process may fork; requests wait.
  void pause();
  void resume();

 private:
  MetricsServer(int listening, int wake, std::string url, const MetricsLimits& limits)
      : listening_(listening), wake_(wake), url_(std::move(url)), limits_(limits) {}
  void serve();
  void answer(int client);
  std::string reply(std::string_view request);

  Descriptor listening_, wake_;
  std::string url_;
  MetricsLimits limits_;
  std::mutex mutex_;
  std::string page_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tessera::fleet

// Stands between a program and a PostgreSQL server and cuts the line where a test wants it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/postgres_server.h"

namespace tessera::testing {

class PostgresProxy {
 public:
  enum class Cut {
    kNone,
    kBeforeCommit,  // the server never sees COMMIT
    kAfterCommit,   // it does, and its answer is lost
    kAll,           // every line, and new ones are not taken
    kDrop,          // bytes vanish and nobody is told; those lines end with the cut
  };

  explicit PostgresProxy(const PostgresServer& server);
  ~PostgresProxy();

  std::string url(const std::string& database) const;
  // kBeforeCommit and kAfterCommit happen once.
  void cut(Cut cut) { cut_ = cut; }
  int cuts() const { return cuts_; }  // that happened

 private:
  void serve();
  void carry(int client);

  std::string server_socket_, folder_;
  int listening_ = -1;
  std::atomic<Cut> cut_ = Cut::kNone;
  std::atomic<int> cuts_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread serving_;
  std::vector<std::thread> lines_;  // of serving_
};

}  // namespace tessera::testing

// Takes the place of the interpreter of peers/python/driver.py. usage: fake_peer_driver HOW PEER
#include <csignal>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tessera/app/bench/peer_wire.h"

namespace {

using namespace tessera::app;  // NOLINT(google-build-using-namespace): this file is one program

constexpr double kForeverS = std::numeric_limits<double>::infinity();

void receive_all(void* data, std::size_t bytes) {
  if (receive_bytes(STDIN_FILENO, data, bytes, kForeverS) != Transfer::kAll) _exit(0);
}

void send_all(const void* data, std::size_t bytes) {
  (void)send_bytes(STDIN_FILENO, data, bytes, kForeverS);
}

std::size_t elements(const nlohmann::json& tensor) {
  std::size_t n = 1;
  for (const std::size_t dim : tensor.at("shape")) n *= dim;
  return n;
}

void greet(bool ok, int code, const std::string& text) {
  const PeerGreeting greeting{.ok = ok ? 1 : 0, .code = code, .length = text.size()};
  send_all(&greeting, sizeof greeting);
  send_all(text.data(), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string how = argv[1];
  if (how == "ends") {
    std::fputs("loading\nthe library is broken\n\n", stderr);
    return 3;
  }
  if (how == "deaf") pause();
  if (how == "chatter") {
    send_all(std::string(64, '!').data(), 64);
    pause();
  }
  std::uint64_t length = 0;
  receive_all(&length, sizeof length);
  std::string text(length, ' ');
  receive_all(text.data(), text.size());
  const nlohmann::json job = nlohmann::json::parse(text);
  std::vector<std::vector<float>> inputs;
  for (const nlohmann::json& input : job.at("inputs")) {
    inputs.emplace_back(elements(input));
    receive_all(inputs.back().data(), inputs.back().size() * sizeof(float));
  }
  if (how == "crashes") raise(SIGSEGV);
  for (const char* code : {"unavailable", "unsupported", "run_failed"}) {
    if (how != code) continue;
    greet(false, job.at("codes").at(code), "no such thing");
    return 0;
  }
  greet(true, 0, argv[2] + std::string(" with ") + job.at("threads").dump());
  // "doubles": twice the only input; all others: zeros.
  for (const nlohmann::json& output : job.at("outputs")) {
    std::vector<float> values(elements(output));
    for (std::size_t i = 0; i < values.size() && how == "doubles"; ++i)
      values[i] = 2 * inputs.at(0).at(i);
    send_all(values.data(), values.size() * sizeof(float));
  }
  for (int requests = 0;; ++requests) {
    PeerRequest request;
    receive_all(&request, sizeof request);
    if (how == "hangs" && requests == 1) pause();
    if (how == "dies" && requests == 1) return 1;
    const PeerReply reply{.total_s = 1e-3 * request.calls,
                          .wait_s = request.warm != 0 ? 1.0 : 0.0,
                          .late_wait_s = 2,
                          .ok = how == "fails" ? 0 : 1};
    send_all(&reply, sizeof reply);
  }
}

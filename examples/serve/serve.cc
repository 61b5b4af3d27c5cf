// Serving with several sessions: serve MODEL [SESSIONS] [REQUESTS]. Requests wait in a queue; each
// session has a thread that takes the next one, runs it with one thread of its own, and hands over
// the result. That gives the most requests per second; for the shortest time of a single request
// use one session with all threads instead.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <tessera/tessera.hpp>

namespace {

using Tensor = std::vector<float>;
using Clock = std::chrono::steady_clock;

class Server {
 public:
  Server(const tsr::Model& model, int sessions) : model_(model) {
    for (int i = 0; i < sessions; ++i) {
      threads_.emplace_back([this, session = std::make_shared<tsr::Session>(model_.session(1))] {
        while (std::optional<Request> request = next()) answer(*session, *request);
      });
    }
  }

  // Requests that wait are still answered.
  ~Server() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    waiting_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  std::future<Tensor> submit(Tensor input) {
    Request request{std::move(input), {}};
    std::future<Tensor> result = request.result.get_future();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(request));
    }
    waiting_.notify_one();
    return result;
  }

 private:
  struct Request {
    Tensor input;
    std::promise<Tensor> result;
  };

  std::optional<Request> next() {
    std::unique_lock lock(mutex_);
    waiting_.wait(lock, [&] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return std::nullopt;
    std::optional<Request> request = std::move(queue_.front());
    queue_.pop_front();
    return request;
  }

  // What one request has wrong is its own error.
  void answer(tsr::Session& session, Request& request) const {
    try {
      Tensor output(static_cast<std::size_t>(model_.outputs()[0].bytes) / sizeof(float));
      session.run({tsr::view(request.input)}, {tsr::view(output)});
      request.result.set_value(std::move(output));
    } catch (...) {
      request.result.set_exception(std::current_exception());
    }
  }

  const tsr::Model& model_;
  std::mutex mutex_;
  std::condition_variable waiting_;
  std::deque<Request> queue_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

double serve(const tsr::Model& model, int sessions, int requests) {
  const auto count = static_cast<std::size_t>(model.inputs()[0].bytes) / sizeof(float);
  Server server(model, sessions);
  std::vector<std::future<Tensor>> results;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < requests; ++i)
    results.push_back(server.submit(Tensor(count, static_cast<float>(i % 7))));
  for (std::future<Tensor>& r : results) r.get();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: serve MODEL [SESSIONS] [REQUESTS]\n";
    return 2;
  }
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int sessions = argc > 2 ? std::stoi(argv[2]) : cores;
  const int requests = argc > 3 ? std::stoi(argv[3]) : 1000;
  tsr::CompileOptions options;
  options.threads = 1;  // each session has one
  const tsr::Model model = tsr::Model::compile(argv[1], options);
  const double seconds = serve(model, sessions, requests);
  std::cout << requests << " requests, " << sessions << " sessions: " << requests / seconds
            << " per second\n";
  return 0;
} catch (const std::exception& e) {
  std::cerr << "serve: " << e.what() << '\n';
  return 1;
}

#include "tessera/app/bench/peer_program.h"

#include <cstdint>

#include <nlohmann/json.hpp>

#include "tessera/app/bench/peer_wire.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kLongestJob = 1 << 20;

struct Job {
  std::string peer, spec;
  int threads = 1;
  std::vector<Shape> inputs;
  Shape output;
};

Result<Job> read_job(const std::string& text) {
  try {
    const nlohmann::json j = nlohmann::json::parse(text);
    return Job{j.at("peer"), j.at("spec"), j.at("threads"), j.at("inputs"), j.at("output")};
  } catch (const nlohmann::json::exception& e) {
    return make_error(ErrorCode::kInvalidArgument, "not a job for a peer: {}", e.what());
  }
}

Result<void> receive(int socket, void* data, std::size_t bytes) {
  if (receive_bytes(socket, data, bytes, kForeverS) == Transfer::kAll) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      "standard input is not a socket with a job: `tessera bench --peers` starts this");
}

}  // namespace

Result<std::unique_ptr<PeerProcess>> start_peer_program(const std::string& name,
                                                        const std::string& spec, int threads,
                                                        const std::vector<HostTensor>& inputs,
                                                        const Shape& output) {
  auto shapes = nlohmann::json::array();
  for (const HostTensor& t : inputs) shapes.push_back(t.shape());
  const std::string text = nlohmann::json{
      {"peer", name},
      {"spec", spec},
      {"threads", threads},
      {"inputs", shapes},
      {"output", output}}.dump();
  const std::uint64_t length = text.size();
  std::vector<std::string> parts = {
      std::string(reinterpret_cast<const char*>(&length), sizeof length), text};
  for (const HostTensor& t : inputs) {
    if (!is_float(t.dtype()) || size_bytes(t.dtype()) > 4)
      return make_error(ErrorCode::kUnsupported, "peers take f32, not {}", to_text(t.dtype()));
    HostTensor wide(DType::kF32, t.shape());  // halves too: the peer rounds them back
    for (std::int64_t i = 0; i < t.size(); ++i) wide.set_float(i, t.get_float(i));
    parts.emplace_back(static_cast<const char*>(wide.data()), wide.bytes());
  }
  return PeerProcess::start_program({"/proc/self/exe", "peer-op"}, parts,
                                    {HostTensor(DType::kF32, output)});
}

Result<void> serve_peer_program(int socket) {
  std::uint64_t length = 0;
  TESSERA_DO(receive(socket, &length, sizeof length));
  if (length > kLongestJob) return make_error(ErrorCode::kInvalidArgument, "not a job for a peer");
  std::string text(length, ' ');
  TESSERA_DO(receive(socket, text.data(), text.size()));
  TESSERA_TRY(const Job job, read_job(text));
  std::vector<HostTensor> inputs;
  for (const Shape& shape : job.inputs) {
    HostTensor& t = inputs.emplace_back(DType::kF32, shape);
    TESSERA_DO(receive(socket, t.data(), t.bytes()));
  }
  serve_peer(socket, peer_op_work(job.peer, job.spec, job.threads, inputs, job.output));
  return {};
}

}  // namespace tessera::app

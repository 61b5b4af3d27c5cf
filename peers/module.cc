// The C functions of peer.h on top of one peer's `version` and `make_operation`.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "peers/operation.h"
#include "peers/peer.h"
#include "peers/spec.h"

using tessera::peers::Buffer;
using tessera::peers::Operation;
using tessera::peers::Spec;

struct TesseraPeerOp {
  Spec spec;
  std::unique_ptr<Operation> operation;
  std::vector<Buffer> inputs;  // empty buffer: not set yet
  bool bound = false;
  std::string error;
};

namespace {

template <typename Body>
int guarded(TesseraPeerOp* op, Body body) {
  try {
    op->error.clear();
    body();
    return 0;
  } catch (const std::exception& e) {
    op->error = e.what();
  } catch (...) {
    op->error = "the library threw an unknown exception";
  }
  return 1;
}

void check_count(std::int64_t expected, std::int64_t count) {
  if (count == expected) return;
  throw std::invalid_argument("expected " + std::to_string(expected) + " elements, got " +
                              std::to_string(count));
}

}  // namespace

extern "C" {

int tessera_peer_abi(void) { return TESSERA_PEER_ABI; }

const char* tessera_peer_version(void) {
  static const std::string text = tessera::peers::version();
  return text.empty() ? nullptr : text.c_str();
}

TesseraPeerOp* tessera_peer_create(const char* spec, int threads, char* reason,
                                   size_t reason_bytes) {
  std::string why;
  try {
    if (threads < 1) throw tessera::peers::Unsupported("threads must be at least 1");
    auto op = std::make_unique<TesseraPeerOp>();
    op->spec = tessera::peers::parse_spec(spec);
    op->operation = tessera::peers::make_operation(op->spec, threads);
    if (!op->operation->takes(op->spec.element)) {
      throw tessera::peers::Unsupported(std::string("dtype ") +
                                        tessera::peers::to_text(op->spec.element) +
                                        ": the peer runs f32 only");
    }
    op->inputs.resize(op->spec.input_counts.size());
    return op.release();
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
    why = "the library threw an unknown exception";
  }
  if (reason_bytes > 0) std::snprintf(reason, reason_bytes, "%s", why.c_str());
  return nullptr;
}

int tessera_peer_set_input(TesseraPeerOp* op, int index, const float* data, int64_t count) {
  return guarded(op, [&] {
    if (index < 0 || static_cast<std::size_t>(index) >= op->inputs.size()) {
      throw std::invalid_argument("no input " + std::to_string(index));
    }
    const auto i = static_cast<std::size_t>(index);
    check_count(op->spec.input_counts[i], count);
    if (op->inputs[i].count() == 0) op->inputs[i] = Buffer(count);
    std::copy_n(data, count, op->inputs[i].data());
    const bool complete = std::all_of(op->inputs.begin(), op->inputs.end(),
                                      [](const Buffer& input) { return input.count() != 0; });
    if (!complete) return;
    op->bound = false;
    op->operation->bind(op->inputs);
    op->bound = true;
  });
}

int tessera_peer_run(TesseraPeerOp* op) {
  return guarded(op, [&] {
    if (!op->bound) throw std::logic_error("not all inputs are set");
    op->operation->run();
  });
}

int tessera_peer_time(TesseraPeerOp* op, int calls, double* seconds) {
  return guarded(op, [&] {
    if (!op->bound) throw std::logic_error("not all inputs are set");
    *seconds = op->operation->time(calls).value_or(-1);
  });
}

int tessera_peer_get_output(TesseraPeerOp* op, float* data, int64_t count) {
  return guarded(op, [&] {
    check_count(op->spec.output_count, count);
    if (!op->bound) throw std::logic_error("not all inputs are set");
    op->operation->get_output(data);
  });
}

const char* tessera_peer_error(const TesseraPeerOp* op) { return op->error.c_str(); }

void tessera_peer_destroy(TesseraPeerOp* op) { delete op; }

}  // extern "C"

#include "tessera/interp/threads.h"

#include "tessera/ir/launch.h"

namespace tessera::interp {
namespace {

constexpr std::int64_t kMany = -2;

// `who` joins `member`, which is empty when `fresh`.
void join(std::int64_t* member, std::int64_t who, bool fresh) {
  if (fresh) {
    *member = who;
  } else if (*member != who) {
    *member = kMany;
  }
}

}  // namespace

std::optional<AccessLog::Race> AccessLog::note(std::size_t element, bool write, std::int64_t phase,
                                               std::int64_t thread, std::int64_t block) {
  Touch& t = touches_[element];
  std::optional<Race> race;
  if (t.write_phase == phase && t.writer != thread) race = Race{false, t.writer};
  if (write && t.read_phase == phase && t.reader != thread) race = Race{false, t.reader};
  if (t.write_block >= 0 && t.write_block != block) race = Race{true, t.write_block};
  if (write && t.read_block != -1 && t.read_block != block) race = Race{true, t.read_block};
  if (write) {
    join(&t.writer, thread, t.write_phase != phase);
    t.write_phase = phase;
    t.write_block = block;
  } else {
    join(&t.reader, thread, t.read_phase != phase);
    t.read_phase = phase;
    join(&t.read_block, block, t.read_block == -1);
  }
  return race;
}

void note_access(Frame& frame, const Memory& memory, std::int64_t element, bool write) {
  const Threads& threads = *frame.threads;
  const auto at = static_cast<std::size_t>(element);
  const auto race = memory.log->note(at, write, threads.phase,
                                     static_cast<std::int64_t>(frame.thread), threads.block);
  if (frame.error) return;
  if (race) {
    frame.error = make_error(
        ErrorCode::kRunFailed, "race: {} of element {} of {}, which {} {} also touches",
        write ? "store" : "read", element, memory.buffer->name, race->blocks ? "block" : "thread",
        race->other == kMany ? std::string("of several") : std::to_string(race->other));
  } else if (!memory.in_flight.empty() && memory.in_flight[at] != 0) {
    frame.error = make_error(ErrorCode::kRunFailed,
                             "{} of element {} of {} before the copy to it was waited for",
                             write ? "store" : "read", element, memory.buffer->name);
  }
}

Scalar eval_shuffle(const Node& node, Frame& frame) {
  TESSERA_CHECK(frame.threads, "shuffle outside a launch");
  Threads& threads = *frame.threads;
  const std::size_t peer = frame.thread ^ static_cast<std::size_t>(node.args[1]->value.i);
  if (peer >= threads.frames.size() || threads.active[peer] == 0) {
    if (!frame.error) {
      frame.error = make_error(ErrorCode::kRunFailed,
                               "exchange with thread {}, which does not take part", peer);
    }
    return of_int(0);
  }
  return eval(*node.args[0], 0, threads.frames[peer]);
}

}  // namespace tessera::interp

// The threads of a block: what they share, and who touched which element of it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/lang/interp/program.h"

namespace tessera::interp {

// Remembers for every element who read and wrote it since the last barrier, and in device memory
// which blocks did during the launch.
class AccessLog {
 public:
  explicit AccessLog(std::size_t elements) : touches_(elements) {}

  // A phase lies between two barriers of one block and has its own number, a moment between two
  // barriers of any kind. Threads of a group are ordered by the moments of a phase.
  struct Time {
    std::int64_t phase = 0, moment = 0;
    std::int64_t group = 0;  // the smallest of the barriers of this phase; 0: there was none
  };

  // The other one when this access races with an earlier one: a thread of the same phase that no
  // barrier separates, or a block.
  struct Race {
    bool blocks = false;
    std::int64_t other = 0;
  };
  std::optional<Race> note(std::size_t element, bool write, const Time& now, std::int64_t thread,
                           std::int64_t block);

 private:
  // The first and the last of some threads; none when empty.
  struct Members {
    std::int64_t first = -1, last = -1;
    bool empty() const { return first < 0; }
    void add(const Members& other);
  };
  // Who took part in the last phase of one kind: at its last moment, and at earlier ones.
  struct Kind {
    std::int64_t phase = -1, moment = -1;
    Members at_moment, before;
    // One that races with the thread; nothing when none does.
    std::optional<std::int64_t> racing(const Time& now, std::int64_t thread) const;
    void add(const Time& now, std::int64_t thread);
  };
  struct Touch {
    Kind write, read;
    std::int64_t write_block = -1, read_block = -1;
  };
  std::vector<Touch> touches_;
};

struct Threads {
  // A copy that has started.
  struct Copy {
    std::size_t slot;
    std::int64_t element;
    Scalar value;
  };
  // What a product of a warp group that may still go on uses: sums of this thread, and some of the
  // elements of its tiles, which the threads of the group share out.
  struct Use {
    std::size_t slot;
    std::int64_t element;
  };
  struct Product {
    std::vector<Use> sums, operands;
  };
  struct Queue {
    std::vector<Copy> open;                 // since the last commit
    std::vector<std::vector<Copy>> groups;  // oldest first
    std::vector<Product> products;          // oldest first
  };

  std::vector<Frame> frames;         // per thread
  std::vector<std::uint8_t> active;  // takes part in the statement that runs
  std::vector<Queue> queues;
  AccessLog::Time now;
  std::int64_t block = 0;
};

// Records that the thread of the frame touches the element; a race, or a copy to it that is under
// way, is an error in the frame.
void note_access(Frame& frame, const Memory& memory, std::int64_t element, bool write);

// shuffle_xor: the value of another thread of the warp.
Scalar eval_shuffle(const Node& node, int lane, Frame& frame);
// matrix_rows, matrix_columns and mma: what a lane of this thread's value holds.
Scalar eval_matrix(const Node& node, int lane, Frame& frame);
Scalar eval_mma(const Node& node, int lane, Frame& frame);

// Products of warp groups: mma of tiles.
bool is_group_product(const Node& node);
// What the product that this thread takes part in uses; reads of its tiles are noted.
Threads::Product start_product(const Node& node, Frame& frame);
// The thread has waited for all but the last so many.
void finish_products(std::size_t left, Frame& frame);

}  // namespace tessera::interp

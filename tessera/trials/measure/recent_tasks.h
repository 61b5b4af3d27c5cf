// What run workers keep of the tasks they ran lately.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <utility>

namespace tessera::measure {

// `Data` has bytes() and forget(most_bytes).
template <class Data>
class RecentTasks {
 public:
  // Of all tasks, for those to come again.
  explicit RecentTasks(std::size_t most_bytes = std::size_t{1} << 30) : most_bytes_(most_bytes) {}

  // Null: not kept.
  Data* find(std::size_t task) {
    const auto found = std::ranges::find(used_, task, &Entry::task);
    if (found == used_.end()) return nullptr;
    used_.splice(used_.begin(), used_, found);
    return found->data.get();
  }
  Data* add(std::size_t task, std::unique_ptr<Data> data) {
    used_.push_front({task, std::move(data)});
    return used_.front().data.get();
  }
  void drop(std::size_t task) {
    std::erase_if(used_, [&](const Entry& e) { return e.task == task; });
  }
  // Call it, and tidy(), when nothing refers to the buffers any more.
  void clear() { used_.clear(); }
  // The latest task stays.
  void tidy() {
    std::size_t kept = 0;
    for (auto entry = used_.begin(); entry != used_.end();) {
      entry->data->forget(most_bytes_ / 4);  // packed constants of one
      kept += entry->data->bytes();
      const bool drop = kept > most_bytes_ && entry != used_.begin();
      entry = drop ? used_.erase(entry) : std::next(entry);
    }
  }

 private:
  struct Entry {
    std::size_t task;
    std::unique_ptr<Data> data;
  };
  std::size_t most_bytes_;
  std::list<Entry> used_;  // latest first
};

}  // namespace tessera::measure

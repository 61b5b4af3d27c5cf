// Loops whose turns do not depend on each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace tessera {

// Calls work(begin, end) for parts of [0, count), by up to `threads` threads at once, this one
// among them. No part but the last has fewer than `least` turns: starting a thread takes tens of
// microseconds.
template <class Work>
void parallel_parts(std::size_t count, std::size_t threads, std::size_t least, const Work& work) {
  const std::size_t parts = std::clamp<std::size_t>(count / std::max<std::size_t>(1, least), 1,
                                                    std::max<std::size_t>(1, threads));
  const std::size_t each = (count + parts - 1) / parts;
  std::vector<std::jthread> others;
  for (std::size_t p = 1; p < parts; ++p) {
    others.emplace_back([&work, begin = std::min(count, p * each),
                         end = std::min(count, (p + 1) * each)] { work(begin, end); });
  }
  work(0, std::min(count, each));
}

}  // namespace tessera

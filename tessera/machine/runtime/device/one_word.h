// Names of devices as one word, as the text of a target needs.
#pragma once

#include <string>

namespace tessera::runtime {

// "NVIDIA H200" -> "nvidia-h200".
inline std::string one_word(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!plain) c = '-';
  }
  return name.empty() ? "device" : name;
}

}  // namespace tessera::runtime

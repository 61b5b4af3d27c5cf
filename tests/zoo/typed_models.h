// The whole zoo, in every type that its networks offer.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/zoo/zoo.h"

namespace tessera::zoo {

// "zoo:NAME", then "zoo:NAME@dtype=..." and "zoo:NAME@quant=..." for every choice but the default.
inline std::vector<std::string> typed_models() {
  std::vector<std::string> out;
  for (const ZooEntry& entry : zoo_table()) {
    out.push_back("zoo:" + entry.name);
    for (const ZooWord& word : entry.words) {
      if (word.name != "dtype" && word.name != "quant") continue;
      for (std::size_t i = 1; i < word.choices.size(); ++i) {
        out.push_back("zoo:" + entry.name + "@" + word.name + "=" + word.choices[i]);
      }
    }
  }
  return out;
}

}  // namespace tessera::zoo

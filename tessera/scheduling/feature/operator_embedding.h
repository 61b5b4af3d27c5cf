// What kind of operation a Dag is, in ten numbers read off its structure, never off names.
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/te/dag.h"

namespace tessera::feature {

const std::vector<std::string>& operator_embedding_names();
// Appends as many values: 0 or 1 for kinds, logarithms for sizes.
void append_operator_embedding(const te::Dag& dag, std::vector<float>* out);

}  // namespace tessera::feature

// Records of AutoTVM as numbers: the knobs of a configuration as steps with the columns of our own.
#pragma once

#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::dataset {

// Appends the rows of a config, the JSON of Example::candidate: sizes of a split or an order are
// one row, every word of an annotation is one, and so is every other knob; its place in the config
// is the iterator. Returns their number, at least 1, and adds those left out to `cut`.
// kInvalidArgument: no such config.
Result<std::size_t> append_autotvm_rows(const std::string& config, std::vector<float>* rows,
                                        std::size_t* cut);

}  // namespace tessera::dataset

// Records of Ansor and TenSet as numbers: kStep rows and contexts of the columns of our own. The
// computation behind a workload key is not in the logs, so there is nothing to lower.
#pragma once

#include <string>
#include <vector>

#include "tessera/learn/dataset/dataset.h"

namespace tessera::dataset {

// Appends the rows of a list of transform steps, the JSON of Example::candidate; returns their
// number, at least 1, and adds the steps left out to `cut`. kInvalidArgument: no such list.
Result<std::size_t> append_ansor_rows(const std::string& steps, std::vector<float>* rows,
                                      std::size_t* cut);
// Appends the context of a task on a machine; keys of any form are read for their numbers.
void append_ansor_context(const TaskInfo& task, const MachineInfo& machine,
                          std::vector<float>* out);

}  // namespace tessera::dataset

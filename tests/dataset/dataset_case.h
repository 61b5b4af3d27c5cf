// A small dataset of real candidates with made-up times.
#pragma once

#include <string>

#include "tessera/learn/dataset/dataset.h"

namespace tessera::dataset {

// A folder of the running test, empty.
std::string test_folder(const std::string& name);

// `per_task` distinct candidates of each of three tasks (a product, a convolution, softmax) on
// neoverse-v1 with one thread; every eighth failed. Networks: "resnet50" (product, convolution),
// "tiny" (softmax, product).
Dataset small_dataset(std::size_t per_task);

// `tasks` tasks without definitions, `per_task` examples each; network "n<i>" holds tasks i and
// i + 1.
Dataset plain_dataset(std::size_t tasks, std::size_t per_task);

}  // namespace tessera::dataset

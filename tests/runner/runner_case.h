// Small datasets for the tests of bundles and of what runs them.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/collect/dataset_build.h"
#include "tessera/app/collect/dataset_sample.h"
#include "tessera/trials/measure/bundle.h"
#include "tessera/trials/record/record.h"

namespace tessera::runner {

// An empty folder of this test.
std::string fresh_folder(const std::string& name);

app::SampleOptions sample_options(const std::string& folder, const std::string& target = "host");
// Samples and builds everything; the paths of the bundles.
std::vector<std::string> make_bundles(const app::SampleOptions& options);

std::vector<measure::BundleItem> items_of(const std::string& bundle);
std::vector<record::Record> records_of(const std::string& path);

// A copy of a bundle with each item changed by `change`.
void rewrite(const std::string& from, const std::string& to,
             const std::function<void(measure::BundleTask&)>& change_task,
             const std::function<void(measure::BundleItem&)>& change_item);

}  // namespace tessera::runner

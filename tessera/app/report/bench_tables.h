// Tables of recorded runs in Markdown: the pages of docs/results and the block of README.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/app/report/bench_runs.h"

namespace tessera::report {

// Smallest, middle and largest over the runs of one version.
struct Spread {
  double low = 0, middle = 0, high = 0;
};
Spread spread(std::vector<double> values);  // not empty

// A page per machine, by its name: one table for each device, type, batch and number of threads.
// Of every row the newest version counts, with all of its runs.
std::map<std::string, std::string> result_pages(const std::vector<BenchRunFile>& runs);

// The same in short: batch 1 with the most threads, one table for each of `machines`; links lead to
// the pages in `page_folder`. A machine without runs is left out.
std::string result_summary(const std::vector<BenchRunFile>& runs,
                           const std::vector<std::string>& machines,
                           const std::string& page_folder);

// `document` with the lines between its two markers replaced by `block`; kInvalidArgument without
// exactly one pair of markers.
Result<std::string> with_generated(const std::string& document, const std::string& block);

}  // namespace tessera::report

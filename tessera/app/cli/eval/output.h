// What `tessera eval` prints: tables, JSON, a plot.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/study/eval.h"
#include "tessera/support/json.h"

namespace tessera::cli {

// One row a model with all metrics, then one with the top-1 and top-5 scores of every network.
std::string eval_text(const app::EvalResult& result);
std::string eval_markdown(const app::EvalResult& result);
Json to_json(const app::EvalResult& result);
// Top-1 and top-5 scores, one row per model.
std::string plot_svg(const app::EvalResult& result);

}  // namespace tessera::cli

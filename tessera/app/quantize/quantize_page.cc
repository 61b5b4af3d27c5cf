#include "tessera/app/quantize/quantize_page.h"

#include <algorithm>
#include <numeric>

#include "tessera/app/report/html.h"
#include "tessera/support/counted.h"

namespace tessera::app {

std::string quantize_page(const std::string& model, const QuantizedModel& quantized,
                          const Tolerance& tolerance) {
  report::Html page("Quantised: " + model);
  std::size_t kept = 0;
  for (const QuantizedLayer& layer : quantized.layers)
    kept += layer.kept == QuantizedLayer::Kept::kNo ? 0 : 1;
  std::vector<std::pair<std::string, std::string>> facts = {
      {fmt::format("{} of {}", quantized.layers.size() - kept, quantized.layers.size()),
       "layers are narrow"}};
  if (quantized.accuracy) {
    facts.push_back({fmt::format("{:.5f}", quantized.accuracy->cosine), "cosine to float"});
    facts.push_back({fmt::format("{:.3f}", quantized.accuracy->top1), "top-1 agreement"});
  }
  page.facts(facts);
  page.paragraph(fmt::format(
      "Error of a layer: 1 minus the cosine between the outputs of the float model and of the "
      "model "
      "with that layer alone narrow, on {}. Asked for: {} of at least {:g}.",
      counted(quantized.samples, "sample"),
      tolerance.measure == Tolerance::Measure::kCosine ? "a cosine" : "a top-1 agreement",
      tolerance.at_least));
  std::vector<const QuantizedLayer*> order;
  for (const QuantizedLayer& layer : quantized.layers) order.push_back(&layer);
  std::stable_sort(
      order.begin(), order.end(),
      [](const QuantizedLayer* a, const QuantizedLayer* b) { return a->error > b->error; });
  plot::RowChart chart{.title = "Error of each layer",
                       .x = {.label = "1e-6 of 1 - cosine"},
                       .series = {"narrow", "kept in float"},
                       .rows = {},
                       .mark = ""};
  for (const QuantizedLayer* layer : order) {
    if (layer->error < 0) continue;
    const bool narrow = layer->kept == QuantizedLayer::Kept::kNo;
    const double error = layer->error * 1e6, none = std::numeric_limits<double>::quiet_NaN();
    chart.rows.push_back(
        {layer->op + " " + layer->name, {narrow ? error : none, narrow ? none : error}, {}});
  }
  if (chart.rows.empty()) {
    page.note("No samples were given: the errors of layers were not measured.");
  } else {
    page.chart(chart);
  }
  return page.finish();
}

}  // namespace tessera::app

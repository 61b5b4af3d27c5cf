// What quantising cost, layer by layer, as a page.
#pragma once

#include "tessera/app/quantize/quantize.h"

namespace tessera::app {

// One file without scripts: a bar per layer, the most sensitive first.
std::string quantize_page(const std::string& model, const QuantizedModel& quantized,
                          const Tolerance& tolerance);

}  // namespace tessera::app

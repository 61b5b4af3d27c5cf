// How distributions pass through elementwise functions.
#pragma once

#include "tessera/frontend/zoo/model_builder.h"

namespace tessera::zoo {

// Distribution of f(x) for x distributed as `m`.
Moments through(double (*f)(double), const Moments& m);
Moments sum_of(const Moments& a, const Moments& b);
Moments product_of(const Moments& a, const Moments& b);
Moments scaled(const Moments& m, double factor);
// Of the average over `count` positions. About a third of the variance is common to them: they
// belong to one channel and saw overlapping inputs.
Moments average_of(const Moments& m, double count);
// Of one element drawn from several values, each with its number of elements.
Moments mixture(const std::vector<Value>& values);

}  // namespace tessera::zoo

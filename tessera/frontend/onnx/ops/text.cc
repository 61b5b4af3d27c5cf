// Operators on token ids.
#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// How often each n-gram of the pool occurs, by column of the output.
Result<ValueId> count_ngrams(Context& c, const std::vector<std::int64_t>& columns) {
  TESSERA_TRY(const std::int64_t shortest, c.integer("min_gram_length"));
  TESSERA_TRY(const std::int64_t longest, c.integer("max_gram_length"));
  TESSERA_TRY(const std::int64_t skip, c.integer("max_skip_count"));
  TESSERA_TRY(const std::vector<std::int64_t> starts, c.integers("ngram_counts"));
  TESSERA_TRY(const std::vector<std::int64_t> pool, c.integers("pool_int64s"));
  return c.b.add("ngram_counts", {c.in(0)},
                 {{"shortest", shortest},
                  {"longest", longest},
                  {"max_skip", skip},
                  {"starts", starts},
                  {"columns", columns},
                  {"pool", pool}});
}

// The weights of the n-grams, which are listed as the pool is, by column of the output.
Result<HostTensor> column_weights(const Context& c, const std::vector<std::int64_t>& columns,
                                  std::int64_t count) {
  TESSERA_TRY(const std::vector<double> weights, c.numbers("weights", std::vector<double>{}));
  if (!weights.empty() && weights.size() != columns.size()) {
    return invalid("{} weights for {} n-grams", weights.size(), columns.size());
  }
  HostTensor by_column(DType::kF32, {count});
  for (std::size_t i = 0; i < columns.size(); ++i) {
    by_column.set_float(columns[i], weights.empty() ? 1 : weights[i]);
  }
  return by_column;
}

Result<Values> import_tfidf(Context& c) {
  if (c.has_attribute("pool_strings")) {
    return make_error(ErrorCode::kUnsupported, "n-grams of strings");
  }
  TESSERA_TRY(const std::string mode, c.word("mode"));
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    return invalid("mode '{}' is not TF, IDF or TFIDF", mode);
  }
  TESSERA_TRY(const std::vector<std::int64_t> columns, c.integers("ngram_indexes"));
  TESSERA_TRY(const ValueId counts, count_ngrams(c, columns));
  if (mode == "TF") return Values{counts};
  Formula f(c);
  Term y = f.value(counts);
  TESSERA_TRY(HostTensor weights, column_weights(c, columns, f.shape(y).back()));
  if (mode == "IDF") y = call("min", y, 1);
  return f.result({y * f.constant(std::move(weights))});
}

}  // namespace

std::vector<OnnxOp> text_rows() { return {{"TfIdfVectorizer", 9, 1, 1, import_tfidf}}; }

}  // namespace tessera::onnx

#include "tessera/app/cli/bench/text.h"

#include <algorithm>
#include <charconv>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/generate/conversation.h"
#include "tessera/app/generate/bench_text.h"
#include "tessera/support/clock.h"
#include "tessera/support/counted.h"
#include "tessera/support/invalid.h"
#include "tessera/support/json.h"
#include "tessera/support/split_commas.h"

namespace tessera::cli {
namespace {

constexpr std::int64_t kMostTokens = 1 << 20;

Result<app::TextBenchOptions> parse(const TextBenchArgs& args) {
  app::TextBenchOptions out;
  out.samples = args.samples;
  out.time_limit_s = args.time_limit_s;
  for (const std::string& part : split_commas(args.generate)) {
    const std::size_t equal = part.find('=');
    const std::string name = part.substr(0, equal);
    const std::string text = equal == std::string::npos ? "" : part.substr(equal + 1);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if ((name != "prompt" && name != "tokens") || !whole || value < 1 || value > kMostTokens) {
      return invalid("--generate {}: write prompt=512,tokens=128, each from 1 to {}", args.generate,
                     kMostTokens);
    }
    (name == "prompt" ? out.prompt : out.tokens) = value;
  }
  return out;
}

// Tokens a second in each sample.
std::vector<double> rates(const app::TextBench& b, std::int64_t tokens,
                          double app::TextBench::Sample::*seconds) {
  std::vector<double> out;
  for (const app::TextBench::Sample& s : b.samples)
    out.push_back(static_cast<double>(tokens) / std::max(s.*seconds, 1e-9));
  return out;
}

void print_rate(const char* what, std::int64_t tokens, double median,
                const std::vector<double>& all) {
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  fmt::print("{:<12} {:>5} tokens {:>9.1f} tokens/s  ({:.1f} to {:.1f})\n", what, tokens, median,
             *least, *most);
}

struct Timed {
  app::TextBenchOptions options;
  app::TextBench bench;
  int threads = 1;
  double open_s = 0;
};

Result<Timed> time_model(const std::string& model, const TextBenchArgs& args) {
  Timed out;
  TESSERA_TRY(out.options, parse(args));
  TESSERA_TRY(app::DecoderOptions options,
              decoder_options(args.threads, args.no_cache, out.options.prompt + out.options.tokens,
                              args.activations));
  out.threads = options.compile.target.code_threads();
  const Clock::time_point begin = Clock::now();
  TESSERA_TRY(app::Decoder decoder, app::Decoder::open(model, options));
  out.open_s = seconds_since(begin);
  TESSERA_TRY(out.bench, app::bench_text(decoder, out.options));
  return out;
}

}  // namespace

int bench_text(const std::string& model, const TextBenchArgs& args) {
  const Result<Timed> timed = time_model(model, args);
  if (!timed.ok()) return report_model(timed.error());
  const app::TextBench& b = timed->bench;
  const app::TextBenchOptions& o = timed->options;
  const double prefill = b.prompt_tokens_per_s(o), decode = b.decode_tokens_per_s(o);
  const std::vector<double> prefills = rates(b, o.prompt, &app::TextBench::Sample::prompt_s),
                            decodes = rates(b, o.tokens, &app::TextBench::Sample::decode_s);
  if (args.json) {
    print_json(
        {{"model", model},
         {"threads", timed->threads},
         {"activations", args.activations},
         {"prompt", o.prompt},
         {"tokens", o.tokens},
         {"prefill_tokens_per_s", prefill},
         {"decode_tokens_per_s", decode},
         {"first_token_s", b.first_token_s()},
         {"open_s", timed->open_s},
         {"compile_s", b.compile_s},
         {"weight_bytes", b.weight_bytes},
         {"resident_bytes", b.resident_bytes},
         {"samples", {{"prefill_tokens_per_s", prefills}, {"decode_tokens_per_s", decodes}}}});
    return kOk;
  }
  fmt::print("{}, {}, {} (medians)\n", model, counted(timed->threads, "thread"),
             counted(b.samples.size(), "sample"));
  print_rate("prefill", o.prompt, prefill, prefills);
  print_rate("decode", o.tokens, decode, decodes);
  fmt::print(
      "first token in {}; opened in {}, compiled in {}; {} MB of weights, {} MB "
      "resident\n",
      time_text(b.first_token_s()), time_text(timed->open_s), time_text(b.compile_s),
      b.weight_bytes >> 20, b.resident_bytes >> 20);
  return kOk;
}

}  // namespace tessera::cli

// tessera generate: text from a language model.
#include <cstdio>
#include <iostream>
#include <iterator>

#include <unistd.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/generate/conversation.h"
#include "tessera/app/compile/model_source.h"
#include "tessera/app/generate/chat_tokens.h"
#include "tessera/app/generate/conversation.h"
#include "tessera/app/generate/memory_file.h"
#include "tessera/support/clock.h"
#include "tessera/support/files.h"
#include "tessera/support/invalid.h"

namespace tessera::cli {
namespace {

struct GenerateArgs {
  std::string model, prompt, prompt_file, system, activations = "int8";  // as other engines do
  app::TextOptions text{.max_tokens = 256};
  std::string save_cache, load_cache;
  std::int64_t context = 0, lookup = 1;
  int threads = 0;
  bool chat = false, json = false, no_cache = false;
  const Option *gave_prompt = nullptr, *gave_file = nullptr, *gave_system = nullptr,
               *gave_temperature = nullptr;
};

// Sampling that was asked for without a temperature has one.
void complete(GenerateArgs* args) {
  app::SamplerOptions& s = args->text.sampler;
  const bool sampling = s.top_k > 0 || s.top_p < 1 || s.min_p > 0;
  if (sampling && args->gave_temperature->count() == 0) s.temperature = 1;
}

// Files and what `echo` prints end with a line feed that belongs to no prompt.
std::string without_last_line_feed(std::string text) {
  const bool fed = text.ends_with('\n');
  if (fed) text.pop_back();
  if (fed && text.ends_with('\r')) text.pop_back();
  return text;
}

Result<std::string> given_prompt(const GenerateArgs& args) {
  if (args.gave_prompt->count() > 0) return args.prompt;
  if (args.gave_file->count() > 0) {
    TESSERA_TRY(std::string text, read_file(args.prompt_file));
    return without_last_line_feed(std::move(text));
  }
  return without_last_line_feed(std::string(std::istreambuf_iterator<char>(std::cin), {}));
}

void print_statistics(const app::TextResult& r) {
  const auto rate = [](std::int64_t tokens, double seconds) {
    return fmt::format("{:.1f} tokens/s", static_cast<double>(tokens) / std::max(seconds, 1e-9));
  };
  const std::int64_t read = r.prompt_tokens - r.reused_tokens;
  const auto generated = static_cast<std::int64_t>(r.tokens.size());
  fmt::print(stderr, "tessera: prompt {} tokens{}, {} ({}); generated {}, {} ({}){}; {}\n",
             r.prompt_tokens,
             r.reused_tokens > 0 ? fmt::format(" ({} remembered)", r.reused_tokens) : "",
             time_text(r.prompt_s), rate(read, r.prompt_s), generated, time_text(r.decode_s),
             rate(generated, r.decode_s),
             r.guessed_tokens > 0
                 ? fmt::format(", {} of {} guesses right", r.right_tokens, r.guessed_tokens)
                 : "",
             app::to_text(r.end));
}

void print_result(const app::TextResult& r, const GenerateArgs& args) {
  print_json({{"model", args.model},
              {"text", r.text},
              {"tokens", r.tokens},
              {"end", app::to_text(r.end)},
              {"prompt_tokens", r.prompt_tokens},
              {"reused_tokens", r.reused_tokens},
              {"guessed_tokens", r.guessed_tokens},
              {"right_tokens", r.right_tokens},
              {"prompt_s", r.prompt_s},
              {"decode_s", r.decode_s}});
}

// Of tokens of an answer. Where it may have any number, most have no more than this; memory that
// was made for all that the model remembers would be read whole for each token.
std::int64_t most_expected(const GenerateArgs& args) {
  constexpr std::int64_t kUsual = 256;
  return args.text.max_tokens > 0 ? args.text.max_tokens : kUsual;
}

// One prompt, or one turn of a chat: what is generated goes to standard output.
Result<app::TextResult> answer(TextModel& model, app::TextSession& session,
                               const std::vector<tokenizer::Token>& prompt,
                               const GenerateArgs& args) {
  const std::int64_t room = model.capacity() - static_cast<std::int64_t>(prompt.size());
  if (room >= 0) {
    const std::int64_t most = std::min(room, most_expected(args));
    TESSERA_DO(model.decoder().warm_up(static_cast<std::int64_t>(prompt.size()) + most));
  }
  const auto emit = [&](std::string_view text) {
    if (args.json) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  TESSERA_TRY(app::TextResult out,
              session.run(prompt, args.text, emit, [] { return !interrupted(); }));
  if (args.json) {
    print_result(out, args);
  } else {
    fmt::print("\n");
  }
  print_statistics(out);
  return out;
}

// Turns until the end of the input; what was said before is remembered.
int chat_loop(TextModel& model, app::TextSession& session, app::Conversation conversation,
              const GenerateArgs& args) {
  // A long text may be asked for, but not at the price of all that was said.
  const app::ChatRoom room{.capacity = model.capacity(),
                           .answer = std::min(most_expected(args), model.capacity() / 4)};
  for (std::string line; !interrupted();) {
    fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    const auto prompt = conversation.ask(line, room);
    if (!prompt.ok()) {
      report(prompt.error());
      continue;
    }
    if (const std::int64_t count = conversation.forgotten(); count > 0) {
      fmt::print(stderr, "tessera: the context is full: {} forgotten, the rest is read again\n",
                 count == 1 ? "the oldest turn is" : fmt::format("the {} oldest turns are", count));
    }
    const auto out = answer(model, session, *prompt, args);
    if (!out.ok()) return report(out.error());
    conversation.answer(out->tokens);
  }
  fmt::print(stderr, "\n");
  return interrupted() ? interrupt_code() : kOk;
}

Result<std::unique_ptr<TextModel>> open_text_model(const GenerateArgs& args) {
  TESSERA_TRY(app::DecoderOptions options,
              decoder_options(args.threads, args.no_cache, args.context, args.activations));
  options.each = args.lookup;
  return TextModel::open(args.model, options);
}

Result<app::TextResult> generate_once(TextModel& model, app::TextSession& session,
                                      std::optional<app::Conversation> conversation,
                                      const GenerateArgs& args) {
  TESSERA_TRY(const std::string prompt, given_prompt(args));
  const app::ChatRoom room{.capacity = model.capacity()};
  TESSERA_TRY(const std::vector<tokenizer::Token> tokens,
              conversation ? conversation->ask(prompt, room)
                           : app::prompt_tokens(model.tokenizer(), prompt));
  if (tokens.empty())
    return invalid("the prompt is empty; give one by --prompt, --prompt-file or standard input");
  return answer(model, session, tokens, args);
}

Result<void> load_cache(TextModel& model, app::TextSession& session, const GenerateArgs& args) {
  if (args.load_cache.empty()) return {};
  TESSERA_TRY(std::vector<tokenizer::Token> tokens,
              app::load_memory(args.load_cache, model.decoder(), app::file_digest(args.model)));
  session.remember(std::move(tokens));
  return {};
}

// The exit code `code`, unless what is remembered cannot be written.
int save_cache(TextModel& model, const app::TextSession& session, const GenerateArgs& args,
               int code) {
  if (args.save_cache.empty()) return code;
  const Result<void> saved = app::save_memory(args.save_cache, model.decoder(),
                                              session.remembered(), app::file_digest(args.model));
  return saved.ok() ? code : report(saved.error());
}

int generate_command(GenerateArgs args) {
  complete(&args);
  if (const Result<void> good = app::check(args.text.sampler); !good.ok())
    return report(good.error());
  const bool gave = args.gave_prompt->count() + args.gave_file->count() > 0;
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (args.gave_system->count() > 0 && !args.chat)
    return report(invalid("--system is a part of a chat; add --chat"));
  if (!gave && terminal && !args.chat)
    return report(invalid("no prompt; give one by --prompt, --prompt-file or standard input"));
  const auto model = open_text_model(args);
  if (!model.ok()) return report_model(model.error());
  catch_interrupt();
  app::TextSession session(**model, (*model)->tokenizer());
  if (const Result<void> loaded = load_cache(**model, session, args); !loaded.ok())
    return report(loaded.error());
  std::optional<app::Conversation> conversation;
  if (args.chat) {
    auto format = (*model)->chat_format();
    if (!format.ok()) return report_model(format.error());
    std::optional<std::string> system;
    if (args.gave_system->count() > 0) system = args.system;
    conversation.emplace((*model)->tokenizer(), std::move(*format), system);
    if (!gave && terminal) {
      const int code = chat_loop(**model, session, std::move(*conversation), args);
      return save_cache(**model, session, args, code);
    }
  }
  const auto out = generate_once(**model, session, std::move(conversation), args);
  if (!out.ok()) return report(out.error());
  const int code = out->end == app::TextEnd::kInterrupted ? interrupt_code() : kOk;
  return save_cache(**model, session, args, code);
}

void add_sampling_options(Flags* sub, const std::shared_ptr<GenerateArgs>& args) {
  app::SamplerOptions& sampler = args->text.sampler;
  args->gave_temperature =
      sub->add_option("--temperature", sampler.temperature,
                      "0: the likeliest token each time; above: random tokens, the more the higher "
                      "(1 where one of the next three is given)");
  sub->add_option("--top-k", sampler.top_k, "Draw from this many of the likeliest tokens; 0: all");
  sub->add_option("--top-p", sampler.top_p,
                  "Draw from the likeliest tokens that have this much of the probability");
  sub->add_option("--min-p", sampler.min_p,
                  "Draw from tokens that are this likely at least, as a part of the likeliest");
  sub->add_option("--repeat-penalty", sampler.repeat_penalty,
                  "Above 1: tokens that were there become less likely");
  sub->add_option("--seed", sampler.seed, "Seed for all random choices");
}

}  // namespace

void add_generate(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("generate", "Generate text with a language model");
  sub->footer(
      "Examples:\n  tessera generate model.gguf --prompt 'The capital of France is'\n"
      "  tessera generate model.gguf --chat\n"
      "  tessera generate model.gguf --chat --temperature 0.8 < question.txt");
  const auto args = std::make_shared<GenerateArgs>();
  sub->add_option("MODEL", args->model,
                  "GGUF file, or a folder with config.json, safetensors and tokenizer.json")
      ->required();
  Option* prompt = sub->add_option("--prompt", args->prompt,
                                   "Text to continue; otherwise standard input is read");
  Option* file = sub->add_option("--prompt-file", args->prompt_file, "A file with that text")
                     ->check(existing_file());
  prompt->excludes(file);
  args->gave_prompt = prompt;
  args->gave_file = file;
  sub->add_flag("--chat", args->chat,
                "The prompt is a question in the model's chat format; on a terminal without "
                "--prompt a conversation");
  args->gave_system =
      sub->add_option("--system", args->system, "With --chat: instructions to the model");
  sub->add_option("--max-tokens", args->text.max_tokens,
                  "Most tokens to generate; 0: what the context holds")
      ->check(non_negative());
  sub->add_option("--stop", args->text.stops, "End where this text comes; may be repeated")
      ->expected(1);
  add_sampling_options(sub, args);
  sub->add_option("--context", args->context,
                  "Tokens that the model remembers; 0: as many as it was made for, at most 4096")
      ->check(non_negative());
  sub->add_option(
         "--lookup", args->lookup,
         "Read up to this many tokens at once, guessed from what was said before: the same "
         "text, sooner where it repeats itself (1: no guesses)")
      ->check(range(1, 8));
  sub->add_option("--save-cache", args->save_cache,
                  "File to keep what the model remembers of prompt and answer in");
  sub->add_option("--load-cache", args->load_cache,
                  "Such a file: a prompt that begins in the same way is not read again")
      ->check(existing_file());
  add_activations_option(*sub, args->activations);
  add_threads_option(*sub, args->threads, "Threads of the code");
  add_cache_option(*sub, args->no_cache);
  sub->add_flag("--json", args->json, "Print JSON when all is generated");
  sub->callback([args, run] { *run = [args] { return generate_command(*args); }; });
}

}  // namespace tessera::cli

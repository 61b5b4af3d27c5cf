// The network that writes schedules: a transformer that reads a prompt (the task, the machine, the
// sketch) and then, causally, one word per decision, and that answers each decision by a query. A
// legal value is as likely as the product of its own embedding with the query says, so that there
// are no unknown words: words and values are numbers (lm/sentence.h).
//
// Words of a prompt attend to each other; nothing is predicted there. One set of parameters for all
// graphs: whole sentences for training, and for writing prompts, values and single words.
#pragma once

#include <vector>

#include "tessera/learn/nn/network.h"

namespace tessera::lm {

// Numbers that say how good a sentence is, or is asked to be.
inline constexpr std::int64_t kQualityNumbers = 8;

struct LanguageSpec {
  std::int64_t word = 0, value = 0;  // numbers of a word and of a value
  // Complete. "width", "layers", "heads", "key_heads" (shared by heads / key_heads heads each),
  // "ffn", "choice" (numbers of a query), "rotary" (0: learned positions), "max_prompt",
  // "max_answers".
  nn::Hyper hyper;
  friend bool operator==(const LanguageSpec&, const LanguageSpec&) = default;
};
const nn::Hyper& language_defaults();
// `hyper` may leave names out: defaults. kInvalidArgument for unknown names and useless values.
Result<LanguageSpec> make_language_spec(const nn::Hyper& hyper, std::int64_t word,
                                        std::int64_t value);

// Numbers of an answer's word: the question, the one before it with the value taken there, and the
// quality. A null `before` or `taken`: there is none.
std::int64_t answer_columns(const LanguageSpec& spec);
// quality: 0 to 1; negative: unknown.
void write_answer_word(const LanguageSpec& spec, const float* question, const float* before,
                       const float* taken, float quality, float* to);

// In the graphs below the inputs come first, all f32, then all parameters of the network, the same
// in each. Masks are 1 for what is there. Sizes of heads: d = width / heads.

// `subjects` prompts of `prompt` words, `sentences` about each with `answers` words, and
// `questions` questions of `values` values.
struct LanguageShape {
  std::int64_t subjects = 1, prompt = 1, sentences = 1, answers = 1, questions = 1, values = 1;
};
// In: prompt [subjects, prompt, word], prompt_mask [subjects, prompt], words [subjects, sentences,
// answers, answer_columns], questions [subjects, questions, word], values [subjects, questions,
// values, value]. Out: query [subjects, sentences, answers, choice], choices [subjects, questions,
// values, choice]. Words behind the end of a sentence change nothing before it.
Result<nn::Network> build_sentences(const LanguageSpec& spec, const LanguageShape& shape);

// In: prompt [1, words, word], prompt_mask [1, words]. Out, of each layer: keys and values
// [words, key_heads, d].
Result<nn::Network> build_prompt(const LanguageSpec& spec, std::int64_t words);

// In: questions [1, count, word], values [1, count, 1, value]. Out: choices [1, count, 1, choice].
Result<nn::Network> build_choices(const LanguageSpec& spec, std::int64_t count);

// One word of each of `rows` sentences about one subject. In: words [rows, answer_columns], at
// [rows, max_answers] (1 at the word's place), prompt_mask [1, prompt], cache_mask [rows, cache],
// then of each layer keys and values of the prompt [prompt, key_heads, d] and of the sentence's
// earlier words [rows, cache, key_heads, d], in any order. Out: query [rows, choice], then of each
// layer the word's key and value [rows, key_heads, d].
struct StepShape {
  std::int64_t rows = 1, prompt = 1, cache = 1;
};
Result<nn::Network> build_step(const LanguageSpec& spec, const StepShape& shape);
// The same for caches that stay where the network runs. Instead of at and cache_mask it reads said
// [rows, 2]: how many words the sentence has, and 1 where this is a further one, 0 where the row
// keeps what it has. Instead of the word's key and value it gives, of each layer, the keys and
// values [rows, cache, key_heads, d] with the word's behind the others, where there is room.
Result<nn::Network> build_keeping_step(const LanguageSpec& spec, const StepShape& shape);

// Of `network`'s data inputs, those before the parameters: how many.
std::size_t data_inputs(const nn::Network& network);

// Fresh weights: the same for the same seed on every machine.
Result<std::map<std::string, HostTensor>> initial_weights(const LanguageSpec& spec,
                                                          std::uint64_t seed);

}  // namespace tessera::lm

#include "tessera/learn/train/options.h"

#include <array>

namespace tessera::train {
namespace {

constexpr std::array kLosses = {"mse", "rank", "lambdarank", "listmle", "hinge"};
constexpr std::array kDecays = {"cosine", "exponential"};

template <class Enum, std::size_t n>
Result<Enum> find(const std::array<const char*, n>& names, const std::string& what,
                  const std::string& text) {
  std::string known;
  for (std::size_t i = 0; i < n; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
    known += std::string(i == 0 ? "" : ", ") + names[i];
  }
  return make_error(ErrorCode::kInvalidArgument, "no {} '{}'; there are {}", what, text, known);
}

}  // namespace

const char* to_text(Loss loss) { return kLosses[static_cast<std::size_t>(loss)]; }
Result<Loss> loss_from_text(const std::string& text) { return find<Loss>(kLosses, "loss", text); }

const char* to_text(Decay decay) { return kDecays[static_cast<std::size_t>(decay)]; }
Result<Decay> decay_from_text(const std::string& text) {
  return find<Decay>(kDecays, "decay", text);
}

}  // namespace tessera::train

#include "tessera/frontend/onnx/ops/gate_activations.h"

#include <algorithm>
#include <cctype>

namespace tessera::onnx {
namespace {

struct Row {
  const char* name;  // lower case
  int parameters;    // how many of alpha, beta it takes
  double alpha, beta;
  Term (*apply)(Term x, double alpha, double beta);
};

Term relu(Term x) { return call("max", x, 0.0); }

constexpr Row kRows[] = {
    {"relu", 0, 0, 0, [](Term x, double, double) { return relu(x); }},
    {"tanh", 0, 0, 0, [](Term x, double, double) { return call("tanh", x); }},
    {"sigmoid", 0, 0, 0, [](Term x, double, double) { return call("sigmoid", x); }},
    {"affine", 2, 1, 0, [](Term x, double a, double b) { return x * a + b; }},
    {"leakyrelu", 1, 0.01, 0,
     [](Term x, double a, double) { return relu(x) + call("min", x, 0.0) * a; }},
    {"thresholdedrelu", 1, 1, 0,
     [](Term x, double a, double) { return where(call("le", x, a), 0.0, x); }},
    {"scaledtanh", 2, 1, 1, [](Term x, double a, double b) { return call("tanh", x * b) * a; }},
    {"hardsigmoid", 2, 0.2, 0.5,
     [](Term x, double a, double b) { return call("min", relu(x * a + b), 1.0); }},
    {"elu", 1, 1, 0,
     [](Term x, double a, double) {
       return relu(x) + (call("exp", call("min", x, 0.0)) - 1.0) * a;
     }},
    {"softsign", 0, 0, 0, [](Term x, double, double) { return x / (call("abs", x) + 1.0); }},
    {"softplus", 0, 0, 0,
     [](Term x, double, double) {
       return relu(x) + call("log", call("exp", -call("abs", x)) + 1.0);
     }},
};

const Row* find_row(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Row& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

Result<std::vector<std::string>> read_names(const Context& c,
                                            const std::vector<std::string>& defaults,
                                            std::size_t directions) {
  std::vector<std::string> names;
  if (const Attribute* given = c.node.find("activations")) {
    const auto* words = std::get_if<std::vector<std::string>>(&given->value);
    if (!words) {
      return make_error(ErrorCode::kInvalidArgument, "attribute 'activations' is not strings");
    }
    names = *words;
  }
  if (names.empty()) {
    for (std::size_t d = 0; d < directions; ++d) {
      names.insert(names.end(), defaults.begin(), defaults.end());
    }
  }
  if (names.size() != defaults.size() * directions) {
    return make_error(ErrorCode::kInvalidArgument, "{} activations, not {}", names.size(),
                      defaults.size() * directions);
  }
  return names;
}

}  // namespace

Term GateActivation::operator()(Term x) const {
  if (clip > 0) x = call("min", call("max", x, -clip), clip);
  return apply(x, alpha, beta);
}

Result<std::vector<GateActivation>> read_gate_activations(const Context& c,
                                                          const std::vector<std::string>& defaults,
                                                          std::size_t directions) {
  TESSERA_TRY(const std::vector<std::string> names, read_names(c, defaults, directions));
  TESSERA_TRY(const std::vector<double> alphas,
              c.numbers("activation_alpha", std::vector<double>{}));
  TESSERA_TRY(const std::vector<double> betas, c.numbers("activation_beta", std::vector<double>{}));
  TESSERA_TRY(const double clip, c.number("clip", 0.0));
  std::vector<GateActivation> functions;
  std::size_t next_alpha = 0, next_beta = 0;  // only functions with parameters use them up
  for (const std::string& name : names) {
    const Row* row = find_row(name);
    if (!row) return make_error(ErrorCode::kUnsupported, "activation {}", name);
    GateActivation function{row->apply, row->alpha, row->beta, clip};
    if (row->parameters >= 1 && next_alpha < alphas.size()) function.alpha = alphas[next_alpha++];
    if (row->parameters >= 2 && next_beta < betas.size()) function.beta = betas[next_beta++];
    functions.push_back(function);
  }
  return functions;
}

}  // namespace tessera::onnx

// Built-in networks as ONNX models: `zoo:resnet50`, `zoo:bert_base@seq=128,batch=4`. The published
// architectures with seeded weights, in the form the PyTorch exporter writes at opset 17, so that
// they take the same path as any model file and can be saved for other engines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/onnx/model.h"
#include "tessera/support/result.h"

namespace tessera::zoo {

class ModelBuilder;

struct ZooParam {
  std::string name;
  std::int64_t default_value;
  std::string doc;
  std::int64_t min_value = 1;
  std::int64_t max_value = 65536;
};

// A parameter whose value is one of a few words; the first is the default.
struct ZooWord {
  std::string name;
  std::vector<std::string> choices;
  std::string doc;
};

// The parameters of one network, complete: every parameter of its entry has a value.
struct Settings {
  std::map<std::string, std::int64_t, std::less<>> ints;
  std::map<std::string, std::string, std::less<>> words;

  std::int64_t at(std::string_view name) const;  // must be a parameter of the entry
  const std::string& word(std::string_view name) const;
};

// One network: one row of a family's file under nets/.
struct ZooEntry {
  std::string name;
  std::vector<std::string> aliases;
  std::string doc;
  std::vector<ZooParam> params;
  std::vector<ZooWord> words;
  void (*build)(ModelBuilder& b, const Settings& s);
};

const std::vector<ZooEntry>& zoo_table();  // sorted by name

struct ZooOptions {
  // False leaves the weights zero: for those who look at the structure only.
  bool fill_weights = true;
};

// `spec` is NAME or NAME@PARAM=VALUE,... with or without the prefix "zoo:". The same spec always
// gives the same bytes. kInvalidArgument names the nearest valid name or parameter, or the layer
// for which the input is too small.
Result<onnx::Model> make_model(std::string_view spec, const ZooOptions& options = {});

// The spec with the entry's own name and all parameters: "resnet18@batch=1,classes=1000,...".
Result<std::string> canonical_spec(std::string_view spec);

}  // namespace tessera::zoo

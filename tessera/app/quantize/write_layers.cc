#include "tessera/app/quantize/write_layers.h"

#include <cmath>
#include <set>

namespace tessera::app {
namespace {

constexpr const char* kMicrosoft = "com.microsoft";
constexpr std::int64_t kFloatNumber = 1;  // TensorProto.FLOAT
// The form of files in which types may be: of 8 bits, of 4.
constexpr std::int64_t kFormOfShortFloats = 9, kFormOfHalfBytes = 10;

HostTensor scalar(DType dtype, double value) {
  HostTensor t(dtype, {});
  is_float(dtype) ? t.set_float(0, value) : t.set_int(0, static_cast<std::int64_t>(value));
  return t;
}

HostTensor transposed(const HostTensor& t) {
  const std::int64_t rows = t.shape()[0], columns = t.shape()[1];
  HostTensor out(t.dtype(), {columns, rows});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      out.set_int(c * rows + r, t.get_int(r * columns + c));
  }
  return out;
}

// ONNX Runtime convolves bytes without sign only; the importer takes the zero point off again.
constexpr int kMiddleByte = 128;
HostTensor without_sign(const HostTensor& t) {
  HostTensor out(DType::kU8, t.shape());
  for (std::int64_t i = 0; i < t.size(); ++i) out.set_int(i, t.get_int(i) + kMiddleByte);
  return out;
}

class Writer {
 public:
  // `narrow` null: every layer twice.
  Writer(const onnx::Model& model, const NarrowModel& how, const std::vector<bool>* narrow)
      : out_(model), index_(model.graph), how_(how), narrow_(narrow), fresh_(model.graph) {
    const auto opset = model.opsets.find("");
    if (opset != model.opsets.end() && opset->second < needed_opset(how.scheme))
      domain_ = kMicrosoft;
    for (std::size_t i = 0; i < how.layers.size(); ++i) {
      layer_at_[how.layers[i].node] = i;
      const bool on = !narrow || (*narrow)[i];
      if (how.layers[i].added >= 0 && on)
        adding_[static_cast<std::size_t>(how.layers[i].added)] = i;
      if (rounds_values(how.scheme) && on) groups_.insert(how.values.at(how.layers[i].x).group);
    }
  }

  onnx::Model run(const onnx::Model& model) {
    out_.graph.nodes.clear();
    if (!narrow_) add_switches();
    for (const onnx::ValueInfo& input : model.graph.inputs) narrow_value(input.name);
    for (std::size_t i = 0; i < model.graph.nodes.size(); ++i) {
      onnx::Node node = model.graph.nodes[i];
      for (std::string& name : node.inputs) name = read_name(name);
      const auto layer = layer_at_.find(i);
      if (layer == layer_at_.end()) {
        correct_addition(i, &node);
        out_.graph.nodes.push_back(std::move(node));
      } else if (!narrow_) {
        write_both(layer->second, node);
      } else if ((*narrow_)[layer->second]) {
        write_layer(layer->second, node, node.outputs[0]);
      } else {
        out_.graph.nodes.push_back(std::move(node));
      }
      for (const std::string& name : model.graph.nodes[i].outputs) narrow_value(name);
    }
    drop_unused_constants(out_.graph);
    if (how_.scheme == Scheme::kF8) out_.ir_version = std::max(out_.ir_version, kFormOfShortFloats);
    if (stores_weights(how_.scheme)) out_.ir_version = std::max(out_.ir_version, kFormOfHalfBytes);
    return std::move(out_);
  }

 private:
  void add_switches() {
    for (std::size_t i = 0; i < how_.layers.size(); ++i)
      out_.graph.inputs.push_back({switch_name(i), to_text(DType::kBool), true, {}});
    for (const std::size_t g : groups_)
      out_.graph.inputs.push_back({group_switch_name(g), to_text(DType::kBool), true, {}});
  }

  std::string add(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                  std::vector<onnx::Attribute> attributes = {}, const std::string& domain = "") {
    onnx::Node node{.name = output + "_" + op, .op_type = op};
    node.domain = domain;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    node.attributes = std::move(attributes);
    if (!domain.empty()) out_.opsets.try_emplace(domain, 1);
    out_.graph.nodes.push_back(std::move(node));
    return output;
  }

  std::string constant(const std::string& name,
                       std::variant<HostTensor, onnx::ForeignTensor> value) {
    return add_constant(out_.graph, fresh_, name, std::move(value));
  }

  // What the nodes read in the place of `name`.
  const std::string& read_name(const std::string& name) const {
    const auto found = for_all_.find(name);
    return found == for_all_.end() ? name : found->second;
  }

  // Behind the node that makes `name`: its bytes, and what they stand for.
  void narrow_value(const std::string& name) {
    if (!rounds_values(how_.scheme)) return;
    const auto found = how_.values.find(name);
    if (found == how_.values.end() || !groups_.contains(found->second.group)) return;
    const ByteScale& s = how_.scales.at(found->second.group);
    const std::string scale = constant(name + "_scale", scalar(DType::kF32, s.scale));
    const std::string zero = constant(
        name + "_zero_point", scalar(how_.scheme == Scheme::kF8 ? DType::kF8E4M3 : DType::kU8,
                                     static_cast<double>(s.zero)));
    const std::string bytes =
        add("QuantizeLinear", {name, scale, zero}, fresh_(name + "_quantized"), {}, domain_);
    const std::string floats =
        add("DequantizeLinear", {bytes, scale, zero}, fresh_(name + "_dequantized"), {}, domain_);
    rounded_[name] = floats;
    if (!found->second.for_all) return;
    for_all_[name] = floats;
    if (!narrow_) {
      for_all_[name] = add("Where", {group_switch_name(found->second.group), floats, name},
                           fresh_(name + "_either"));
    }
  }

  // Both ways to compute a layer, and the choice.
  void write_both(std::size_t i, const onnx::Node& node) {
    const std::string y = node.outputs[0];
    onnx::Node floats = node;
    floats.outputs = {fresh_(y + "_floats")};
    out_.graph.nodes.push_back(floats);
    onnx::Node narrow = node;
    const std::string& x = how_.layers[i].x;
    // Where the value is rounded for all, the group's switch decides about that.
    const std::string made = write_layer(i, narrow, fresh_(y + "_narrow"), for_all_.contains(x));
    add("Where", {switch_name(i), made, floats.outputs[0]}, y);
  }

  // The narrow layer; returns its output, which is `y` unless a correction is added to it.
  std::string write_layer(std::size_t i, onnx::Node node, const std::string& y,
                          bool rounded_already = false) {
    const bool both = !narrow_;
    node.outputs = {y};
    if (how_.scheme == Scheme::kInt8Dynamic) {
      write_dynamic(i, node);
    } else if (stores_weights(how_.scheme)) {
      write_stored(i, node);
    } else {
      if (!rounded_already) node.inputs[0] = rounded_.at(how_.layers[i].x);
      node.inputs[1] = weight_floats(i);
      if (node.inputs.size() > 2 && !node.inputs[2].empty()) node.inputs[2] = bias_floats(i);
      out_.graph.nodes.push_back(node);
    }
    const Layer& layer = how_.layers[i];
    if (!both || layer.added < 0) return y;
    // The addition behind the product has the bias as it was.
    HostTensor change = how_.weights[i].bias.clone();
    const HostTensor& before = *index_.constant(layer.bias);
    for (std::int64_t o = 0; o < change.size(); ++o) change.as<float>()[o] -= before.as<float>()[o];
    return add("Add", {y, constant(y + "_correction", std::move(change))},
               fresh_(y + "_corrected"));
  }

  void correct_addition(std::size_t i, onnx::Node* node) {
    const auto found = adding_.find(i);
    if (found == adding_.end() || !narrow_) return;
    const Layer& layer = how_.layers[found->second];
    for (std::string& name : node->inputs) {
      if (name == layer.bias)
        name = constant(layer.bias + "_corrected", how_.weights[found->second].bias);
    }
  }

  std::string weight_floats(std::size_t i) {
    const Layer& layer = how_.layers[i];
    const LayerWeights& w = how_.weights[i];
    const std::string bytes = constant(layer.weight + "_quantized", w.values);
    const std::string scale = constant(layer.weight + "_scale", w.scales);
    const std::string zero =
        constant(layer.weight + "_zero_point", HostTensor(w.values.dtype(), w.scales.shape()));
    return add("DequantizeLinear", {bytes, scale, zero}, fresh_(layer.weight + "_dequantized"),
               {{"axis", layer.output_axis(), ""}}, domain_);
  }

  // Integers of `bits` as the file holds them.
  std::variant<HostTensor, onnx::ForeignTensor> stored(const HostTensor& values) const {
    if (how_.blocks.bits == 8) return values;
    return onnx::ForeignTensor{how_.blocks.symmetric ? "int4" : "uint4", values};
  }

  void write_stored(std::size_t i, onnx::Node node) {
    const Layer& layer = how_.layers[i];
    const HostTensor& bias = how_.weights[i].bias;
    const bool biased = node.inputs.size() > 2 && !node.inputs[2].empty();
    if (how_.form == BlockForm::kMatMulNBits && !layer.is_table()) {
      const std::string y = node.outputs[0], sums = biased ? fresh_(y + "_sums") : y;
      write_matmul_nbits(i, node.inputs[0], sums);
      if (biased) add("Add", {sums, constant(layer.bias + "_row", bias)}, y);
      return;
    }
    node.inputs[layer.weight_input()] = stored_floats(i);
    if (biased) node.inputs[2] = constant(layer.bias + "_corrected", bias);
    out_.graph.nodes.push_back(std::move(node));
  }

  // Weights that several layers read lie in the file once.
  const std::string& stored_floats(std::size_t i) {
    const Layer& layer = how_.layers[i];
    const LayerWeights& w = how_.weights[i];
    std::string& floats = stored_[{layer.weight, layer.input_axis()}];
    if (!floats.empty()) return floats;
    std::vector<std::string> inputs = {constant(layer.weight + "_quantized", stored(w.values)),
                                       constant(layer.weight + "_scale", w.scales)};
    if (!how_.blocks.symmetric)
      inputs.push_back(constant(layer.weight + "_zero_point", stored(w.zeros)));
    floats = add("DequantizeLinear", inputs, fresh_(layer.weight + "_dequantized"),
                 {{"axis", layer.input_axis(), ""}, {"block_size", how_.blocks.size, ""}}, domain_);
    return floats;
  }

  void write_matmul_nbits(std::size_t i, const std::string& x, const std::string& y) {
    const Layer& layer = how_.layers[i];
    const auto [found, is_new] = packed_.try_emplace({layer.weight, layer.input_axis()});
    if (is_new) {
      const PackedBlocks p = pack_blocks(layer, how_.weights[i], how_.blocks);
      found->second = {constant(layer.weight + "_packed", p.values),
                       constant(layer.weight + "_scale", p.scales)};
      if (p.zeros.size() > 0)
        found->second.push_back(constant(layer.weight + "_zero_point", p.zeros));
    }
    std::vector<std::string> inputs = found->second;
    inputs.insert(inputs.begin(), x);
    add("MatMulNBits", inputs, y,
        {{"K", layer.inputs(), ""},
         {"N", layer.outputs(), ""},
         {"bits", std::int64_t{how_.blocks.bits}, ""},
         {"block_size", how_.blocks.size, ""}},
        kMicrosoft);
  }

  // As 32-bit integers in the steps of the product's sums.
  std::string bias_floats(std::size_t i) {
    const Layer& layer = how_.layers[i];
    const LayerWeights& w = how_.weights[i];
    if (how_.scheme == Scheme::kF8) return constant(layer.bias + "_corrected", w.bias);
    const float x_scale = how_.scales.at(how_.values.at(layer.x).group).scale;
    HostTensor ints(DType::kI32, w.bias.shape()), scales(DType::kF32, w.bias.shape());
    for (std::int64_t o = 0; o < ints.size(); ++o) {
      const float step = x_scale * w.scales.as<float>()[o];
      scales.as<float>()[o] = step;
      ints.set_int(o, static_cast<std::int64_t>(std::nearbyint(w.bias.get_float(o) / step)));
    }
    const Shape shape = w.bias.shape();
    const std::string bytes = constant(layer.bias + "_quantized", std::move(ints));
    const std::string scale = constant(layer.bias + "_scale", std::move(scales));
    const std::string zero = constant(layer.bias + "_zero_point", HostTensor(DType::kI32, shape));
    return add("DequantizeLinear", {bytes, scale, zero}, fresh_(layer.bias + "_dequantized"),
               {{"axis", std::int64_t{0}, ""}}, domain_);
  }

  struct DynamicBytes {
    std::string bytes, scale, zero;
  };
  const DynamicBytes& dynamic_bytes(const std::string& x) {
    const auto [found, is_new] = dynamic_.try_emplace(x);
    if (is_new) {
      found->second = {fresh_(x + "_quantized"), fresh_(x + "_scale"), fresh_(x + "_zero_point")};
      add("DynamicQuantizeLinear", {x}, found->second.bytes);
      out_.graph.nodes.back().outputs = {found->second.bytes, found->second.scale,
                                         found->second.zero};
    }
    return found->second;
  }

  // Sums of integers, scaled afterwards.
  void write_dynamic(std::size_t i, const onnx::Node& node) {
    const Layer& layer = how_.layers[i];
    const LayerWeights& w = how_.weights[i];
    const std::string& y = node.outputs[0];
    const DynamicBytes x = dynamic_bytes(layer.x);
    Shape column = {layer.outputs()};
    std::string sums = fresh_(y + "_sums");
    if (layer.is_image()) {
      column.resize(layer.shape.size() - 1, 1);
      const std::string bytes = constant(layer.weight + "_quantized", without_sign(w.values));
      const std::string zero =
          constant(layer.weight + "_zero_point", scalar(DType::kU8, kMiddleByte));
      add("ConvInteger", {x.bytes, bytes, x.zero, zero}, sums, node.attributes);
    } else {
      const std::string bytes =
          constant(layer.weight + "_quantized", layer.turned ? transposed(w.values) : w.values);
      add("MatMulInteger", {x.bytes, bytes, x.zero}, sums);
    }
    const std::string wide = add("Cast", {sums}, fresh_(y + "_wide"), {{"to", kFloatNumber, ""}});
    const std::string w_scale = constant(layer.weight + "_scale", w.scales.reshaped(column));
    const std::string scale = add("Mul", {x.scale, w_scale}, fresh_(y + "_scale"));
    const bool biased = node.inputs.size() > 2 && !node.inputs[2].empty();
    const std::string scaled = add("Mul", {wide, scale}, biased ? fresh_(y + "_scaled") : y);
    if (biased) add("Add", {scaled, constant(layer.bias + "_column", w.bias.reshaped(column))}, y);
  }

  onnx::Model out_;
  const ModelIndex index_;
  const NarrowModel& how_;
  const std::vector<bool>* narrow_;
  FreshNames fresh_;
  std::string domain_;                                    // of QuantizeLinear and DequantizeLinear
  std::map<std::size_t, std::size_t> layer_at_, adding_;  // layers by node
  std::set<std::size_t> groups_;                          // that are rounded
  std::map<std::string, std::string> rounded_, for_all_;  // values by the name before
  std::map<std::string, DynamicBytes> dynamic_;
  using WeightAlong = std::pair<std::string, std::int64_t>;  // a weight and its summed axis
  std::map<WeightAlong, std::string> stored_;                // as floats
  std::map<WeightAlong, std::vector<std::string>> packed_;   // for MatMulNBits
};

}  // namespace

std::int64_t needed_opset(Scheme scheme) {
  // DequantizeLinear has an axis since 13, eight-bit floats since 19, blocks since 21.
  if (stores_weights(scheme)) return 21;
  return scheme == Scheme::kF8 ? 19 : 13;
}

onnx::Model write_narrow(const onnx::Model& model, const NarrowModel& how,
                         const std::vector<bool>& narrow) {
  return Writer(model, how, &narrow).run(model);
}

onnx::Model write_switched(const onnx::Model& model, const NarrowModel& how) {
  return Writer(model, how, nullptr).run(model);
}

std::string switch_name(std::size_t layer) { return fmt::format("tessera.layer.{}", layer); }
std::string group_switch_name(std::size_t group) { return fmt::format("tessera.group.{}", group); }

}  // namespace tessera::app

#include "peers/spec.h"

#include <charconv>
#include <initializer_list>
#include <map>
#include <string_view>

#include "peers/operation.h"

namespace tessera::peers {
namespace {

constexpr OpKind kKinds[] = {OpKind::kMatmul,   OpKind::kBmm,       OpKind::kDense,
                             OpKind::kConv2d,   OpKind::kDepthwise, OpKind::kSoftmax,
                             OpKind::kLayernorm};

// The key=value part of a spec; every reader names its key in the error.
class Fields {
 public:
  explicit Fields(std::string_view text) {
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      const std::string_view field = text.substr(0, comma);
      const std::size_t equals = field.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        throw Unsupported("expected key=value, got '" + std::string(field) + "'");
      }
      const std::string key(field.substr(0, equals));
      if (!values_.emplace(key, field.substr(equals + 1)).second) {
        throw Unsupported(key + " is given twice");
      }
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    }
  }

  std::int64_t size(const std::string& key) const {
    if (!values_.contains(key)) throw Unsupported(key + "= is missing");
    return number(key, 1);
  }
  std::int64_t size_or(const std::string& key, std::int64_t fallback, std::int64_t least) const {
    return values_.contains(key) ? number(key, least) : fallback;
  }
  std::string text_or(const std::string& key, const std::string& fallback) const {
    const auto found = values_.find(key);
    return found == values_.end() ? fallback : found->second;
  }

 private:
  std::int64_t number(const std::string& key, std::int64_t least) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 24;
    const std::string& text = values_.at(key);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least ||
        value > kMost) {
      throw Unsupported(key + "=" + text + " is not an integer in " + std::to_string(least) + ".." +
                        std::to_string(kMost));
    }
    return value;
  }

  std::map<std::string, std::string> values_;
};

OpKind parse_kind(const std::string& name) {
  for (const OpKind kind : kKinds) {
    if (name == to_text(kind)) return kind;
  }
  throw Unsupported("no operation '" + name + "'");
}

Layout parse_layout(const std::string& text) {
  if (text == "nhwc") return Layout::kNhwc;
  if (text == "nchw") return Layout::kNchw;
  throw Unsupported("layout=" + text + " is neither nhwc nor nchw");
}

ConvShape parse_conv(const Fields& fields, bool depthwise) {
  ConvShape conv{.n = fields.size("N"), .h = fields.size("H"), .w = fields.size("W")};
  conv.ci = fields.size(depthwise ? "C" : "CI");
  conv.co = depthwise ? conv.ci : fields.size("CO");
  conv.kh = fields.size("KH");
  conv.kw = fields.size("KW");
  conv.stride = fields.size_or("S", 1, 1);
  conv.pad = fields.size_or("P", 0, 0);
  conv.groups = depthwise ? conv.ci : fields.size_or("G", 1, 1);
  conv.dilation = fields.size_or("D", 1, 1);
  conv.layout = parse_layout(fields.text_or("layout", "nhwc"));
  if (conv.ci % conv.groups != 0 || conv.co % conv.groups != 0) {
    throw Unsupported("G does not divide the channels");
  }
  const std::int64_t spare_h = conv.h + 2 * conv.pad - (conv.kh - 1) * conv.dilation - 1;
  const std::int64_t spare_w = conv.w + 2 * conv.pad - (conv.kw - 1) * conv.dilation - 1;
  if (spare_h < 0 || spare_w < 0) throw Unsupported("the kernel exceeds the padded input");
  conv.oh = spare_h / conv.stride + 1;
  conv.ow = spare_w / conv.stride + 1;
  return conv;
}

// The product of a tensor's sizes; each is at most 2^24, so the product is checked before it
// overflows.
std::int64_t elements(std::initializer_list<std::int64_t> sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 34;
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    product *= size;
    if (product > kMost) throw Unsupported("a tensor has more than 2^34 elements");
  }
  return product;
}

void count_elements(Spec& spec) {
  const ConvShape& c = spec.conv;
  switch (spec.kind) {
    case OpKind::kMatmul:
    case OpKind::kBmm:
      spec.input_counts = {elements({spec.batch, spec.m, spec.k}),
                           elements({spec.batch, spec.k, spec.n})};
      spec.output_count = elements({spec.batch, spec.m, spec.n});
      break;
    case OpKind::kDense:
      spec.input_counts = {elements({spec.m, spec.k}), elements({spec.n, spec.k}), spec.n};
      spec.output_count = elements({spec.m, spec.n});
      break;
    case OpKind::kConv2d:
    case OpKind::kDepthwise:
      spec.input_counts = {elements({c.n, c.h, c.w, c.ci}),
                           elements({c.co, c.ci / c.groups, c.kh, c.kw})};
      spec.output_count = elements({c.n, c.oh, c.ow, c.co});
      break;
    case OpKind::kSoftmax:
      spec.input_counts = {elements({spec.rows, spec.columns})};
      spec.output_count = elements({spec.rows, spec.columns});
      break;
    case OpKind::kLayernorm:
      spec.input_counts = {elements({spec.rows, spec.columns}), spec.columns, spec.columns};
      spec.output_count = elements({spec.rows, spec.columns});
      break;
  }
}

Element parse_element(const std::string& text) {
  for (const Element e : {Element::kF32, Element::kF16, Element::kBF16}) {
    if (text == to_text(e)) return e;
  }
  throw Unsupported("dtype " + text + ": peers run f32, f16 and bf16");
}

}  // namespace

const char* to_text(OpKind kind) {
  switch (kind) {
    case OpKind::kMatmul:
      return "matmul";
    case OpKind::kBmm:
      return "bmm";
    case OpKind::kDense:
      return "dense";
    case OpKind::kConv2d:
      return "conv2d";
    case OpKind::kDepthwise:
      return "depthwise";
    case OpKind::kSoftmax:
      return "softmax";
    case OpKind::kLayernorm:
      return "layernorm";
  }
  return "";
}

const char* to_text(Element element) {
  return element == Element::kF32 ? "f32" : element == Element::kF16 ? "f16" : "bf16";
}

Spec parse_spec(const std::string& text) {
  const std::size_t colon = text.find(':');
  const Fields fields(colon == std::string::npos ? std::string_view()
                                                 : std::string_view(text).substr(colon + 1));
  Spec spec;
  spec.kind = parse_kind(text.substr(0, colon));
  spec.element = parse_element(fields.text_or("dtype", "f32"));
  switch (spec.kind) {
    case OpKind::kBmm:
      spec.batch = fields.size("B");
      [[fallthrough]];
    case OpKind::kMatmul:
    case OpKind::kDense:
      spec.m = fields.size("M");
      spec.n = fields.size("N");
      spec.k = fields.size("K");
      if (spec.kind == OpKind::kMatmul) {
        spec.transpose_a = fields.size_or("TA", 0, 0) != 0;
        spec.transpose_b = fields.size_or("TB", 0, 0) != 0;
      }
      break;
    case OpKind::kConv2d:
    case OpKind::kDepthwise:
      spec.conv = parse_conv(fields, spec.kind == OpKind::kDepthwise);
      break;
    case OpKind::kSoftmax:
    case OpKind::kLayernorm:
      spec.rows = fields.size("R");
      spec.columns = fields.size("C");
      break;
  }
  count_elements(spec);
  return spec;
}

}  // namespace tessera::peers

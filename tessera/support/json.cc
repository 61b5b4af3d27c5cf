#include "tessera/support/json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tessera/support/check.h"

namespace tessera {

// Between a value and the library's, which knows the text.
struct JsonText {
  static nlohmann::ordered_json of(const Json& json) {
    switch (json.kind_) {
      case Json::Kind::kNull:
        return nullptr;
      case Json::Kind::kBool:
        return json.bool_;
      case Json::Kind::kSigned:
        return json.signed_;
      case Json::Kind::kUnsigned:
        return json.unsigned_;
      case Json::Kind::kFloat:
        return json.float_;
      case Json::Kind::kString:
        return json.text_;
      case Json::Kind::kArray: {
        auto out = nlohmann::ordered_json::array();
        for (const Json& value : json) out.push_back(of(value));
        return out;
      }
      case Json::Kind::kObject: {
        auto out = nlohmann::ordered_json::object();
        for (const auto& [name, value] : json.items()) out[name] = of(value);
        return out;
      }
    }
    TESSERA_CHECK(false, "a kind of JSON that is not in the list");
  }
};

Json::Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(bool value) : kind_(Kind::kBool), bool_(value) {}
Json::Json(double value) : kind_(Kind::kFloat), float_(value) {}
Json::Json(const char* text) : Json(std::string(text)) {}
Json::Json(std::string text) : kind_(Kind::kString), text_(std::move(text)) {}
Json::Json(std::string_view text) : Json(std::string(text)) {}
Json::Json(Signed value) : kind_(Kind::kSigned), signed_(value.value) {}
Json::Json(Unsigned value) : kind_(Kind::kUnsigned), unsigned_(value.value) {}
Json::Json(Kind kind) : kind_(kind) {}

Json::Json(std::initializer_list<Json> items) : kind_(Kind::kArray) {
  const auto is_member = [](const Json& item) {
    return item.is_array() && item.size() == 2 && item.values_[0].is_string();
  };
  if (!std::all_of(items.begin(), items.end(), is_member)) {
    values_ = items;
    return;
  }
  kind_ = Kind::kObject;
  for (const Json& item : items) (*this)[item.values_[0].text_] = item.values_[1];
}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array() { return Json(Kind::kArray); }
Json Json::object() { return Json(Kind::kObject); }

const std::string& Json::text() const {
  TESSERA_CHECK(is_string(), "JSON that is not a string: {}", dump());
  return text_;
}

double Json::number() const {
  TESSERA_CHECK(is_number(), "JSON that is not a number: {}", dump());
  if (kind_ == Kind::kSigned) return static_cast<double>(signed_);
  return kind_ == Kind::kUnsigned ? static_cast<double>(unsigned_) : float_;
}

std::vector<std::pair<const std::string&, const Json&>> Json::items() const {
  std::vector<std::pair<const std::string&, const Json&>> out;
  for (std::size_t i = 0; i < names_.size(); ++i) out.emplace_back(names_[i], values_[i]);
  return out;
}

const Json* Json::find(std::string_view name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  return at == names_.end() ? nullptr : &values_[static_cast<std::size_t>(at - names_.begin())];
}

const Json& Json::at(std::string_view name) const {
  const Json* found = find(name);
  TESSERA_CHECK(found != nullptr, "JSON without a member {}: {}", name, dump());
  return *found;
}

Json& Json::push_back(Json value) {
  if (is_null()) kind_ = Kind::kArray;
  TESSERA_CHECK(is_array(), "appending to JSON that is not an array: {}", dump());
  return values_.emplace_back(std::move(value));
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) kind_ = Kind::kObject;
  TESSERA_CHECK(is_object(), "a member of JSON that is not an object: {}", dump());
  if (const Json* found = find(name)) return const_cast<Json&>(*found);  // ours, not const here
  names_.emplace_back(name);
  return values_.emplace_back();
}

void Json::update(const Json& other) {
  for (const auto& [name, value] : other.items()) (*this)[name] = value;
}

std::string Json::dump(int indent) const {
  return JsonText::of(*this).dump(indent, ' ', false,
                                  nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tessera

#include "tessera/app/report/summary.h"

#include <nlohmann/json.hpp>

namespace tessera::report {
namespace {

using Json = nlohmann::ordered_json;

// The same list of members for both directions: `f(name, member)`.
template <class K, class F>
void kernel_members(K& k, F f) {
  f("key", k.key), f("algorithm", k.algorithm), f("uses_before", k.uses_before);
  f("uses_after", k.uses_after), f("before_s", k.before_s), f("after_s", k.after_s);
  f("cold", k.cold), f("candidate", k.candidate), f("layers", k.layers);
}

template <class M, class F>
void model_members(M& m, F f) {
  f("name", m.name), f("before_s", m.before_s), f("after_s", m.after_s), f("trusted", m.trusted);
}

template <class P, class F>
void peer_members(P& p, F f) {
  f("model", p.model), f("name", p.name), f("ours_s", p.ours_s), f("theirs_s", p.theirs_s);
}

template <class S, class F>
void summary_members(S& s, F f) {
  f("stopped_by", s.stopped_by), f("disturbed", s.disturbed), f("busy", s.busy);
  f("unproved", s.unproved);
}

struct Writer {
  Json& json;
  template <class T>
  void operator()(const char* name, const T& member) const {
    json[name] = member;
  }
};

// Throws what nlohmann throws; absent members keep their defaults.
struct Reader {
  const Json& json;
  template <class T>
  void operator()(const char* name, T& member) const {
    if (json.contains(name)) json.at(name).get_to(member);
  }
};

Json array_of(const Json& json, const char* name) {
  return json.contains(name) ? json.at(name) : Json::array();
}

}  // namespace

std::string to_json(const Summary& summary) {
  Json json;
  summary_members(summary, Writer{json});
  json["models"] = Json::array();
  for (const WholeModel& m : summary.models) {
    model_members(m, Writer{json["models"].emplace_back(Json::object())});
  }
  json["kernels"] = Json::array();
  for (const KernelUse& k : summary.kernels) {
    kernel_members(k, Writer{json["kernels"].emplace_back(Json::object())});
  }
  json["peers"] = Json::array();
  for (const Peer& p : summary.peers) {
    peer_members(p, Writer{json["peers"].emplace_back(Json::object())});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Summary> summary_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (!json.is_object()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "the summary of a session is not a JSON object");
    }
    Summary out;
    summary_members(out, Reader{json});
    for (const Json& m : array_of(json, "models")) {
      model_members(out.models.emplace_back(), Reader{m});
    }
    for (const Json& k : array_of(json, "kernels")) {
      kernel_members(out.kernels.emplace_back(), Reader{k});
    }
    for (const Json& p : array_of(json, "peers")) {
      peer_members(out.peers.emplace_back(), Reader{p});
    }
    return out;
  } catch (const Json::exception& e) {
    return make_error(ErrorCode::kInvalidArgument, "the summary of a session: {}", e.what());
  }
}

}  // namespace tessera::report

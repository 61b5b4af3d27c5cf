#include "tessera/support/json.h"

#include <gtest/gtest.h>

#include "tessera/support/check.h"

namespace tessera {
namespace {

TEST(Json, ListsOfNamedPairsAreObjectsAndOtherListsAreArrays) {
  const Json object = {{"name", "conv"}, {"shape", {1, 3}}, {"none", nullptr}, {"ok", true}};
  EXPECT_EQ(object.dump(), R"({"name":"conv","shape":[1,3],"none":null,"ok":true})");
  EXPECT_EQ(Json({"a", "b", "c"}).dump(), R"(["a","b","c"])");
  EXPECT_EQ(Json({{"a", 1, 2}, {"b"}}).dump(), R"([["a",1,2],["b"]])");
}

TEST(Json, NumbersKeepTheirKind) {
  const Json numbers = {-1, std::size_t{18446744073709551615u}, 2.0, 0.1, 1e-9f > 0};
  EXPECT_EQ(numbers.dump(), "[-1,18446744073709551615,2.0,0.1,true]");
  EXPECT_FALSE(Json(3).is_number_float());
  EXPECT_EQ(Json(3).number(), 3);
  EXPECT_EQ(Json(3u).number(), 3);
  EXPECT_TRUE(Json(3.0).is_number_float());
}

TEST(Json, TakesContainers) {
  EXPECT_EQ(Json(std::vector<double>{1, 2.5}).dump(), "[1.0,2.5]");
  EXPECT_EQ(Json(std::set<std::string>{"b", "a"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json(std::map<std::string, int>{{"b", 1}, {"a", 2}}).dump(), R"({"a":2,"b":1})");
}

TEST(Json, MembersKeepTheirOrderAndAreReplacedInPlace) {
  Json json;
  json["z"] = 1;
  json["a"].push_back("x");
  json.update({{"z", 2}, {"b", Json::object()}, {"c", Json::array()}});
  EXPECT_EQ(json.dump(), R"({"z":2,"a":["x"],"b":{},"c":[]})");
  EXPECT_EQ(json.at("a").begin()->text(), "x");
  EXPECT_EQ(json.items().back().first, "c");
  EXPECT_EQ(json.dump(1).substr(0, 10), "{\n \"z\": 2,");
}

TEST(Json, BytesThatAreNotTextAreReplaced) { EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\""); }

TEST(Json, AnotherKindThanAskedForIsABug) {
  EXPECT_THROW(Json(1).text(), InternalError);
  EXPECT_THROW(Json("x").number(), InternalError);
  EXPECT_THROW(Json(1).push_back(2), InternalError);
  EXPECT_THROW(Json(1)["x"], InternalError);
  EXPECT_THROW(Json::object().at("x"), InternalError);
}

}  // namespace
}  // namespace tessera

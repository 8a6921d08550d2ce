// Reads the JSON that routers and workers answer with; what is missing or of another type reads as
// empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

namespace baton::cli {

std::string_view text_at(const boost::json::object& object, std::string_view key);
std::int64_t integer_at(const boost::json::object& object, std::string_view key);
double number_at(const boost::json::object& object, std::string_view key);
bool flag_at(const boost::json::object& object, std::string_view key);
/// An empty object when there is none.
const boost::json::object& object_at(const boost::json::object& object, std::string_view key);
/// The objects of a list.
std::vector<boost::json::object> objects_at(const boost::json::object& object,
                                            std::string_view key);

/// A worker's data link to a peer, of its admin listener's /status.
struct Pair {
  std::string node;
  std::string transport;
  std::string why;
};
std::vector<Pair> pairs_of(const boost::json::object& worker_status);

}  // namespace baton::cli

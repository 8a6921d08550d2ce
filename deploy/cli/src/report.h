// What `baton up` tells: the banner, and where an answer's time went. Pure text.
#pragma once

#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "prompt.h"

namespace baton::cli {

/// A data link: which node sends to which, over what and why.
struct Link {
  std::string from;
  std::string to;
  std::string transport;
  std::string why;
};

struct ClusterFacts {
  std::string command;  ///< how to call `baton`, for lines to paste
  std::string api_url;
  std::string admin_url;                     ///< the router's
  std::vector<boost::json::object> workers;  ///< entries of the router's /workers
  std::vector<Link> links;
  std::string processors;  ///< which node runs on which
};

std::string banner(const ClusterFacts& cluster);

/// Of an answer that came through a cluster: the parts of its time, and what crossed.
std::string time_report(const Answer& answer);

/// "368.6 kB" style: powers of 1000.
std::string bytes_text(std::int64_t bytes);

}  // namespace baton::cli

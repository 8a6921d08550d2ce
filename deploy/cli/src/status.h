// `baton status`: a router and the workers that it sees.
#pragma once

#include <string>

#include <boost/json/array.hpp>

#include "options.h"

namespace baton::cli {

/// A table of the router's /workers list: one line a worker under a line of titles.
std::string worker_table(const boost::json::array& workers);

/// Returns the exit code: 0 also when the router is not ready, since it was there to say so.
int status(const StatusOptions& options);

}  // namespace baton::cli

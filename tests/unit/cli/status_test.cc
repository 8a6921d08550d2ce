#include "status.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(WorkerTable, HasOneLineAWorkerAndSaysWhoIsLost) {
  const boost::json::value workers = boost::json::parse(R"([
    {"node": "d", "role": "decode", "up": true, "draining": false, "running": 2, "queued": 0,
     "memory_bytes": 123456789, "free_tokens": 100, "cache_tokens": 128,
     "fingerprint": "0123456789abcdef0123",
     "admin": "http://127.0.0.1:3"},
    {"node": "prefill-2", "role": "prefill", "up": false, "cache_tokens": 64}])");
  EXPECT_EQ(
      worker_table(workers.as_array()),
      "ROLE     NODE       STATE  RUNNING  QUEUED  CACHE TOKENS     PSS       FINGERPRINT       "
      "ADMIN\n"
      "decode   d          up     2        0       100 of 128 free  123.5 MB  0123456789abcdef  "
      "http://127.0.0.1:3\n"
      "prefill  prefill-2  lost   0        0       0 of 64 free     -\n");
}

}  // namespace
}  // namespace baton::cli

#include "baton/net/io/bind.h"

#include <gtest/gtest.h>

namespace baton::net {
namespace {

TEST(Bind, KnowsLoopbackInAllItsForms) {
  for (const char* host : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "localhost"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "::ffff:10.0.0.1",
                           "localhost.example.org", "127.0.0.1.example.org", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(Bind, R28OutsideLoopbackNeedsTrustedNetworkByName) {
  EXPECT_TRUE(check_bind("router.listen", {"127.0.0.1", 0}, false).has_value());
  EXPECT_TRUE(check_bind("router.listen", {"0.0.0.0", 80}, true).has_value());
  const auto refused = check_bind("router.listen", {"0.0.0.0", 80}, false);
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().reason(), Reason::bad_config);
  EXPECT_NE(refused.error().message().find("router.listen"), std::string::npos);
  EXPECT_NE(refused.error().message().find("trusted_network"), std::string::npos);
}

TEST(Bind, ANameIsNoAddressToListenOnEvenWhenTrusted) {
  EXPECT_TRUE(check_bind("router.listen", {"example.org", 80}, true).has_error());
  EXPECT_TRUE(check_bind("router.listen", {"", 80}, true).has_error());
}

}  // namespace
}  // namespace baton::net

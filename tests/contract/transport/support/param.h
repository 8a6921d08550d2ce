// The suite's parameter: the name of a transport.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace baton::transport::test {

class EveryTransport : public testing::TestWithParam<std::string> {};

inline std::string transport_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace baton::transport::test

#define BATON_EVERY_TRANSPORT(suite)                                              \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::Values("loopback", "shm", "ucx"), \
                           ::baton::transport::test::transport_name)

#include "baton/net/frame.h"

#include <vector>

#include <gtest/gtest.h>

namespace baton::net {
namespace {

std::vector<std::string> all_frames(FrameDecoder& decoder) {
  std::vector<std::string> out;
  for (;;) {
    auto frame = decoder.next();
    if (frame.has_error() || !*frame) return out;
    out.emplace_back(**frame);
  }
}

TEST(Frame, IsALengthInNetworkOrderAndThePayload) {
  EXPECT_EQ(encode_frame("abc"), std::string("\0\0\0\3abc", 7));
  EXPECT_EQ(encode_frame(std::string(0x010203, 'x')).substr(0, 4), std::string("\0\1\2\3", 4));
}

TEST(Frame, AnySplitOfTheBytesGivesTheSameFrames) {
  const std::vector<std::string> sent = {"a", "", std::string(300, 'b'), "tail"};
  std::string bytes;
  for (const auto& payload : sent) append_frame(bytes, payload);
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    FrameDecoder decoder;
    std::vector<std::string> got;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      decoder.push(std::string_view(bytes).substr(at, step));
      for (auto& frame : all_frames(decoder)) got.push_back(std::move(frame));
    }
    ASSERT_EQ(got, sent) << "in steps of " << step;
    EXPECT_EQ(decoder.pending_bytes(), 0u);
  }
}

TEST(Frame, TheLargestPayloadPassesAndOneByteMoreIsRefusedFromItsHeaderAlone) {
  FrameDecoder decoder;
  decoder.push(encode_frame(std::string(max_frame_bytes, 'x')));
  EXPECT_EQ(all_frames(decoder).at(0).size(), max_frame_bytes);
  decoder.push(std::string("\x00\x10\x00\x01", 4));
  EXPECT_EQ(decoder.next().error().reason(), Reason::protocol_violation);
}

TEST(Frame, FramesBeforeABadOneAreHandedOutAndTheDecoderStaysFailed) {
  FrameDecoder decoder(8);
  decoder.push(encode_frame("good") + encode_frame("much too long") + encode_frame("late"));
  EXPECT_EQ(decoder.next().value(), "good");
  EXPECT_TRUE(decoder.next().has_error());
  decoder.push(encode_frame("more"));
  EXPECT_TRUE(decoder.next().has_error());
}

// SEC-15: a stray HTTP client on a control port is recognised by its first four bytes.
TEST(Frame, AnHttpRequestIsABadFrame) {
  FrameDecoder decoder;
  decoder.push("GET ");
  EXPECT_TRUE(decoder.next().has_error());
}

// R7: no memory is taken for an announced length.
TEST(Frame, R7AnAnnouncedLengthAllocatesNothing) {
  FrameDecoder decoder;
  decoder.push(std::string("\x00\x10\x00\x00", 4) + "x");
  EXPECT_FALSE(decoder.next().value().has_value());
  EXPECT_EQ(decoder.pending_bytes(), 5u);
}

TEST(FrameDeathTest, SendingATooLongPayloadIsABug) {
  EXPECT_DEATH(encode_frame(std::string(max_frame_bytes + 1, 'x')), "internal error");
}

}  // namespace
}  // namespace baton::net

#include "baton/net/sse.h"

#include <gtest/gtest.h>

namespace baton::net {
namespace {

std::string written(const SseEvent& event) {
  std::string out;
  append_sse(out, event);
  return out;
}

TEST(Sse, FieldsStandOnLinesOfTheirOwnAndABlankLineEndsTheEvent) {
  EXPECT_EQ(written({"{}", "7.0.3", "error"}), "event: error\nid: 7.0.3\ndata: {}\n\n");
  EXPECT_EQ(written({"[DONE]", "", ""}), "data: [DONE]\n\n");
  EXPECT_EQ(written({"", "", ""}), "data: \n\n");
}

TEST(Sse, EveryKindOfLineBreakInDataStartsANewDataLine) {
  EXPECT_EQ(written({"a\nb\rc\r\nd\n", "", ""}), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

TEST(Sse, NoValueCanStartAFieldOfItsOwn) {
  const std::string text = written({"x\n\ndata: forged\nid: 9", "1\nid: 2", "e\r\ndata: y"});
  SseReader reader;
  const auto events = reader.push(text).value();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].id, "1id: 2");
  EXPECT_EQ(events[0].event, "edata: y");
  EXPECT_EQ(events[0].data, "x\n\ndata: forged\nid: 9");
}

TEST(Sse, AnySplitOfTheBytesGivesTheSameEvents) {
  const std::string bytes =
      ": comment\r\nid: 1\r\ndata:a\r\ndata: b\r\n\r\nevent: error\rdata: c\r\rdata: d\n\nid\n\n"
      "unknown: z\ndata\n\n";
  const std::vector<SseEvent> expected = {
      {"a\nb", "1", ""}, {"c", "1", "error"}, {"d", "1", ""}, {"", "", ""}};
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    SseReader reader;
    std::vector<SseEvent> got;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      for (auto& event : reader.push(std::string_view(bytes).substr(at, step)).value()) {
        got.push_back(std::move(event));
      }
    }
    ASSERT_EQ(got, expected) << "in steps of " << step;
  }
}

TEST(Sse, AnEventAboveTheLimitIsRefused) {
  SseReader reader(100);
  EXPECT_TRUE(reader.push("data: " + std::string(60, 'x') + "\n").has_value());
  EXPECT_TRUE(reader.push("data: " + std::string(60, 'x') + "\n").has_error());
}

TEST(Sse, AKeepAliveIsNoEvent) {
  std::string out;
  append_sse_keep_alive(out);
  SseReader reader;
  EXPECT_TRUE(reader.push(out).value().empty());
}

}  // namespace
}  // namespace baton::net

#include "baton/weights/content_digest.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <openssl/sha.h>

namespace baton::weights {
namespace {

namespace fs = std::filesystem;
using modelfile::OpenFile;

class ContentDigest : public testing::Test {
 protected:
  ContentDigest() {
    std::string pattern = (fs::temp_directory_path() / "baton-digest-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    file_ = directory_ / "model";
    cache_ = directory_ / "cache";
    write(std::string(3'000'000, 'a'));
  }
  ~ContentDigest() override { fs::remove_all(directory_); }

  /// Writes the file and sets its time stamp, so that it looks settled.
  void write(const std::string& text, int age_seconds = 3600) {
    text_ = text;
    std::ofstream(file_, std::ios::binary) << text;
    fs::last_write_time(file_, written_at_ - std::chrono::seconds(age_seconds));
  }

  Digest256 expected() const {
    Digest256 digest;
    ::SHA256(reinterpret_cast<const unsigned char*>(text_.data()), text_.size(),
             digest.bytes.data());
    return digest;
  }

  Result<Digest256> digest(const fs::path& cache) const {
    return content_digest(OpenFile::open(file_).value(), cache);
  }

  fs::path entry() const {
    for (const auto& found : fs::directory_iterator(cache_ / "digests")) return found.path();
    return {};
  }

  fs::path directory_;
  fs::path file_;
  fs::path cache_;
  std::string text_;
  const fs::file_time_type written_at_ = fs::file_time_type::clock::now();
};

TEST_F(ContentDigest, is_the_sha256_of_the_whole_file) {
  EXPECT_EQ(digest({}).value(), expected());
  EXPECT_EQ(digest(cache_).value(), expected());
  EXPECT_EQ(digest(cache_).value(), expected());
}

TEST_F(ContentDigest, is_taken_from_the_cache_while_size_and_time_are_the_same) {
  const Digest256 first = digest(cache_).value();
  // Same size, same time stamp: nobody can tell without reading it.
  write(std::string(3'000'000, 'b'));
  EXPECT_EQ(digest(cache_).value(), first);
  EXPECT_EQ(digest({}).value(), expected());
}

TEST_F(ContentDigest, is_made_again_when_size_or_time_changed) {
  digest(cache_).value();
  write(std::string(3'000'001, 'a'));
  EXPECT_EQ(digest(cache_).value(), expected());
  write(std::string(3'000'001, 'b'), 3599);
  EXPECT_EQ(digest(cache_).value(), expected());
}

TEST_F(ContentDigest, is_made_again_when_any_byte_of_the_entry_is_damaged) {
  digest(cache_).value();
  std::ifstream stream(entry(), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  ASSERT_GT(text.size(), 128u);
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::string damaged = text;
    damaged[i] = damaged[i] == '0' ? '1' : '0';
    std::ofstream(entry(), std::ios::binary) << damaged;
    EXPECT_EQ(digest(cache_).value(), expected()) << i;
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, text.size() / 2}) {
    std::ofstream(entry(), std::ios::binary) << text.substr(0, length);
    EXPECT_EQ(digest(cache_).value(), expected()) << length;
  }
  std::ofstream(entry(), std::ios::binary) << text << std::string(100'000, ' ');
  EXPECT_EQ(digest(cache_).value(), expected());
}

TEST_F(ContentDigest, does_without_a_cache_that_cannot_be_written) {
  std::ofstream(cache_) << "a file where the directory should be";
  EXPECT_EQ(digest(cache_).value(), expected());
}

TEST_F(ContentDigest, is_not_kept_for_a_file_that_may_still_change) {
  write("new", 0);
  EXPECT_EQ(digest(cache_).value(), expected());
  EXPECT_FALSE(fs::exists(cache_ / "digests"));
}

TEST_F(ContentDigest, is_that_of_the_opened_file_when_another_takes_its_name) {
  const OpenFile open = OpenFile::open(file_).value();
  const Digest256 opened = expected();
  const fs::path other = directory_ / "other";
  std::ofstream(other, std::ios::binary) << std::string(3'000'000, 'b');
  fs::rename(other, file_);
  EXPECT_EQ(content_digest(open, cache_).value(), opened);
  EXPECT_EQ(content_digest(open, cache_).value(), opened);
  EXPECT_NE(digest(cache_).value(), opened);
}

TEST_F(ContentDigest, of_a_file_that_changed_after_it_was_opened_is_an_io_error_that_names_it) {
  const OpenFile open = OpenFile::open(file_).value();
  write(std::string(3'000'000, 'b'), 3599);
  const auto digest = content_digest(open, cache_);
  ASSERT_TRUE(digest.has_error());
  EXPECT_EQ(digest.error().reason(), Reason::io_error);
  EXPECT_THAT(digest.error().message(), testing::HasSubstr(file_.string()));
  EXPECT_FALSE(fs::exists(cache_ / "digests"));
}

}  // namespace
}  // namespace baton::weights

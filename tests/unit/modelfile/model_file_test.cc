#include "baton/modelfile/model_file.h"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/gguf/gguf_writer.h"

namespace baton::modelfile {
namespace {

using test::GgufWriter;
using test::raw_bytes;
using testing::ElementsAre;
using testing::HasSubstr;

ModelFile parsed(const GgufWriter& writer) { return ModelFile::parse(writer.bytes()).value(); }

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / (std::to_string(::getpid()) + "_" + name);
}

TEST(ModelFile, ReadsScalarsOfEveryType) {
  const ModelFile file = parsed(GgufWriter()
                                    .add_raw("a.u8", 0, raw_bytes<std::uint8_t>({200}))
                                    .add_raw("a.i8", 1, raw_bytes<std::int8_t>({-3}))
                                    .add_raw("a.u16", 2, raw_bytes<std::uint16_t>({60'000}))
                                    .add_raw("a.i16", 3, raw_bytes<std::int16_t>({1'234}))
                                    .add_u32("a.u32", 4'000'000'000U)
                                    .add_i32("a.i32", 7)
                                    .add_f32("a.f32", 1.5F)
                                    .add_bool("a.bool", true)
                                    .add_string("a.string", "text\n")
                                    .add_u64("a.u64", std::numeric_limits<std::uint64_t>::max())
                                    .add_raw("a.i64", 11, raw_bytes<std::int64_t>({1LL << 40}))
                                    .add_raw("a.f64", 12, raw_bytes<double>({0.25})));
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(metadata.u32("a.u8").value(), 200U);
  EXPECT_EQ(metadata.u32("a.u16").value(), 60'000U);
  EXPECT_EQ(metadata.u32("a.i16").value(), 1'234U);
  EXPECT_EQ(metadata.u32("a.u32").value(), 4'000'000'000U);
  EXPECT_EQ(metadata.u32("a.i32").value(), 7U);
  EXPECT_EQ(metadata.f32("a.f32").value(), 1.5F);
  EXPECT_TRUE(metadata.boolean("a.bool").value());
  EXPECT_EQ(metadata.string("a.string").value(), "text\n");
  EXPECT_EQ(metadata.u64("a.u64").value(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(metadata.u64("a.i64").value(), 1ULL << 40);
  EXPECT_EQ(metadata.f32("a.f64").value(), 0.25F);
  EXPECT_EQ(metadata.entries().size(), 12U);
  EXPECT_EQ(metadata.entries().front().key, "a.bool");
}

TEST(ModelFile, ReadsArraysWithoutCopyingThem) {
  const ModelFile file = parsed(GgufWriter()
                                    .add_strings("t.tokens", {"<s>", "", "b\xff"})
                                    .add_strings("t.none", {})
                                    .add_i32s("t.types", {3, -1, 2})
                                    .add_f32s("t.scores", {0.5F, -1.0F})
                                    .add_bools("t.pattern", {true, false}));
  const Metadata& metadata = file.metadata();
  const StringArray tokens = metadata.strings("t.tokens").value();
  EXPECT_EQ(tokens.size(), 3U);
  EXPECT_THAT(std::vector<std::string_view>(tokens.begin(), tokens.end()),
              ElementsAre("<s>", "", "b\xff"));
  EXPECT_TRUE(metadata.strings("t.none").value().empty());
  const IntArray types = metadata.ints("t.types").value();
  ASSERT_EQ(types.size(), 3U);
  EXPECT_EQ(types[1], -1);
  EXPECT_EQ(metadata.floats("t.scores").value()[1], -1.0F);
  EXPECT_EQ(metadata.ints("t.pattern").value()[0], 1);
}

TEST(ModelFile, SaysWhichFieldIsMissingOrOfAnotherType) {
  const ModelFile file = parsed(GgufWriter()
                                    .add_string("x.name", "n")
                                    .add_i32("x.negative", -1)
                                    .add_u64("x.large", 1ULL << 32)
                                    .add_i32s("x.ints", {1}));
  const Metadata& metadata = file.metadata();
  const auto message = [](const auto& result) { return result.error().message(); };
  EXPECT_EQ(message(metadata.u32("x.count")), "metadata field 'x.count' is missing");
  EXPECT_EQ(metadata.u32("x.count").error().reason(), Reason::bad_model_file);
  EXPECT_EQ(message(metadata.u32("x.name")),
            "metadata field 'x.name' has type string, expected an integer");
  EXPECT_EQ(message(metadata.strings("x.ints")),
            "metadata field 'x.ints' has type array of i32, expected an array of strings");
  EXPECT_EQ(message(metadata.u32("x.negative")), "metadata field 'x.negative' is out of range: -1");
  EXPECT_EQ(message(metadata.u32("x.large")),
            "metadata field 'x.large' is out of range: 4294967296");
  EXPECT_FALSE(metadata.find_u32("x.count").value().has_value());
  EXPECT_TRUE(metadata.find_boolean("x.name").has_error());
  EXPECT_TRUE(metadata.find_f32("x.negative").has_error());
}

TEST(ModelFile, FindsTensorsAndTheirBytes) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<std::byte> blocks(2 * 20, std::byte{7});
  const ModelFile file = parsed(GgufWriter()
                                    .alignment(64)
                                    .add_f32_tensor("b.weight", {3, 2}, values)
                                    .add_tensor("a.weight", GgmlType::q4_1, {32, 2}, blocks));
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "b.weight");
  const TensorInfo* matrix = file.tensor("b.weight").value();
  EXPECT_EQ(matrix->n_dims, 2U);
  EXPECT_EQ(matrix->elements(), 6U);
  EXPECT_EQ(matrix->row_bytes(), 12U);
  ASSERT_EQ(file.tensor_bytes(*matrix).size(), 24U);
  std::vector<float> stored(6);
  std::memcpy(stored.data(), file.tensor_bytes(*matrix).data(), 24);
  EXPECT_EQ(stored, values);
  const TensorInfo* quantised = file.find_tensor("a.weight");
  ASSERT_NE(quantised, nullptr);
  EXPECT_EQ(quantised->offset_bytes % 64, 0U);
  EXPECT_EQ(quantised->row_bytes(), 20U);
  EXPECT_EQ(file.tensor_bytes(*quantised).size(), 40U);
  EXPECT_EQ(file.tensor_bytes(*quantised)[39], std::byte{7});
  EXPECT_EQ(file.find_tensor("c.weight"), nullptr);
  EXPECT_EQ(file.tensor("c.weight").error().message(), "tensor 'c.weight' is missing");
}

TEST(ModelFile, ReadsVersionTwoToo) {
  EXPECT_EQ(parsed(GgufWriter().version(2).add_u32("a", 1)).version(), 2U);
}

TEST(ModelFile, ViewsSurviveAMove) {
  ModelFile first = parsed(GgufWriter().add_string("name", "kept"));
  const std::string_view name = first.metadata().string("name").value();
  const ModelFile second = std::move(first);
  EXPECT_EQ(second.metadata().string("name").value().data(), name.data());
  EXPECT_EQ(name, "kept");
}

TEST(ModelFile, MapsAFileAndPutsItsPathBeforeErrors) {
  const auto path = temporary_file("mapped.gguf");
  GgufWriter().add_u32("a", 5).add_f32_tensor("t", {1}, std::vector<float>{2.5F}).write(path);
  EXPECT_EQ(ModelFile::open(path).value().metadata().u32("a").value(), 5U);
  std::filesystem::resize_file(path, 30);
  const Error error = ModelFile::open(path).error();
  EXPECT_EQ(error.reason(), Reason::bad_model_file);
  EXPECT_THAT(error.message(), testing::StartsWith(path.string() + ": "));
  std::filesystem::remove(path);
  EXPECT_EQ(ModelFile::open(path).error().reason(), Reason::io_error);
}

TEST(ModelFile, KnowsWhetherItsFileWasWrittenToAndNotWhetherItsNameWasTaken) {
  const auto path = temporary_file("changing.gguf");
  const auto renamed = temporary_file("renamed.gguf");
  GgufWriter().add_u32("a", 5).write(path);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const ModelFile file = ModelFile::open(path).value();
  std::filesystem::rename(path, renamed);
  GgufWriter().add_u32("a", 6).write(path);
  EXPECT_TRUE(file.check_unchanged().has_value());
  std::fstream(renamed, std::ios::in | std::ios::out | std::ios::binary).put('G');
  const auto changed = file.check_unchanged();
  ASSERT_TRUE(changed.has_error());
  EXPECT_EQ(changed.error().reason(), Reason::io_error);
  EXPECT_THAT(changed.error().message(), testing::StartsWith(path.string() + ": "));
  std::filesystem::remove(path);
  std::filesystem::remove(renamed);
}

TEST(ModelFile, RefusesWhatIsNoRegularFileWithoutWaiting) {
  EXPECT_THAT(ModelFile::open(testing::TempDir()).error().message(), HasSubstr("regular file"));
  const auto pipe = temporary_file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ModelFile::open(pipe).error().message(), HasSubstr("regular file"));
  std::filesystem::remove(pipe);
  const auto empty = temporary_file("empty");
  std::ofstream(empty).close();
  EXPECT_THAT(ModelFile::open(empty).error().message(), HasSubstr("is empty"));
  std::filesystem::remove(empty);
}

TEST(ModelFile, R14LoadingTakesLessMemoryThanTheFile) {
  const auto path = temporary_file("large.gguf");
  const std::vector<std::string> tokens(400'000, "ab");
  GgufWriter writer;
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  for (int i = 0; i < 500; ++i) {
    writer.add_f32_tensor("blk." + std::to_string(i), {32}, std::vector<float>(32));
  }
  writer.write(path);
  const auto file_bytes = std::filesystem::file_size(path);
  const auto heap_bytes = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  const std::size_t before = heap_bytes();
  const ModelFile file = ModelFile::open(path).value();
  const StringArray view = file.metadata().strings("tokenizer.ggml.tokens").value();
  EXPECT_EQ(std::distance(view.begin(), view.end()), 400'000);
  // The mapped pages are once the file; the tables beside them must stay far below a second time.
  EXPECT_LT(heap_bytes() - before, file_bytes / 10);
  std::filesystem::remove(path);
}

// Kills the process on any system call that starts a program, makes a process or opens a
// connection.
bool forbid_execution_and_network() {
  std::vector<sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const unsigned call : {SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_clone, SYS_clone3,
                              SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_sendto}) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ModelFile, R27LoadingExecutesNothingAndOpensNoConnection) {
  const auto path = temporary_file("sandboxed.gguf");
  GgufWriter().add_string("tokenizer.chat_template", "{{ x }}").write(path);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!forbid_execution_and_network()) ::_exit(77);
    ::_exit(ModelFile::open(path).has_value() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  std::filesystem::remove(path);
  ASSERT_TRUE(WIFEXITED(status)) << "killed: a forbidden system call";
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "seccomp filters are not available here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace baton::modelfile

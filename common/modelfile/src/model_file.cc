#include "baton/modelfile/model_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "baton/base/check.h"

#include "gguf_parser.h"
#include "mapping.h"

namespace baton::modelfile {
namespace {

Error with_path(const std::filesystem::path& path, const Error& error) {
  return {error.reason(), path.string() + ": " + error.message()};
}

}  // namespace

ModelFile::ModelFile(std::unique_ptr<FileBytes> bytes) : bytes_(std::move(bytes)) {}
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;
ModelFile::~ModelFile() = default;

Result<ModelFile> ModelFile::from(std::unique_ptr<FileBytes> bytes) {
  ModelFile file(std::move(bytes));
  BATON_ASSIGN(ParsedGguf parsed, parse_gguf(file.bytes_->view()));
  file.version_ = parsed.version;
  file.alignment_bytes_ = parsed.alignment_bytes;
  file.metadata_ = Metadata(std::move(parsed.fields));
  file.tensors_ = std::move(parsed.tensors);
  file.by_name_ = std::move(parsed.by_name);
  return file;
}

Result<ModelFile> ModelFile::open(const std::filesystem::path& path) {
  Result<std::unique_ptr<FileBytes>> bytes = FileBytes::map(path);
  if (bytes.has_error()) return with_path(path, bytes.error());
  Result<ModelFile> file = from(std::move(*bytes));
  if (file.has_error()) return with_path(path, file.error());
  return file;
}

Result<ModelFile> ModelFile::parse(std::vector<std::byte> bytes) {
  return from(std::make_unique<FileBytes>(std::move(bytes)));
}

const TensorInfo* ModelFile::find_tensor(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::uint32_t index, std::string_view wanted) { return tensors_[index].name < wanted; });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

Result<const TensorInfo*> ModelFile::tensor(std::string_view name) const {
  const TensorInfo* found = find_tensor(name);
  if (found == nullptr) {
    return Error(Reason::bad_model_file, "tensor '" + printable(name) + "' is missing");
  }
  return found;
}

std::span<const std::byte> ModelFile::tensor_bytes(const TensorInfo& tensor) const {
  const std::span<const std::byte> all = bytes_->view();
  BATON_CHECK(tensor.offset_bytes <= all.size());
  BATON_CHECK(tensor.size_bytes <= all.size() - tensor.offset_bytes);
  return all.subspan(tensor.offset_bytes, tensor.size_bytes);
}

void ModelFile::drop_pages(const TensorInfo& tensor) const {
  bytes_->drop_pages(tensor_bytes(tensor));
}

const OpenFile* ModelFile::file() const { return bytes_->file(); }

Result<void> ModelFile::check_unchanged() const {
  if (file() == nullptr) return ok();
  const Result<void> checked = file()->check_unchanged();
  if (checked.has_error()) return with_path(file()->path(), checked.error());
  return ok();
}

std::uint64_t ModelFile::size_bytes() const { return bytes_->view().size(); }

}  // namespace baton::modelfile

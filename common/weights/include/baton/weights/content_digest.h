// The digest of a model file's content, for the fingerprint: two workers pair only when their
// weights are the same bytes.
#pragma once

#include <filesystem>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/modelfile/open_file.h"

namespace baton::weights {

/// Where Baton keeps what can be made again: $BATON_CACHE, else $XDG_CACHE_HOME/baton, else
/// ~/.cache/baton. Empty when none of these is set.
std::filesystem::path cache_directory();

/// SHA-256 of the whole file, read in pieces of 1 MiB. The digest is kept in
/// `cache`/digests under the file's device and inode with its size and modification time, and
/// taken from there while these are the same. An entry that is missing, damaged or cannot be
/// written costs a recomputation and is never an error. An empty `cache` turns this off.
/// Errors: io_error when the file cannot be read or has changed since it was opened. A kept digest
/// is that of the file as it was opened: whoever uses both asks check_unchanged() at the end.
Result<Digest256> content_digest(const modelfile::OpenFile& file,
                                 const std::filesystem::path& cache);

}  // namespace baton::weights

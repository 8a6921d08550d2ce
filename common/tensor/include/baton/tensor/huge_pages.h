// Memory in pages of 2 MiB instead of 4 KiB, where the system gives them: a step streams through
// all weights and the cache, and finds its way through 512 times fewer pages.
//
// A wish throughout: what the system refuses stays in small pages, and nothing fails for it.
#pragma once

#include <cstddef>
#include <span>

namespace baton::tensor {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Says that this mapping is worth huge pages. They come with the first write (or, for a file, with
/// its first use); memory that is already there stays as it is.
void want_huge_pages(std::span<const std::byte> memory);

/// Maps `bytes` of the file as mmap() does from its beginning, at an address that huge pages can
/// stand at when it is long enough; nullptr as errno says.
std::byte* map_file(int descriptor, std::size_t bytes, int protection);

}  // namespace baton::tensor

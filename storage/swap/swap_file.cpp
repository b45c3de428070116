#include "storage/swap/swap_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/math.hpp"
#include "storage/memory/huge_memory.hpp"

namespace troupe::storage {

namespace {

constexpr uint64_t page = swap_page_bytes;

uint64_t down(uint64_t offset) { return offset / page * page; }

bool whole_pages(uint64_t offset, std::span<const std::byte> memory) {
  return (offset | memory.size() | reinterpret_cast<uintptr_t>(memory.data())) % page == 0;
}

// Calls `once`, and calls it again after an error of kind `io`, as the retry policy in swap_file.hpp requires.
core::result<void> tried(auto once) {
  core::result<void> last;
  for (unsigned tries = 0; tries < swap_tries_max; ++tries) {
    last = once();
    if (last || last.error().kind != core::error_kind::io) return last;
  }
  return core::fail(
      core::error{last.error().kind, fmt::format("{}; tried {} times", last.error().text, swap_tries_max)});
}

}  // namespace

swap_file::swap_file(file on, uint64_t bytes, bool checksums) : on_(std::move(on)), bytes_(bytes) {
  static constexpr std::array<std::byte, page> zeros{};
  if (checksums) digests_.assign(bytes / page, page_digest(zeros));
}

core::result<std::shared_ptr<swap_file>> swap_file::in_memory(const std::string& name, uint64_t bytes, bool checksums) {
  TROUPE_ASSIGN(auto on, file::in_memory(name));
  const uint64_t whole = core::round_up(bytes, page);
  TROUPE_TRY(on.truncate(whole));
  return std::make_shared<swap_file>(std::move(on), whole, checksums);
}

core::result<void> swap_file::check_range(const char* what, uint64_t offset, uint64_t length) const {
  if (length <= bytes_ && offset <= bytes_ - length) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("{}: {} of {} bytes at {}: wanted a range inside its {} bytes", on_.path().string(),
                                what, length, offset, bytes_));
}

void swap_file::take_digests(uint64_t offset, std::span<const std::byte> pages) {
  if (checksums()) page_digests(pages, std::span(digests_).subspan(offset / page, pages.size() / page));
}

core::result<void> swap_file::check_digests(uint64_t offset, std::span<const std::byte> pages) const {
  if (!checksums()) return {};
  for (uint64_t at = 0; at < pages.size(); at += page) {
    const uint64_t got = page_digest(pages.subspan(at).first<page>());
    const uint64_t wanted = digests_[(offset + at) / page];
    if (got == wanted) continue;
    return core::fail(
        core::error_kind::io,
        fmt::format(
            "{}: page at {}: the data that was read is not the data that was written: wanted the digest {}, got {}",
            on_.path().string(), offset + at, wanted, got));
  }
  return {};
}

core::result<void> swap_file::read_pages(uint64_t offset, std::span<std::byte> into) const {
  return tried([&]() -> core::result<void> {
    TROUPE_ASSIGN(const auto got, on_.read_at(offset, into));
    if (got < into.size()) return core::fail(ends_early(offset, into.size(), got));
    return check_digests(offset, into);
  });
}

core::error swap_file::ends_early(uint64_t offset, uint64_t wanted, uint64_t got) const {
  return {core::error_kind::io, fmt::format("{}: read at {}: wanted {} bytes, got {}: the file ends there",
                                            on_.path().string(), offset, wanted, got)};
}

core::result<void> swap_file::write_pages(uint64_t offset, std::span<const std::byte> from) {
  take_digests(offset, from);
  return tried([&] { return on_.write_at(offset, from); });
}

namespace {

// Returns the memory through which read() and write() copy the pages of an unaligned range [offset, end).
core::result<huge_memory> bounce_for(uint64_t offset, uint64_t end) {
  return huge_memory::allocate(std::min(swap_file::bounce_bytes, core::round_up(end, page) - down(offset)));
}

}  // namespace

core::result<void> swap_file::read(uint64_t offset, std::span<std::byte> into) const {
  if (auto fits = check_range("read", offset, into.size()); !fits || into.empty()) return fits;
  const bool direct = whole_pages(offset, into);
  const uint64_t end = offset + into.size();
  TROUPE_ASSIGN(const auto bounce, direct ? core::result<huge_memory>() : bounce_for(offset, end));
  while (offset < end) {
    const uint64_t first = down(offset), last = std::min(core::round_up(end, page), first + bounce_bytes);
    const uint64_t length = std::min(end, last) - offset;
    const auto target = into.subspan(into.size() - (end - offset), length);
    const std::span<std::byte> pages = direct ? target : std::span(bounce.data(), last - first);
    TROUPE_TRY(read_pages(first, pages));
    if (!direct) std::memcpy(target.data(), pages.data() + (offset - first), length);
    offset += length;
  }
  return {};
}

core::result<void> swap_file::write(uint64_t offset, std::span<const std::byte> from) {
  if (auto fits = check_range("write", offset, from.size()); !fits || from.empty()) return fits;
  const bool direct = whole_pages(offset, from);
  const uint64_t end = offset + from.size();
  TROUPE_ASSIGN(const auto bounce, direct ? core::result<huge_memory>() : bounce_for(offset, end));
  while (offset < end) {
    const uint64_t first = down(offset), last = std::min(core::round_up(end, page), first + bounce_bytes);
    const uint64_t length = std::min(end, last) - offset;
    const auto source = from.subspan(from.size() - (end - offset), length);
    std::span<const std::byte> pages = source;
    if (!direct) {
      const std::span<std::byte> whole(bounce.data(), last - first);
      // reads pages of which only a part is written before it writes them; one page may be both the first and the last
      const bool head = offset > first || (last - first == page && end < last), tail = end < last;
      if (head) TROUPE_TRY(read_pages(first, whole.first(page)));
      if (tail && last - first > page) TROUPE_TRY(read_pages(last - page, whole.last(page)));
      std::memcpy(whole.data() + (offset - first), source.data(), length);
      pages = whole;
    }
    TROUPE_TRY(write_pages(first, pages));
    offset += length;
  }
  return {};
}

}  // namespace troupe::storage

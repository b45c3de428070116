// Reads a zip archive from its end: end record, central directory, then local headers.
#include "formats/torch/zip_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "formats/safetensors/header.hpp"
#include "formats/torch/zip_crc32.hpp"
#include "formats/torch/zip_layout.hpp"

namespace troupe::formats {
namespace {

using namespace zip;

using bytes_view = std::span<const std::byte>;

/// Place of the central directory in the archive, and its number of entries.
struct directory {
  uint64_t begin = 0, bytes = 0, entries = 0;
  uint64_t limit = 0;  ///< offset of the end record after the directory; the directory ends before it
};

using core::refused;

/// Number of bytes that sum_of() reads at a time, few enough to stay in a core's cache.
constexpr uint64_t summed_bytes = uint64_t{256} << 10;

/// Reads any bytes of an archive, which is in a file or in memory.
class archive_bytes {
 public:
  archive_bytes(const core::source_file& file, uint64_t begin, uint64_t bytes)
      : file_(&file), begin_(begin), size_(bytes) {}
  explicit archive_bytes(bytes_view memory) : memory_(memory), size_(memory.size()) {}

  [[nodiscard]] uint64_t size() const { return size_; }
  /// Copies bytes [offset, offset + out.size()) of the archive, which must be inside the archive.
  [[nodiscard]] core::result<void> read(uint64_t offset, std::span<std::byte> out) const {
    if (file_ != nullptr) return file_->read(begin_ + offset, out);
    std::ranges::copy(memory_.subspan(offset, out.size()), out.begin());
    return {};
  }
  template <size_t n>
  [[nodiscard]] core::result<std::array<std::byte, n>> record(uint64_t offset) const {
    std::array<std::byte, n> out;
    TROUPE_TRY(read(offset, out));
    return out;
  }

 private:
  const core::source_file* file_ = nullptr;
  bytes_view memory_;
  uint64_t begin_ = 0;  ///< offset of the archive's first byte in the file
  uint64_t size_;
};

/// Returns the offset of the end record; nothing if there is none. Searches the last bytes first, then for a record
/// with a comment after it, which few archives have.
core::result<std::optional<uint64_t>> find_end(const archive_bytes& file) {
  std::vector<std::byte> last;
  for (const uint64_t reach : {uint64_t{end_bytes}, uint64_t{end_bytes} + in_zip64_short}) {
    if (file.size() < end_bytes) break;
    last.resize(std::min(reach, file.size()));
    const uint64_t begin = file.size() - last.size();
    TROUPE_TRY(file.read(begin, last));
    for (size_t at = last.size() - end_bytes + 1; at-- > 0;)
      if (number(last, at, 4) == end_signature && at + end_bytes + number(last, at + 20, 2) == last.size())
        return begin + at;
  }
  return std::nullopt;
}

core::result<directory> read_end64(const archive_bytes& file, bytes_view locator, uint64_t locator_at) {
  if (number(locator, 4, 4) != 0 || number(locator, 16, 4) > 1)
    return refused("the zip archive is spread over several disks, one file was wanted");
  const uint64_t at = number(locator, 8, 8);
  const bool fits = at <= locator_at && locator_at - at >= end64_bytes;
  TROUPE_ASSIGN(const auto end, fits ? file.record<end64_bytes>(at) : std::array<std::byte, end64_bytes>{});
  if (!fits || number(end, 0, 4) != end64_signature)
    return refused(fmt::format("the zip64 end record must be at byte {}, where it does not fit", at));
  if (number(end, 16, 4) != 0 || number(end, 20, 4) != 0 || number(end, 24, 8) != number(end, 32, 8))
    return refused("the zip archive is spread over several disks, one file was wanted");
  return directory{number(end, 48, 8), number(end, 40, 8), number(end, 32, 8), at};
}

core::result<directory> find_directory(const archive_bytes& file) {
  TROUPE_ASSIGN(const auto end_at, find_end(file));
  if (!end_at)
    return refused("no end record of a zip archive was found: the file is not a zip archive or is cut short");
  const uint64_t at = *end_at;
  TROUPE_ASSIGN(const auto end, file.record<end_bytes>(at));
  TROUPE_ASSIGN(const auto locator, at >= locator_bytes ? file.record<locator_bytes>(at - locator_bytes)
                                                        : std::array<std::byte, locator_bytes>{});
  directory found;
  if (number(locator, 0, 4) == locator_signature) {
    TROUPE_ASSIGN(found, read_end64(file, locator, at - locator_bytes));
  } else {
    if (number(end, 4, 2) != 0 || number(end, 6, 2) != 0 || number(end, 8, 2) != number(end, 10, 2))
      return refused("the zip archive is spread over several disks, one file was wanted");
    found = directory{number(end, 16, 4), number(end, 12, 4), number(end, 10, 2), at};
  }
  if (found.begin > found.limit || found.bytes > found.limit - found.begin)
    return refused(fmt::format("the zip directory of {} bytes at byte {} reaches beyond the file of {} bytes",
                               found.bytes, found.begin, file.size()));
  if (found.entries > max_zip_entries || found.entries > found.bytes / central_bytes)
    return refused(fmt::format("a zip directory of {} bytes cannot list {} entries", found.bytes, found.entries));
  return found;
}

/// Reads the 64-bit values `wide` of an entry from its zip64 field in `extra`, in the order of the format. The field
/// contains only values whose 32-bit field refers to it.
core::result<void> widen(bytes_view extra, std::span<uint64_t* const> wide) {
  if (wide.empty()) return {};
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint64_t id = number(extra, at, 2), n = number(extra, at + 2, 2);
    if (n > extra.size() - at - 4) break;
    if (id == zip64_field) {
      if (n < wide.size() * 8) break;
      for (size_t i = 0; i < wide.size(); ++i) *wide[i] = number(extra, at + 4 + i * 8, 8);
      return {};
    }
    at += 4 + n;
  }
  return refused("its sizes must be in a zip64 field, which it does not have");
}

bool stays_inside(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != name.npos || name.find('\0') != name.npos) return false;
  for (size_t at = 0; at <= name.size();) {
    const size_t next = std::min(name.find('/', at), name.size());
    if (name.substr(at, next - at) == "..") return false;
    at = next + 1;
  }
  return true;
}

/// Reads the central directory in order through a buffer, the window.
class directory_window {
 public:
  directory_window(const archive_bytes& file, const directory& where)
      : file_(file), at_(where.begin), end_(where.begin + where.bytes) {}

  /// Returns the next `n` bytes of the directory, fewer at its end. The result is valid until the next call.
  core::result<bytes_view> peek(uint64_t n) {
    n = std::min(n, end_ - at_);
    if (at_ - begin_ + n > window_.size()) {
      begin_ = at_;
      window_.resize(std::min(end_ - at_, std::max(n, window_bytes)));
      TROUPE_TRY(file_.read(begin_, window_));
    }
    return bytes_view(window_).subspan(at_ - begin_, n);
  }
  void pass(uint64_t n) { at_ += n; }

 private:
  static constexpr uint64_t window_bytes = uint64_t{1} << 16;

  const archive_bytes& file_;
  uint64_t at_, end_;
  uint64_t begin_ = at_;  ///< offset of the window's first byte in the archive
  std::vector<std::byte> window_;
};

/// Copies a name into `blocks`, whose addresses do not change when blocks are added, and returns the copy.
std::string_view kept(std::deque<std::string>& blocks, std::string_view name) {
  constexpr size_t block_bytes = size_t{1} << 12;
  if (blocks.empty() || blocks.back().capacity() - blocks.back().size() < name.size())
    blocks.emplace_back().reserve(std::max(name.size(), block_bytes));
  auto& last = blocks.back();
  const size_t at = last.size();
  last += name;
  return std::string_view(last).substr(at);
}

/// Reads one record of the central directory, and checks the entry's local header; `local` is a buffer for that header.
core::result<zip_entry> read_entry(const archive_bytes& file, bytes_view record, const directory& where,
                                   std::vector<std::byte>& local) {
  const uint64_t flags = number(record, 8, 2), method = number(record, 10, 2);
  const uint64_t name_bytes = number(record, 28, 2), extra_bytes = number(record, 30, 2);
  zip_entry entry;
  entry.name = {reinterpret_cast<const char*>(record.data() + central_bytes), name_bytes};
  const auto bad = [&](const std::string& why) {
    return refused(fmt::format("zip entry '{}': {}", shown(entry.name), why));
  };
  if (!stays_inside(entry.name)) return bad("its name leads out of the archive");
  if ((flags & (encrypted_flag | strong_flag | masked_flag)) != 0) return bad("it is encrypted, plain was wanted");
  if (method != 0) return bad(fmt::format("it is compressed by method {}, stored (0) was wanted", method));
  uint64_t packed = number(record, 20, 4), header = number(record, 42, 4), disk = number(record, 34, 2);
  entry.bytes = number(record, 24, 4);
  entry.crc32 = static_cast<uint32_t>(number(record, 16, 4));
  uint64_t* wide[3];
  size_t n = 0;
  for (uint64_t* value : {&entry.bytes, &packed, &header})
    if (*value == in_zip64) wide[n++] = value;
  if (auto ok = widen(record.subspan(central_bytes + name_bytes, extra_bytes), std::span(wide).first(n)); !ok)
    return bad(ok.error().text);
  if (disk != 0 && disk != in_zip64_short) return bad("it is on another disk, one file was wanted");
  if (packed != entry.bytes)
    return bad(fmt::format("it stores {} bytes, but states a size of {}", packed, entry.bytes));
  const uint64_t room = header > where.begin ? 0 : where.begin - header;
  local.assign(room < local_bytes ? local_bytes : std::min(local_bytes + name_bytes, room), std::byte{0});
  if (room >= local_bytes) TROUPE_TRY(file.read(header, local));
  if (number(local, 0, 4) != local_signature) return bad(fmt::format("no local header at byte {}", header));
  const uint64_t local_name = number(local, 26, 2), local_extra = number(local, 28, 2);
  const uint64_t front = local_bytes + local_name + local_extra;
  if (room < front) return bad("its local header reaches into the directory");
  if (local_name != name_bytes ||
      !std::ranges::equal(bytes_view(local).subspan(local_bytes), record.subspan(central_bytes, name_bytes)))
    return bad("its local header has another name");
  entry.begin = header + front;
  if (entry.bytes > where.begin - entry.begin)
    return bad(fmt::format("its {} bytes at byte {} reach into the directory", entry.bytes, entry.begin));
  return entry;
}

core::result<zip_list> read_list(const archive_bytes& archive) {
  TROUPE_ASSIGN(auto where, find_directory(archive));
  zip_list out;
  auto& entries = out.entries;
  entries.reserve(where.entries);
  directory_window rest(archive, where);
  std::vector<std::byte> local;
  for (uint64_t i = 0; i < where.entries; ++i) {
    const auto cut_short = [&] { return refused(fmt::format("the zip directory ends within its entry {}", i)); };
    TROUPE_ASSIGN(const auto front, rest.peek(central_bytes));
    if (front.size() < central_bytes || number(front, 0, 4) != central_signature) return cut_short();
    const uint64_t bytes = central_bytes + number(front, 28, 2) + number(front, 30, 2) + number(front, 32, 2);
    TROUPE_ASSIGN(const auto record, rest.peek(bytes));
    if (record.size() < bytes) return cut_short();
    TROUPE_ASSIGN(auto entry, read_entry(archive, record, where, local));
    entry.name = kept(out.names, entry.name);
    entries.push_back(entry);
    rest.pass(bytes);
  }
  std::ranges::sort(entries, {}, [](const zip_entry& e) { return std::pair(e.begin, e.bytes); });
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i].begin - entries[i - 1].begin < entries[i - 1].bytes)
      return refused(
          fmt::format("zip entries '{}' and '{}' overlap", shown(entries[i - 1].name), shown(entries[i].name)));
  std::ranges::sort(entries, {}, &zip_entry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &zip_entry::name);
  if (twice != entries.end()) return refused(fmt::format("zip entry '{}' appears twice", shown(twice->name)));
  return out;
}

}  // namespace

core::result<zip_list> read_zip(const core::source_file& archive) { return read_zip(archive, 0, archive.size()); }
core::result<zip_list> read_zip(const core::source_file& file, uint64_t begin, uint64_t bytes) {
  return read_list(archive_bytes(file, begin, bytes));
}
core::result<zip_list> read_zip(bytes_view archive) { return read_list(archive_bytes(archive)); }

core::result<uint32_t> sum_of(const zip_entry& entry, const entry_bytes& read) {
  uint32_t sum = 0;
  std::vector<std::byte> block(std::min(entry.bytes, summed_bytes));
  for (uint64_t done = 0; done < entry.bytes;) {
    const auto part = std::span(block).first(std::min<uint64_t>(entry.bytes - done, block.size()));
    TROUPE_TRY(read(done, part));
    sum = crc32(part, sum);
    done += part.size();
  }
  return sum;
}

core::result<void> compare_sum(const zip_entry& entry, const std::string& file, uint64_t at, const entry_bytes& read) {
  TROUPE_ASSIGN(const auto sum, sum_of(entry, read));
  if (sum == entry.crc32) return {};
  return fail(error_kind::bad_input,
              fmt::format("'{}': the {} bytes at byte {}, entry '{}', {}: the file is damaged, use a whole copy of it",
                          file, entry.bytes, at, shown(entry.name), sum_differs));
}

const zip_entry* find_entry(std::span<const zip_entry> entries, std::string_view name) {
  const auto at = std::ranges::lower_bound(entries, name, {}, &zip_entry::name);
  return at == entries.end() || at->name != name ? nullptr : &*at;
}

}  // namespace troupe::formats

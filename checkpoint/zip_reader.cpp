// From the end backwards: end record, central directory, local headers.
#include "checkpoint/zip_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoint/safetensors_header.hpp"
#include "checkpoint/zip_layout.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;
using namespace zip;

using bytes_view = std::span<const std::byte>;

/// Where the central directory lies.
struct directory {
  uint64_t begin = 0, bytes = 0, entries = 0;
  uint64_t limit = 0;  ///< the first byte behind it that belongs to an end record
};

tl::unexpected<core::error> refused(std::string why) { return fail(error_kind::bad_input, std::move(why)); }

/// The end record is the last thing in the file but a comment of its own stated length.
std::optional<uint64_t> find_end(bytes_view file) {
  if (file.size() < end_bytes) return std::nullopt;
  const uint64_t last = file.size() - end_bytes;
  const uint64_t first = last > in_zip64_short ? last - in_zip64_short : 0;
  for (uint64_t at = last + 1; at-- > first;)
    if (number(file, at, 4) == end_signature && at + end_bytes + number(file, at + 20, 2) == file.size()) return at;
  return std::nullopt;
}

core::result<directory> read_end64(bytes_view file, uint64_t locator) {
  if (number(file, locator + 4, 4) != 0 || number(file, locator + 16, 4) > 1)
    return refused("the zip archive is spread over several disks, one file was wanted");
  const uint64_t at = number(file, locator + 8, 8);
  if (at > locator || locator - at < end64_bytes || number(file, at, 4) != end64_signature)
    return refused(fmt::format("the zip64 end record is wanted at byte {}, where none fits", at));
  if (number(file, at + 16, 4) != 0 || number(file, at + 20, 4) != 0 ||
      number(file, at + 24, 8) != number(file, at + 32, 8))
    return refused("the zip archive is spread over several disks, one file was wanted");
  return directory{number(file, at + 48, 8), number(file, at + 40, 8), number(file, at + 32, 8), at};
}

core::result<directory> find_directory(bytes_view file) {
  const auto end = find_end(file);
  if (!end) return refused("no end record of a zip archive was found: not one, or cut short");
  core::result<directory> found;
  if (*end >= locator_bytes && number(file, *end - locator_bytes, 4) == locator_signature) {
    found = read_end64(file, *end - locator_bytes);
    if (!found) return found;
  } else {
    if (number(file, *end + 4, 2) != 0 || number(file, *end + 6, 2) != 0 ||
        number(file, *end + 8, 2) != number(file, *end + 10, 2))
      return refused("the zip archive is spread over several disks, one file was wanted");
    found = directory{number(file, *end + 16, 4), number(file, *end + 12, 4), number(file, *end + 10, 2), *end};
  }
  if (found->begin > found->limit || found->bytes > found->limit - found->begin)
    return refused(fmt::format("the zip directory of {} bytes at byte {} leaves the file of {} bytes", found->bytes,
                               found->begin, file.size()));
  if (found->entries > max_zip_entries || found->entries > found->bytes / central_bytes)
    return refused(fmt::format("a zip directory of {} bytes cannot list {} entries", found->bytes, found->entries));
  return found;
}

/// The 64-bit values of an entry, in the order of the format, taken only where the short one says so.
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
  return refused("its sizes are said to be in a zip64 field that it does not have");
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

/// One record of the directory; `record` starts at it and reaches to the directory's end.
core::result<zip_entry> read_entry(bytes_view file, bytes_view record, const directory& where) {
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
  if (disk != 0 && disk != in_zip64_short) return bad("it lies on another disk, one file was wanted");
  if (packed != entry.bytes) return bad(fmt::format("{} stored bytes stand for {}", packed, entry.bytes));
  if (header > where.begin || where.begin - header < local_bytes || number(file, header, 4) != local_signature)
    return bad(fmt::format("no local header at byte {}", header));
  const uint64_t local_name = number(file, header + 26, 2), local_extra = number(file, header + 28, 2);
  const uint64_t front = local_bytes + local_name + local_extra;
  if (where.begin - header < front) return bad("its local header reaches into the directory");
  const auto name = file.subspan(header + local_bytes, local_name);
  if (!std::ranges::equal(name, record.subspan(central_bytes, name_bytes)))
    return bad("its local header has another name");
  entry.begin = header + front;
  if (entry.bytes > where.begin - entry.begin)
    return bad(fmt::format("its {} bytes at byte {} reach into the directory", entry.bytes, entry.begin));
  return entry;
}

}  // namespace

core::result<std::vector<zip_entry>> read_zip(bytes_view archive) {
  auto where = find_directory(archive);
  if (!where) return fail(where.error());
  std::vector<zip_entry> entries;
  entries.reserve(where->entries);
  auto rest = archive.subspan(where->begin, where->bytes);
  for (uint64_t i = 0; i < where->entries; ++i) {
    const auto cut_short = [&] { return refused(fmt::format("the zip directory ends within its entry {}", i)); };
    if (rest.size() < central_bytes || number(rest, 0, 4) != central_signature) return cut_short();
    const uint64_t record = central_bytes + number(rest, 28, 2) + number(rest, 30, 2) + number(rest, 32, 2);
    if (rest.size() < record) return cut_short();
    auto entry = read_entry(archive, rest, *where);
    if (!entry) return fail(entry.error());
    entries.push_back(*entry);
    rest = rest.subspan(record);
  }
  std::ranges::sort(entries, {}, [](const zip_entry& e) { return std::pair(e.begin, e.bytes); });
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i].begin - entries[i - 1].begin < entries[i - 1].bytes)
      return refused(
          fmt::format("zip entries '{}' and '{}' overlap", shown(entries[i - 1].name), shown(entries[i].name)));
  std::ranges::sort(entries, {}, &zip_entry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &zip_entry::name);
  if (twice != entries.end()) return refused(fmt::format("zip entry '{}' comes twice", shown(twice->name)));
  return entries;
}

const zip_entry* find_entry(std::span<const zip_entry> entries, std::string_view name) {
  const auto at = std::ranges::lower_bound(entries, name, {}, &zip_entry::name);
  return at == entries.end() || at->name != name ? nullptr : &*at;
}

}  // namespace troupe::checkpoint

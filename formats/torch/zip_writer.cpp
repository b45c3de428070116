// Writes the parts of a zip archive: local headers, data and descriptors, and the directory at the end.
#include "formats/torch/zip_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/safetensors/header.hpp"
#include "formats/torch/zip_crc32.hpp"
#include "formats/torch/zip_layout.hpp"
#include "formats/torch/zip_reader.hpp"

namespace troupe::formats {
namespace {

using namespace zip;

constexpr uint16_t version_plain = 20, version_zip64 = 45;

class fields {
 public:
  fields& put(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  fields& put(std::string_view text) {
    text_ += text;
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool is_wide(uint64_t value) { return value >= in_zip64; }
uint64_t narrow(uint64_t value) { return std::min<uint64_t>(value, in_zip64); }
uint16_t flags_of(uint64_t bytes) { return bytes == 0 ? utf8_flag : utf8_flag | descriptor_flag; }

}  // namespace

core::result<zip_writer> zip_writer::create(const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto file, storage::streamed_file::create(path));
  return zip_writer(std::move(file));
}

core::result<void> zip_writer::put(std::string_view bytes) {
  at_ += bytes.size();
  return file().write(bytes);
}

core::result<void> zip_writer::begin(std::string_view name, uint64_t bytes) {
  TROUPE_TRY(end_entry());
  if (name.empty() || name.front() == '/' || name.size() > 0xFFFF)
    return fail(error_kind::bad_input, fmt::format("'{}' cannot name a zip entry", shown(name)));
  if (entries_.size() >= max_zip_entries)
    return fail(error_kind::limit, fmt::format("a zip archive here has at most {} entries", max_zip_entries));
  fields wide;  // zip64 field with sizes 0, because the data descriptor after the file has the sizes
  if (is_wide(bytes)) wide.put(zip64_field, 2).put(16, 2).put(0, 8).put(0, 8);
  const uint64_t front = local_bytes + name.size() + wide.text().size() + 4;
  const uint64_t padding = (zip_alignment_bytes - (at_ + front) % zip_alignment_bytes) % zip_alignment_bytes;
  fields header;
  header.put(local_signature, 4).put(is_wide(bytes) ? version_zip64 : version_plain, 2).put(flags_of(bytes), 2);
  header.put(0, 2).put(0, 4).put(0, 4);  // fields: compression method; time and date; CRC
  header.put(is_wide(bytes) ? in_zip64 : 0, 4).put(is_wide(bytes) ? in_zip64 : 0, 4);
  header.put(name.size(), 2).put(wide.text().size() + 4 + padding, 2).put(name).put(wide.text());
  header.put("FB").put(padding, 2).put(std::string(padding, 'Z'));
  entries_.push_back({std::string(name), at_, bytes, 0});
  left_ = bytes;
  open_ = true;
  return put(header.text());
}

core::result<void> zip_writer::write(std::span<const std::byte> bytes) {
  if (!open_ || bytes.size() > left_)
    return fail(error_kind::bug, fmt::format("{} bytes for a zip entry that wants {}", bytes.size(), left_));
  entries_.back().crc32 = crc32(bytes, entries_.back().crc32);
  left_ -= bytes.size();
  at_ += bytes.size();
  return file().write(bytes);
}

core::result<void> zip_writer::add(std::string_view name, std::span<const std::byte> bytes) {
  TROUPE_TRY(begin(name, bytes.size()));
  return write(bytes);
}

core::result<void> zip_writer::end_entry() {
  if (!open_) return {};
  const auto& entry = entries_.back();
  if (left_ > 0)
    return fail(error_kind::bug, fmt::format("zip entry '{}' lacks its last {} bytes", shown(entry.name), left_));
  open_ = false;
  if (entry.bytes == 0) return {};
  const size_t width = is_wide(entry.bytes) ? 8 : 4;
  fields descriptor;
  descriptor.put(data_signature, 4).put(entry.crc32, 4).put(entry.bytes, width).put(entry.bytes, width);
  return put(descriptor.text());
}

core::result<void> zip_writer::finish() {
  TROUPE_TRY(end_entry());
  std::vector<const written*> by_name;
  for (const auto& e : entries_) by_name.push_back(&e);
  std::ranges::sort(by_name, {}, [](const auto* e) -> const std::string& { return e->name; });
  const auto twice =
      std::ranges::adjacent_find(by_name, [](const auto* a, const auto* b) { return a->name == b->name; });
  if (twice != by_name.end())
    return fail(error_kind::bad_input, fmt::format("zip entry '{}' appears twice", shown((*twice)->name)));

  const uint64_t begin = at_;
  for (const auto& e : entries_) {
    fields wide;
    if (is_wide(e.bytes)) wide.put(e.bytes, 8).put(e.bytes, 8);
    if (is_wide(e.header)) wide.put(e.header, 8);
    fields extra;
    if (!wide.text().empty()) extra.put(zip64_field, 2).put(wide.text().size(), 2).put(wide.text());
    const uint16_t version = extra.text().empty() ? version_plain : version_zip64;
    fields record;
    record.put(central_signature, 4).put(version, 2).put(version, 2).put(flags_of(e.bytes), 2).put(0, 2).put(0, 4);
    record.put(e.crc32, 4).put(narrow(e.bytes), 4).put(narrow(e.bytes), 4).put(e.name.size(), 2);
    record.put(extra.text().size(), 2).put(0, 2).put(0, 2).put(0, 2).put(0, 4).put(narrow(e.header), 4);
    record.put(e.name).put(extra.text());
    TROUPE_TRY(put(record.text()));
  }
  const uint64_t bytes = at_ - begin, end64 = at_, count = entries_.size();
  const uint64_t few = std::min<uint64_t>(count, in_zip64_short);
  fields end;
  end.put(end64_signature, 4).put(end64_bytes - 12, 8).put(version_zip64, 2).put(version_zip64, 2).put(0, 4).put(0, 4);
  end.put(count, 8).put(count, 8).put(bytes, 8).put(begin, 8);
  end.put(locator_signature, 4).put(0, 4).put(end64, 8).put(1, 4);
  end.put(end_signature, 4).put(0, 2).put(0, 2).put(few, 2).put(few, 2).put(narrow(bytes), 4).put(narrow(begin), 4);
  end.put(0, 2);
  return put(end.text());
}

core::result<void> zip_writer::commit() {
  TROUPE_TRY(finish());
  return file().commit();
}

}  // namespace troupe::formats

// Implements the reader of tar files: reads each header of 512 bytes and the file that follows it.
#include "core/number.hpp"
#include "data/formats/row_files.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/text.hpp"
#include "data/formats/json_lines.hpp"

namespace troupe::data {
namespace {

constexpr uint64_t block_bytes = 512;
/// Largest size in bytes of a member that contains a long name or a pax header.
constexpr uint64_t max_extra_bytes = uint64_t{1} << 20;

std::string_view field(std::string_view header, size_t at, size_t bytes) {
  const auto whole = header.substr(at, bytes);
  return whole.substr(0, whole.find('\0'));
}

/// Returns the number in a field of a tar header: octal digits, or, if the first bit is set, GNU's big-endian bytes;
/// nullopt for any other text.
std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  if (static_cast<unsigned char>(text.front()) == 0x80) {
    for (const char c : text.substr(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  text = core::trimmed(text.substr(0, text.find('\0')), " ");
  if (text.empty()) return 0;
  return core::number_of<uint64_t>(text, 8);
}

/// Returns the value of `key` in a pax header, whose lines are "LENGTH KEY=VALUE\n".
std::optional<std::string> pax_value(std::string_view text, std::string_view key) {
  std::optional<std::string> out;
  while (!text.empty()) {
    std::string_view rest = text;
    const auto length = core::take_number<size_t>(rest);
    const size_t digits = text.size() - rest.size();
    if (!length || *length > text.size() || *length < digits + 2) return out;
    const auto line = text.substr(digits + 1, *length - digits - 2);
    if (line.substr(0, line.find('=')) == key && line.find('=') != line.npos) out = line.substr(key.size() + 1);
    text = text.substr(*length);
  }
  return out;
}

/// Returns the text in lower case, for extensions, whose case WebDataset ignores.
std::string lowercase(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_metadata(std::string_view name) { return name.size() >= 4 && name.starts_with("__") && name.ends_with("__"); }

class tar_reader {
 public:
  tar_reader(const core::source_file& file, const std::string& key, const row_visit& visit)
      : file_(file), key_(key), ending_(lowercase(key)), visit_(visit) {}

  core::result<void> read() {
    for (uint64_t members = 1; at_ < file_.size(); ++members) {
      if (members % rows_between_calls == 0) TROUPE_TRY(visit_(std::nullopt, at_));
      TROUPE_ASSIGN(const auto more, read_member());
      if (more) continue;
      TROUPE_TRY(only_zeros_follow());
      return end_sample();
    }
    member_ = at_;
    name_.clear();
    return wrong("wanted another member or the end mark, a block of zeros: the file is cut short");
  }

 private:
  [[nodiscard]] core::result<void> wrong(const std::string& why, error_kind kind = error_kind::bad_input) const {
    return fail(kind, fmt::format("'{}': member at byte {}{}: {}", file_.name(), member_,
                                  name_.empty() ? "" : fmt::format(" ('{}')", core::shown(name_, 200)), why));
  }

  core::result<std::string> content(uint64_t bytes, uint64_t most) const {
    if (bytes > most)
      return fail(wrong(fmt::format("{} bytes, at most {} are read", bytes, most), error_kind::limit).error());
    std::string out(bytes, '\0');
    TROUPE_TRY(file_.read(at_, std::as_writable_bytes(std::span(out))));
    return out;
  }

  /// Refuses data other than zeros after the blocks of zeros that end a tar; concatenated tars have such data.
  core::result<void> only_zeros_follow() {
    for (uint64_t blocks = 1; at_ < file_.size(); ++blocks) {
      if (blocks % rows_between_calls == 0) TROUPE_TRY(visit_(std::nullopt, at_));
      TROUPE_ASSIGN(const auto block, content(std::min(block_bytes, file_.size() - at_), block_bytes));
      member_ = at_ + std::min(block.find_first_not_of('\0'), block.size());
      if (member_ < at_ + block.size())
        return wrong(
            "something follows the end mark, as in tars that were joined: unpack them, and pack their files "
            "into one");
      at_ += block.size();
    }
    return {};
  }

  /// Reads one member; false at the end, which is a block of zeros.
  core::result<bool> read_member() {
    member_ = at_;
    name_.clear();
    if (file_.size() - at_ < block_bytes) return fail(wrong("its header is cut off").error());
    TROUPE_ASSIGN(auto block, content(block_bytes, block_bytes));
    at_ += block_bytes;
    const std::string_view header = block;
    if (header.find_first_not_of('\0') == header.npos) return false;
    uint64_t sum = 8 * ' ';
    for (size_t i = 0; i < header.size(); ++i)
      if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header[i]);
    if (number(header.substr(148, 8)) != sum)
      return fail(wrong("it has no tar header: its checksum does not match").error());
    auto size = number(header.substr(124, 12));
    const char type = header[156];
    if (long_size_ && type != 'L' && type != 'K' && type != 'x') size = long_size_;
    name_ = field(header, 0, 100);
    if (header.substr(257, 5) == "ustar" && header[262] == '\0' && header[345] != '\0')
      name_ = fmt::format("{}/{}", field(header, 345, 155), name_);
    if (!size || *size > file_.size() - at_)
      return fail(
          wrong(fmt::format("wanted {} bytes after its header, got {}", size.value_or(0), file_.size() - at_)).error());
    TROUPE_TRY(take(type, *size));
    const uint64_t padded = (*size + block_bytes - 1) / block_bytes * block_bytes;
    if (padded > file_.size() - at_)
      return fail(wrong("the file ends within the padding that follows its content: it is cut short").error());
    at_ += padded;
    return true;
  }

  core::result<void> take(char type, uint64_t bytes) {
    if (type == 'L' || type == 'x') {
      TROUPE_ASSIGN(auto text, content(bytes, max_extra_bytes));
      if (type == 'L') {
        long_name_ = text.substr(0, text.find('\0'));
        return {};
      }
      if (pax_value(text, "GNU.sparse.major")) return wrong("a sparse file, which is not read");
      if (auto path = pax_value(text, "path")) long_name_ = std::move(path);
      if (const auto size = pax_value(text, "size")) {
        const auto value = core::number_of<uint64_t>(*size);
        if (!value) return wrong("its size is not a number");
        long_size_ = *value;
      }
      return {};
    }
    if (type == 'g' || type == 'K') return {};
    if (long_name_) name_ = *long_name_;
    long_name_.reset();
    long_size_.reset();
    if (type == 'S') return wrong("a sparse file, which is not read");
    // Only regular files are read; folders and links are skipped.
    if (type != '0' && type != '\0' && type != '7') return {};
    return take_file(bytes);
  }

  core::result<void> take_file(uint64_t bytes) {
    // Skips files named `__NAME__` or in such a folder, as WebDataset's option `skip_meta` does.
    if (is_metadata(std::string_view(name_).substr(0, name_.find('/')))) return {};
    const auto slash = name_.rfind('/');
    const size_t base = slash == name_.npos ? 0 : slash + 1;
    const auto dot = name_.find('.', base);
    if (dot == name_.npos || dot == base) return {};  // WebDataset skips files without an extension, too
    const std::string sample = name_.substr(0, dot), ending = lowercase(name_.substr(dot + 1));
    if (!sample_ || *sample_ != sample) {
      TROUPE_TRY(end_sample());
      sample_ = sample;
      sample_at_ = member_;
    }
    const bool is_text = ending == ending_ || (ending_ == "text" && ending == "txt");
    if (endings_.size() < 200) endings_ += (endings_.empty() ? "." : ", .") + ending.substr(0, 40);
    if (!is_text && ending != "json") return {};
    TROUPE_ASSIGN(auto text, content(bytes, max_tar_text_bytes));
    if (!is_text) {
      json_ = std::move(text);
      return {};
    }
    if (has_text_) return wrong("it is a second text of the same sample");
    has_text_ = true;
    return visit_(text, at_);
  }

  /// Passes the sample's text to the visitor; its JSON is read only if it has no text file.
  core::result<void> end_sample() {
    const bool lacks = sample_ && !has_text_;
    const auto json = std::move(json_);
    const std::string name = sample_.value_or(""), endings = std::move(endings_);
    const uint64_t at = sample_at_;
    sample_.reset(), json_.reset(), endings_.clear(), has_text_ = false;
    if (!lacks || is_metadata(name)) return {};
    if (!json || json->find_first_not_of(" \t\r\n") == json->npos)
      return fail(error_kind::bad_input,
                  fmt::format("'{}': sample '{}' at byte {}: wanted its text in a file .{}{} or under '{}' in a .json, "
                              "got {}",
                              file_.name(), core::shown(name, 200), at, ending_, ending_ == "text" ? " or .txt" : "",
                              key_, endings));
    std::string line = *json;
    for (char& c : line)
      if (c == '\n' || c == '\r') c = ' ';  // line ends occur only between JSON values, never inside strings
    return read_json_lines(text_window(line), fmt::format("{}: {}.json", file_.name(), core::shown(name, 200)), key_,
                           [&](std::string_view text, uint64_t) { return visit_(text, std::min(at_, file_.size())); });
  }

  const core::source_file& file_;
  const std::string& key_;
  const std::string ending_;
  const row_visit& visit_;
  uint64_t at_ = 0, member_ = 0, sample_at_ = 0;
  std::string name_, endings_;
  std::optional<std::string> long_name_, sample_, json_;
  std::optional<uint64_t> long_size_;
  bool has_text_ = false;
};

}  // namespace

core::result<void> read_tar(const core::source_file& file, const std::string& key, const row_visit& visit) {
  return tar_reader(file, key, visit).read();
}

}  // namespace troupe::data

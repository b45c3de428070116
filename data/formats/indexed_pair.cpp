// Reads the index of a Megatron data set in blocks, so that memory does not grow with its size.
#include "data/formats/indexed_pair.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/lfs_pointer.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic{"MMIDIDX\0\0", 9};
/// Bytes of magic, version, type, number of sequences and number of document borders.
constexpr uint64_t header_bytes = 9 + 8 + 1 + 8 + 8;
constexpr size_t block_entries = 8192;

uint64_t width_of(indexed_type type) {
  constexpr std::array<uint8_t, 9> widths{0, 1, 1, 2, 4, 8, 8, 4, 2};
  return widths[static_cast<size_t>(type)];
}

/// Reads the integers of an index file in order, with one block of them in memory.
template <class Entry>
class entry_row {
 public:
  entry_row(const core::source_file& file, uint64_t begin, uint64_t count)
      : file_(file), begin_(begin), count_(count) {}

  core::result<int64_t> next() {
    if (at_ == held_.size()) {
      held_.resize(std::min<uint64_t>(block_entries, count_ - given_));
      at_ = 0;
      TROUPE_TRY(file_.read(begin_ + given_ * sizeof(Entry), std::as_writable_bytes(std::span(held_))));
    }
    ++given_;
    return static_cast<int64_t>(held_[at_++]);
  }

 private:
  const core::source_file& file_;
  uint64_t begin_, count_, given_ = 0;
  std::vector<Entry> held_;
  size_t at_ = 0;
};

template <class Number>
Number number_at(const std::byte* bytes) {
  Number out;
  std::memcpy(&out, bytes, sizeof out);
  return out;
}

/// Returns a stored token as a number; a negative number if no vocabulary could contain the token.
int64_t token_at(const std::byte* at, indexed_type type) {
  const auto whole = [](double x) { return x >= 0 && x < 0x1p62 && std::floor(x) == x ? static_cast<int64_t>(x) : -1; };
  switch (type) {
    case indexed_type::u8:
      return number_at<uint8_t>(at);
    case indexed_type::i8:
      return number_at<int8_t>(at);
    case indexed_type::i16:
      return number_at<int16_t>(at);
    case indexed_type::u16:
      return number_at<uint16_t>(at);
    case indexed_type::i32:
      return number_at<int32_t>(at);
    case indexed_type::i64:
      return number_at<int64_t>(at);
    case indexed_type::f32:
      return whole(number_at<float>(at));
    case indexed_type::f64:
      return whole(number_at<double>(at));
  }
  return -1;
}

}  // namespace

const char* name_of(indexed_type type) {
  switch (type) {
    case indexed_type::u8:
      return "uint8";
    case indexed_type::i8:
      return "int8";
    case indexed_type::i16:
      return "int16";
    case indexed_type::u16:
      return "uint16";
    case indexed_type::i32:
      return "int32";
    case indexed_type::i64:
      return "int64";
    case indexed_type::f32:
      return "float32";
    case indexed_type::f64:
      return "float64";
  }
  return "";
}

std::optional<fs::path> index_of(const fs::path& bin) {
  fs::path index = bin;
  index.replace_extension(".idx");
  std::error_code ec;
  return fs::exists(index, ec) ? std::optional(index) : std::nullopt;
}

core::result<indexed_pair> indexed_pair::open(const fs::path& index, const core::source_file& content,
                                              bool keep_starts) {
  TROUPE_ASSIGN(auto file, core::source_file::open(index));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input,
                fmt::format("'{}' is not a valid index of '{}': {}", index.string(), content.name(), why));
  };
  std::array<std::byte, header_bytes> head{};
  if (file.size() < head.size())
    return wrong(fmt::format("it has {} bytes, but a header has {}", file.size(), head.size()));
  TROUPE_TRY(file.read(0, head));
  if (std::memcmp(head.data(), magic.data(), magic.size()) != 0) return wrong("wanted it to begin with MMIDIDX");
  const auto version = number_at<uint64_t>(head.data() + 9);
  if (version != 1) return wrong(fmt::format("wanted version 1, got {}", version));
  const auto code = static_cast<uint8_t>(head[17]);
  if (code < 1 || code > 8) return wrong(fmt::format("wanted a token type from 1 to 8, got {}", code));
  indexed_pair out;
  out.type_ = static_cast<indexed_type>(code);
  out.sequences_ = number_at<uint64_t>(head.data() + 18);
  const auto borders = number_at<uint64_t>(head.data() + 26);
  const uint64_t rest = file.size() - header_bytes;
  if (out.sequences_ > rest / 12 || borders > (rest - 12 * out.sequences_) / 8)
    return wrong(fmt::format("{} sequences and {} document borders do not fit in its {} bytes", out.sequences_, borders,
                             file.size()));
  const uint64_t behind = rest - 12 * out.sequences_ - 8 * borders;
  if (behind == out.sequences_ && behind > 0)
    return wrong("its sequences have modes (data of several kinds), wanted text alone");
  if (behind > 0) return wrong(fmt::format("it has {} bytes more than its {} sequences take", behind, out.sequences_));
  if (borders == 0) return wrong("it lists no documents, wanted 0 and the end of each document");
  out.documents_ = borders - 1;
  out.index_ = std::move(file);
  out.content_ = &content;
  TROUPE_TRY(out.check(keep_starts));
  return out;
}

core::result<void> indexed_pair::check(bool keep_starts) {
  const uint64_t width = width_of(type_), bytes = content_->size();
  entry_row<int32_t> lengths(index_, header_bytes, sequences_);
  entry_row<int64_t> pointers(index_, header_bytes + 4 * sequences_, sequences_);
  entry_row<int64_t> borders(index_, header_bytes + 12 * sequences_, documents_ + 1);
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input,
                fmt::format("'{}' is not a valid index of '{}': {}", index_.name(), content_->name(), why));
  };
  uint64_t borders_left = documents_ + 1, expected = 0, last_border = 0;
  auto border = borders.next();
  if (!border) return fail(border.error());
  if (*border != 0) return wrong(fmt::format("its first document begins at sequence {}, wanted 0", *border));
  for (uint64_t i = 0;; ++i) {
    for (; borders_left > 0 && static_cast<uint64_t>(*border) == i;) {
      last_border = i;
      if (--borders_left == 0) break;
      if (keep_starts && (starts_.empty() || starts_.back() != tokens_)) starts_.push_back(tokens_);
      border = borders.next();
      if (!border) return fail(border.error());
      if (*border < static_cast<int64_t>(i))
        return wrong(fmt::format("its documents are not in ascending order: {} follows {}", *border, i));
    }
    if (i == sequences_) break;
    TROUPE_ASSIGN(const auto length, lengths.next());
    TROUPE_ASSIGN(const auto pointer, pointers.next());
    if (length < 0 || pointer < 0)
      return wrong(fmt::format("sequence {} has {} tokens from byte {}", i, length, pointer));
    const auto begin = static_cast<uint64_t>(pointer), taken = static_cast<uint64_t>(length) * width;
    if (begin > bytes || taken > bytes - begin)
      return wrong(fmt::format("sequence {} has {} tokens from byte {}, beyond its {} bytes", i, length, begin, bytes));
    if (taken == 0) continue;
    if (!begin_) begin_ = expected = begin;
    consecutive_ = consecutive_ && begin == expected;
    expected = begin + taken;
    tokens_ += static_cast<uint64_t>(length);
  }
  if (borders_left > 0 || last_border != sequences_)
    return wrong(fmt::format("its documents end at sequence {}, wanted {}",
                             borders_left > 0 ? *border : static_cast<int64_t>(last_border), sequences_));
  if (!begin_) begin_ = 0;
  // Trailing documents without tokens have no first token.
  if (!starts_.empty() && starts_.back() == tokens_) starts_.pop_back();
  return {};
}

core::result<void> indexed_pair::give(uint8_t width, uint64_t vocab_size,
                                      const std::function<core::result<void>(std::span<const std::byte>)>& sink) const {
  const uint64_t stored = width_of(type_);
  const uint64_t below = std::min(vocab_size, uint64_t{1} << (8 * width));
  entry_row<int32_t> lengths(index_, header_bytes, sequences_);
  entry_row<int64_t> pointers(index_, header_bytes + 4 * sequences_, sequences_);
  std::vector<std::byte> in(block_entries * stored), out;
  for (uint64_t i = 0, position = 0; i < sequences_; ++i) {
    TROUPE_ASSIGN(const auto length, lengths.next());
    TROUPE_ASSIGN(const auto pointer, pointers.next());
    if (length < 0 || pointer < 0 || static_cast<uint64_t>(pointer) > content_->size() ||
        static_cast<uint64_t>(length) * stored > content_->size() - static_cast<uint64_t>(pointer))
      return fail(error_kind::io, fmt::format("'{}' has changed since it was opened", index_.name()));
    for (uint64_t at = 0; at < static_cast<uint64_t>(length);) {
      const uint64_t n = std::min<uint64_t>(block_entries, static_cast<uint64_t>(length) - at);
      TROUPE_TRY(content_->read(static_cast<uint64_t>(pointer) + at * stored, std::span(in).first(n * stored)));
      for (uint64_t k = 0; k < n; ++k, ++position) {
        const int64_t token = token_at(in.data() + k * stored, type_);
        if (token < 0)
          return fail(error_kind::bad_input, fmt::format("wanted a token at position {} of '{}', got a number below 0 "
                                                         "or one that is not whole",
                                                         position, content_->name()));
        if (static_cast<uint64_t>(token) >= below)
          return fail(
              error_kind::bad_input,
              fmt::format("token {} at position {} of '{}' lies outside the {} of {}", token, position,
                          content_->name(), below == vocab_size ? "vocabulary" : "folder's token range, one", below));
        const auto* raw = reinterpret_cast<const std::byte*>(&token);  // the low bytes come first (little endian)
        out.insert(out.end(), raw, raw + width);
      }
      at += n;
      if (out.size() < block_entries) continue;
      TROUPE_TRY(sink(out));
      out.clear();
    }
  }
  return sink(out);
}

}  // namespace troupe::data

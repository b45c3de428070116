#include "data/formats/columns/parquet_leaf.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/utf8.hpp"
#include "data/formats/columns/block_codec.hpp"

namespace troupe::data {
namespace {

using leaf_value = nlohmann::ordered_json;

/// Physical types of values, by Parquet's numbers.
enum leaf_type : int64_t {
  leaf_boolean = 0,
  leaf_int32 = 1,
  leaf_int64 = 2,
  leaf_float = 4,
  leaf_double = 5,
  leaf_text = 6
};

/// Takes a number of type T from the beginning of `from`; nullopt if it is too short.
template <class T>
std::optional<T> take_raw(std::span<const std::byte>& from) {
  T out{};
  if (from.size() < sizeof out) return std::nullopt;
  std::memcpy(&out, from.data(), sizeof out);
  from = from.subspan(sizeof out);
  return out;
}

template <class T>
std::optional<leaf_value> raw_value(std::span<const std::byte>& from) {
  const auto number = take_raw<T>(from);
  return number ? std::optional(leaf_value(*number)) : std::nullopt;
}

/// Takes a part of `from` whose length is stored before it; nullopt if it is too short.
std::optional<std::span<const std::byte>> take_part(std::span<const std::byte>& from) {
  const auto length = take_raw<uint32_t>(from);
  if (!length || *length > from.size()) return std::nullopt;
  const auto out = from.first(*length);
  from = from.subspan(*length);
  return out;
}

unsigned level_width(uint8_t level) { return static_cast<unsigned>(std::bit_width(level)); }

}  // namespace

core::result<void> parquet_leaf::lies(const std::string& why) const {
  return core::refused(
      fmt::format("'{}': row group {}, page at byte {}: '{}': {}", file_->name(), group_, page_, node_->name, why));
}

core::result<void> parquet_leaf::advance() {
  has_entry_ = false;
  value_ = nullptr;
  while (left_ == 0) {
    if (entries_ == chunk_->values) return {};
    if (at_ >= end()) return lies(fmt::format("its pages hold {} of {} values", entries_, chunk_->values));
    page_ = at_;
    TROUPE_TRY(read_page());
  }
  --left_;
  has_entry_ = true;
  repetition_ = 0;
  if (node_->repetition > 0) {
    const auto level = repetitions_.next();
    if (!level || *level > node_->repetition) return lies("a value has no valid level of repetition");
    repetition_ = *level;
  }
  definition_ = 0;
  if (node_->definition > 0) {
    const auto level = definitions_.next();
    if (!level || *level > node_->definition) return lies("a value has no valid level of definition");
    definition_ = *level;
  }
  return definition_ == node_->definition ? read_value() : core::result<void>();
}

core::result<page_header> parquet_leaf::next_header() {
  for (uint64_t wanted = std::min(first_header_bytes, end() - at_);; wanted = std::min(4 * wanted, end() - at_)) {
    packed_.resize(wanted);
    TROUPE_TRY(file_->read(at_, packed_));
    if (const auto got = read_page_header(packed_)) {
      at_ += got->second;
      return got->first;
    }
    if (wanted == end() - at_ || wanted >= max_header_bytes) return fail(lies("a broken header").error());
  }
}

core::result<void> parquet_leaf::expand(bytes_view packed, uint64_t bytes, std::vector<std::byte>& out) const {
  auto ok = expand_block(chunk_->codec, packed, bytes, out);
  return ok ? ok : fail(ok.error().kind, lies(ok.error().text).error().text);
}

core::result<void> parquet_leaf::read_page() {
  TROUPE_ASSIGN(const auto h, next_header());
  if (h.bytes < 0 || h.packed_bytes < 0 || static_cast<uint64_t>(h.packed_bytes) > end() - at_)
    return lies(fmt::format("it has {} bytes, {} compressed, but {} are left", h.bytes, h.packed_bytes, end() - at_));
  const auto bytes = static_cast<uint64_t>(h.packed_bytes);
  if (h.type == parquet::index_page) {
    at_ += bytes;
    return {};
  }
  if (bytes > max_block_bytes)
    return fail(error_kind::limit,
                lies(fmt::format("{} bytes, at most {} are read", bytes, max_block_bytes)).error().text);
  packed_.resize(bytes);
  TROUPE_TRY(file_->read(at_, packed_));
  at_ += bytes;
  if (h.crc &&
      static_cast<uint32_t>(*h.crc) != crc32_z(0, reinterpret_cast<const Bytef*>(packed_.data()), packed_.size()))
    return lies("its bytes do not match its checksum");
  if (h.type == parquet::dictionary_page) return keep_dictionary(h);
  if (h.type != parquet::data_page && h.type != parquet::data_page_2)
    return lies(fmt::format("wanted a page of data or of a dictionary, got type {}", h.type));
  if (h.values < 0 || static_cast<uint64_t>(h.values) > chunk_->values - entries_)
    return lies(fmt::format("it has {} values, but {} are left", h.values, chunk_->values - entries_));
  TROUPE_TRY(h.type == parquet::data_page ? open_page(h) : open_page_2(h));
  left_ = static_cast<uint64_t>(h.values);
  entries_ += left_;
  return {};
}

core::result<void> parquet_leaf::keep_dictionary(const page_header& h) {
  if (h.encoding != parquet::plain && h.encoding != parquet::plain_dictionary)
    return lies(fmt::format("wanted a PLAIN dictionary, got {}", name_of_encoding(h.encoding)));
  if (has_dictionary_ || entries_ > 0) return lies("it is a second dictionary");
  if (static_cast<uint64_t>(h.bytes) > max_leaf_dictionary_bytes)
    return fail(error_kind::limit, lies(fmt::format("a dictionary of {} bytes, at most {} are read", h.bytes,
                                                    max_leaf_dictionary_bytes))
                                       .error()
                                       .text);
  has_dictionary_ = true;
  std::vector<std::byte> words;
  TROUPE_TRY(expand(packed_, static_cast<uint64_t>(h.bytes), words));
  bytes_view rest(words);
  uint64_t bit = 0;
  for (int64_t i = 0; i < h.values; ++i) {
    auto word = plain_value(rest, bit);
    if (!word)
      return lies(fmt::format("word {} of its dictionary lies beyond its bytes, or is no value that is read", i));
    dictionary_.push_back(std::move(*word));
  }
  return {};
}

core::result<void> parquet_leaf::open_page(const page_header& h) {
  TROUPE_TRY(expand(packed_, static_cast<uint64_t>(h.bytes), page_bytes_));
  bytes_view rest(page_bytes_);
  if ((node_->repetition > 0 || node_->definition > 0) && h.level_encoding != parquet::rle)
    return lies(fmt::format("wanted RLE levels, got {}", name_of_encoding(h.level_encoding)));
  for (const auto& [level, to] :
       {std::pair(node_->repetition, &repetitions_), std::pair(node_->definition, &definitions_)}) {
    if (level == 0) continue;
    const auto part = take_part(rest);
    if (!part) return lies("its levels are cut off");
    *to = hybrid_reader(*part, level_width(level));
  }
  return open_values(h, rest);
}

core::result<void> parquet_leaf::open_page_2(const page_header& h) {
  const auto first = h.repetition_bytes, second = h.definition_bytes;
  if (first < 0 || second < 0 || static_cast<uint64_t>(first) > packed_.size() ||
      static_cast<uint64_t>(second) > packed_.size() - static_cast<uint64_t>(first) || first + second > h.bytes)
    return lies(fmt::format("{} and {} bytes of levels in a page of {}", first, second, packed_.size()));
  const auto levels = static_cast<uint64_t>(first + second);
  const uint64_t bytes = static_cast<uint64_t>(h.bytes) - levels;
  // The levels are kept before the values, because the buffer of the packed page is used again for the next one.
  std::vector<std::byte> values;
  const bytes_view all(packed_);
  if (h.packed && bytes > 0) {
    TROUPE_TRY(expand(all.subspan(levels), bytes, values));
  } else {
    values.assign(all.begin() + static_cast<ptrdiff_t>(levels), all.end());
  }
  page_bytes_.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(levels));
  page_bytes_.insert(page_bytes_.end(), values.begin(), values.end());
  const bytes_view page(page_bytes_);
  repetitions_ = hybrid_reader(page.first(static_cast<uint64_t>(first)), level_width(node_->repetition));
  definitions_ = hybrid_reader(page.subspan(static_cast<uint64_t>(first), static_cast<uint64_t>(second)),
                               level_width(node_->definition));
  return open_values(h, page.subspan(levels));
}

core::result<void> parquet_leaf::open_values(const page_header& h, bytes_view values) {
  indices_.reset();
  flags_.reset();
  numbers_.reset();
  texts_.reset();
  plain_ = {};
  plain_bit_ = 0;
  const bool is_text = node_->type == leaf_text, is_integer = node_->type == leaf_int32 || node_->type == leaf_int64;
  if (h.encoding == parquet::plain_dictionary || h.encoding == parquet::rle_dictionary) {
    const auto width = values.empty() ? 0U : static_cast<unsigned>(values.front());
    if (width > 32) return lies(fmt::format("indices of {} bits", width));
    indices_.emplace(values.empty() ? values : values.subspan(1), width);
  } else if (h.encoding == parquet::plain) {
    plain_ = values;
  } else if (h.encoding == parquet::delta_binary && is_integer) {
    numbers_.emplace(values);
  } else if ((h.encoding == parquet::delta_length || h.encoding == parquet::delta_text) && is_text) {
    texts_.emplace(values, h.encoding == parquet::delta_text);
  } else if (h.encoding == parquet::rle && node_->type == leaf_boolean) {
    const auto part = take_part(values);
    if (!part) return lies("its values are cut off");
    flags_.emplace(*part, 1U);
  } else {
    return lies(
        fmt::format("wanted an encoding of {} that is read, got {}", node_->kind, name_of_encoding(h.encoding)));
  }
  return {};
}

std::optional<nlohmann::ordered_json> parquet_leaf::plain_value(bytes_view& from, uint64_t& bit) const {
  switch (node_->type) {
    case leaf_boolean: {
      if (from.size() <= bit / 8) return std::nullopt;
      const bool flag = (static_cast<unsigned>(from[bit / 8]) >> (bit % 8) & 1U) != 0;
      ++bit;
      return leaf_value(flag);
    }
    case leaf_int32:
      return raw_value<int32_t>(from);
    case leaf_int64:
      return raw_value<int64_t>(from);
    case leaf_float:
      return raw_value<float>(from);
    case leaf_double:
      return raw_value<double>(from);
    case leaf_text: {
      const auto part = take_part(from);
      if (!part) return std::nullopt;
      return leaf_value(std::string(reinterpret_cast<const char*>(part->data()), part->size()));
    }
    default:
      return std::nullopt;
  }
}

std::optional<nlohmann::ordered_json> parquet_leaf::next_value() {
  if (indices_) {
    const auto index = indices_->next();
    return index && *index < dictionary_.size() ? std::optional(dictionary_[*index]) : std::nullopt;
  }
  if (numbers_) {
    const auto number = numbers_->next();
    return number ? std::optional(leaf_value(*number)) : std::nullopt;
  }
  if (texts_) {
    const auto text = texts_->next();
    return text ? std::optional(leaf_value(std::string(*text))) : std::nullopt;
  }
  if (flags_) {
    const auto flag = flags_->next();
    return flag ? std::optional(leaf_value(*flag != 0)) : std::nullopt;
  }
  return plain_value(plain_, plain_bit_);
}

core::result<void> parquet_leaf::read_value() {
  const bool is_known = node_->type == leaf_boolean || node_->type == leaf_int32 || node_->type == leaf_int64 ||
                        node_->type == leaf_float || node_->type == leaf_double || node_->type == leaf_text;
  if (!is_known || node_->is_decimal) return lies(fmt::format("it holds {}, which are not read here", node_->kind));
  auto got = next_value();
  if (!got) return lies("a value lies beyond its bytes or its dictionary");
  uint64_t bytes = sizeof(uint64_t);
  if (got->is_string()) {
    const auto& text = got->get_ref<const std::string&>();
    bytes += text.size();
    if (!core::is_utf8(text)) return lies("a text is not UTF-8");
  }
  if (bytes > *bytes_left_)
    return fail(error_kind::limit, fmt::format("'{}' holds more values than the bytes that remain of data.max_bytes "
                                               "(--max-bytes): raise it",
                                               file_->name()));
  *bytes_left_ -= bytes;
  value_ = std::move(*got);
  return {};
}

}  // namespace troupe::data

#include "formats/gguf/header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "core/math.hpp"
#include "formats/tensors/tensor_list.hpp"

namespace troupe::formats {
namespace {

constexpr size_t cursor_block_bytes = size_t{1} << 20;
/// Largest number of elements of a tensor; the product with the bytes of one element fits 64 bits.
constexpr uint64_t max_tensor_elements = uint64_t{1} << 58;

/// Reads the header of a GGUF file in order, value by value; refuses to read beyond max_gguf_header_bytes.
class cursor {
 public:
  explicit cursor(const core::source_file& file)
      : file_(file), end_(std::min(file.size(), max_gguf_header_bytes)), block_(cursor_block_bytes) {}

  [[nodiscard]] uint64_t at() const { return at_; }
  [[nodiscard]] uint64_t left() const { return end_ - at_; }

  core::result<void> bytes(std::span<std::byte> out) {
    if (out.size() > left()) {
      if (file_.size() > end_)
        return fail(error_kind::limit, fmt::format("its header has more than {} bytes", max_gguf_header_bytes));
      return fail(error_kind::bad_input,
                  fmt::format("it is cut short: {} bytes were wanted at byte {} of {}", out.size(), at_, file_.size()));
    }
    while (!out.empty()) {
      if (at_ < block_begin_ || at_ >= block_begin_ + block_bytes_) {
        block_begin_ = at_;
        block_bytes_ = std::min<uint64_t>(block_.size(), left());
        const auto block = std::span(block_).first(static_cast<size_t>(block_bytes_));
        TROUPE_TRY(file_.read(block_begin_, block));
      }
      const auto skip = static_cast<size_t>(at_ - block_begin_);
      const size_t n = std::min(out.size(), static_cast<size_t>(block_bytes_) - skip);
      std::memcpy(out.data(), block_.data() + skip, n);
      out = out.subspan(n);
      at_ += n;
    }
    return {};
  }

  template <class T>
  core::result<T> number() {
    T out{};
    TROUPE_TRY(bytes(std::as_writable_bytes(std::span(&out, 1))));
    return out;
  }

  core::result<std::string> text(uint64_t most) {
    TROUPE_ASSIGN(const auto length, number<uint64_t>());
    if (length > most)
      return fail(error_kind::limit, fmt::format("a text of {} bytes at byte {}, at most {} are allowed", length,
                                                 at_ - sizeof(uint64_t), most));
    if (length > left()) {
      std::byte beyond{};
      at_ = end_;
      return fail(bytes({&beyond, 1}).error());
    }
    std::string out(static_cast<size_t>(length), '\0');
    TROUPE_TRY(bytes(std::as_writable_bytes(std::span(out))));
    return out;
  }

 private:
  const core::source_file& file_;
  uint64_t end_, at_ = 0, block_begin_ = 0, block_bytes_ = 0;
  std::vector<std::byte> block_;
};

core::result<gguf_value_type> read_value_type(cursor& in) {
  TROUPE_ASSIGN(const auto number, in.number<uint32_t>());
  if (number >= gguf_value_types)
    return fail(error_kind::bad_input, fmt::format("a value of type {}, which does not exist", number));
  return static_cast<gguf_value_type>(number);
}

core::result<void> read_array(cursor& in, gguf_value& out) {
  TROUPE_ASSIGN(const auto items, read_value_type(in));
  if (items == gguf_value_type::array) return fail(error_kind::bad_input, "an array of arrays, which is not read");
  out.items = items;
  TROUPE_ASSIGN(const auto count, in.number<uint64_t>());
  if (count > max_gguf_items)
    return fail(error_kind::limit, fmt::format("an array of {} values, at most {} are allowed", count, max_gguf_items));
  const uint64_t least = items == gguf_value_type::text ? sizeof(uint64_t) : size_of(items);
  if (count * least > in.left())
    return fail(error_kind::bad_input,
                fmt::format("an array of {} values, which {} bytes cannot hold", count, in.left()));
  if (items != gguf_value_type::text) {
    out.numbers.resize(static_cast<size_t>(count * least));
    return in.bytes(out.numbers);
  }
  out.texts.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    TROUPE_ASSIGN(auto text, in.text(max_gguf_text_bytes));
    out.texts.push_back(std::move(text));
  }
  return {};
}

core::result<gguf_value> read_value(cursor& in) {
  TROUPE_ASSIGN(const auto type, read_value_type(in));
  gguf_value out{.type = type};
  if (type == gguf_value_type::array) {
    TROUPE_TRY(read_array(in, out));
  } else if (type == gguf_value_type::text) {
    TROUPE_ASSIGN(auto text, in.text(max_gguf_text_bytes));
    out.text = std::move(text);
  } else {
    TROUPE_TRY(in.bytes(std::as_writable_bytes(std::span(&out.bits, 1)).first(size_of(type))));
  }
  return out;
}

core::result<void> read_metadata(cursor& in, uint64_t count, gguf_metadata& out) {
  std::set<std::string> seen;
  for (uint64_t i = 0; i < count; ++i) {
    auto key = in.text(max_gguf_key_bytes);
    if (!key) return fail(key.error().in(fmt::format("key {}", i)));
    auto value = read_value(in);
    if (!value) return fail(value.error().in(fmt::format("key '{}'", shown(*key))));
    if (!seen.insert(*key).second)
      return fail(error_kind::bad_input, fmt::format("key '{}' appears twice", shown(*key)));
    out.entries.emplace_back(std::move(*key), std::move(*value));
  }
  return {};
}

core::result<gguf_tensor> read_tensor(cursor& in) {
  gguf_tensor out;
  TROUPE_ASSIGN(auto name, in.text(max_name_bytes));
  out.name = std::move(name);
  const auto refused = [&](const core::error& e) { return fail(e.in(fmt::format("tensor '{}'", shown(out.name)))); };
  const auto dimensions = in.number<uint32_t>();
  if (!dimensions) return refused(dimensions.error());
  if (*dimensions > max_gguf_extents)
    return refused({error_kind::bad_input, fmt::format("{} extents, wanted 1 to {}", *dimensions, max_gguf_extents)});
  out.extents.resize(*dimensions);
  if (auto ok = in.bytes(std::as_writable_bytes(std::span(out.extents))); !ok) return refused(ok.error());
  const auto number = in.number<uint32_t>();
  if (!number) return refused(number.error());
  const auto type = gguf_type_of(*number);
  if (!type) return refused({error_kind::bad_input, fmt::format("type {}, which is not read", *number)});
  out.type = *type;
  const auto offset = in.number<uint64_t>();
  if (!offset) return refused(offset.error());
  out.offset_bytes = *offset;
  if (auto ok = check_gguf_extents(out); !ok) return refused(ok.error());
  return out;
}

core::result<void> check_places(const gguf_header& h, uint64_t alignment, uint64_t file_bytes) {
  const uint64_t data = file_bytes - std::min(h.data_begin, file_bytes);
  std::vector<const gguf_tensor*> order;
  for (const auto& t : h.tensors) {
    if (t.offset_bytes % alignment != 0)
      return fail(error_kind::bad_input,
                  fmt::format("tensor '{}' begins at byte {} of the data, which is not a multiple of {}", shown(t.name),
                              t.offset_bytes, alignment));
    if (t.offset_bytes > data || t.bytes() > data - t.offset_bytes)
      return fail(error_kind::bad_input,
                  fmt::format("tensor '{}' has {} bytes from byte {} of the data on, but the data has only {}",
                              shown(t.name), t.bytes(), t.offset_bytes, data));
    order.push_back(&t);
  }
  std::ranges::sort(order, [](const auto* a, const auto* b) { return a->offset_bytes < b->offset_bytes; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset_bytes < order[i - 1]->offset_bytes + order[i - 1]->bytes())
      return fail(error_kind::bad_input,
                  fmt::format("tensors '{}' and '{}' overlap", shown(order[i - 1]->name), shown(order[i]->name)));
  std::ranges::sort(order, [](const auto* a, const auto* b) { return a->name < b->name; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->name == order[i - 1]->name)
      return fail(error_kind::bad_input, fmt::format("tensor '{}' appears twice", shown(order[i]->name)));
  return {};
}

core::result<gguf_header> read_all(const core::source_file& file) {
  cursor in(file);
  std::string begin(gguf_magic.size(), '\0');
  TROUPE_TRY(in.bytes(std::as_writable_bytes(std::span(begin))));
  if (begin != gguf_magic)
    return fail(error_kind::bad_input, fmt::format("it begins with '{}' instead of 'GGUF'", shown(begin)));
  TROUPE_ASSIGN(const auto version, in.number<uint32_t>());
  if (version < oldest_gguf_version || version > gguf_version)
    return fail(error_kind::bad_input,
                (version & 0xFFFFU) == 0
                    ? std::string("it is big-endian, wanted little-endian")
                    : fmt::format("it has version {}, wanted {} or {}", version, oldest_gguf_version, gguf_version));
  TROUPE_ASSIGN(const auto tensors, in.number<uint64_t>());
  TROUPE_ASSIGN(const auto keys, in.number<uint64_t>());
  if (tensors > max_tensors || keys > max_gguf_keys)
    return fail(error_kind::limit, fmt::format("it claims {} tensors and {} keys, at most {} and {} are allowed",
                                               tensors, keys, max_tensors, max_gguf_keys));
  gguf_header out;
  TROUPE_TRY(read_metadata(in, keys, out.metadata));
  for (uint64_t i = 0; i < tensors; ++i) {
    TROUPE_ASSIGN(auto tensor, read_tensor(in));
    out.tensors.push_back(std::move(tensor));
  }
  TROUPE_ASSIGN(const auto alignment, alignment_of(out.metadata));
  out.data_begin = core::round_up(in.at(), alignment);
  TROUPE_TRY(check_places(out, alignment, file.size()));
  return out;
}

}  // namespace

uint64_t gguf_tensor::elements() const {
  uint64_t out = 1;
  for (const uint64_t e : extents) out *= e;
  return out;
}

uint64_t gguf_tensor::bytes() const { return elements() / block_elements(type) * block_bytes(type); }

bool begins_like_gguf(std::span<const std::byte> begin) {
  return begin.size() >= gguf_magic.size() && std::memcmp(begin.data(), gguf_magic.data(), gguf_magic.size()) == 0;
}

core::result<uint64_t> alignment_of(const gguf_metadata& metadata) {
  const auto* value = metadata.find(gguf_alignment_key);
  if (value == nullptr) return gguf_alignment_bytes;
  const auto bytes = value->whole();
  if (!bytes || !std::has_single_bit(*bytes) || *bytes > max_gguf_alignment)
    return fail(error_kind::bad_input, fmt::format("'{}' must be a power of two up to {}{}", gguf_alignment_key,
                                                   max_gguf_alignment, bytes ? fmt::format(", got {}", *bytes) : ""));
  return *bytes;
}

core::result<gguf_header> read_gguf_header(const core::source_file& file) {
  auto out = read_all(file);
  if (!out && out.error().kind != error_kind::io)
    return fail(out.error().in(fmt::format("'{}' is not a valid GGUF file", file.name())));
  return out;
}

core::result<void> check_gguf_extents(const gguf_tensor& t) {
  if (t.extents.empty() || t.extents.size() > max_gguf_extents)
    return fail(error_kind::bad_input, fmt::format("{} extents, wanted 1 to {}", t.extents.size(), max_gguf_extents));
  uint64_t elements = 1;
  for (const uint64_t e : t.extents) {
    if (e == 0 || e > max_tensor_elements || elements > max_tensor_elements / e)
      return fail(error_kind::bad_input,
                  fmt::format("extents {} are not possible for a tensor", fmt::join(t.extents, " x ")));
    elements *= e;
  }
  if (t.extents[0] % block_elements(t.type) != 0)
    return fail(error_kind::bad_input, fmt::format("rows of {} elements, wanted a multiple of {} for {}", t.extents[0],
                                                   block_elements(t.type), name_of(t.type)));
  return {};
}

}  // namespace troupe::formats

// Reads flatbuffers, the form of Arrow's messages, without their library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::data {

/// A table of a flatbuffer. A field that the table does not contain has its default value. An offset outside the buffer
/// marks the buffer as broken, which concerns all tables in it.
class flat_table {
 public:
  struct buffer {
    std::span<const std::byte> bytes;
    bool broken = false;
  };

  flat_table() = default;  ///< an empty table: every field is missing
  /// Returns the root table of the buffer.
  static flat_table root(buffer& in) {
    flat_table out;
    out.in_ = &in;
    out.point(0);
    return out;
  }

  [[nodiscard]] bool exists() const { return in_ != nullptr; }

  template <class Number>
  [[nodiscard]] Number number(unsigned field, Number by_default) const {
    const auto at = place(field);
    return at ? load<Number>(*at) : by_default;
  }
  [[nodiscard]] flat_table table(unsigned field) const {
    const auto at = place(field);
    return at ? table_at(*at) : flat_table();
  }
  [[nodiscard]] std::string_view text(unsigned field) const {
    const auto rows = vector(field, 1);
    return {reinterpret_cast<const char*>(rows.data()), rows.size()};
  }
  /// Returns the bytes of a vector of structures, each of `item_bytes`.
  [[nodiscard]] std::span<const std::byte> vector(unsigned field, uint64_t item_bytes) const {
    const auto at = place(field);
    if (!at) return {};
    const uint64_t begin = *at + load<uint32_t>(*at), count = load<uint32_t>(begin);
    if (in_->broken || count > (in_->bytes.size() - begin - 4) / item_bytes)
      return in_->broken = true, std::span<const std::byte>();
    return in_->bytes.subspan(begin + 4, count * item_bytes);
  }
  /// Returns the number of tables in the vector `field`; table(field, index) returns one of them.
  [[nodiscard]] uint64_t tables(unsigned field) const { return vector(field, 4).size() / 4; }
  [[nodiscard]] flat_table table(unsigned field, uint64_t index) const {
    const auto rows = vector(field, 4);
    if (index >= rows.size() / 4) return {};
    return table_at(static_cast<uint64_t>(rows.data() - in_->bytes.data()) + 4 * index);
  }

 private:
  template <class Number>
  [[nodiscard]] Number load(uint64_t at) const {
    Number out{};
    if (at > in_->bytes.size() || in_->bytes.size() - at < sizeof out) return in_->broken = true, out;
    std::memcpy(&out, in_->bytes.data() + at, sizeof out);
    return out;
  }
  void point(uint64_t at) { at_ = at + load<uint32_t>(at); }
  [[nodiscard]] flat_table table_at(uint64_t at) const {
    flat_table out;
    out.in_ = in_;
    out.point(at);
    return out;
  }
  [[nodiscard]] std::optional<uint64_t> place(unsigned field) const {
    if (in_ == nullptr || in_->broken) return std::nullopt;
    const int64_t fields = static_cast<int64_t>(at_) - load<int32_t>(at_);
    if (fields < 0) return in_->broken = true, std::nullopt;
    const auto names = static_cast<uint64_t>(fields);
    if (load<uint16_t>(names) < 4 + 2 * (field + 1)) return std::nullopt;
    const auto offset = load<uint16_t>(names + 4 + uint64_t{2} * field);
    if (offset == 0 || in_->broken) return std::nullopt;
    return at_ + offset;
  }

  buffer* in_ = nullptr;
  uint64_t at_ = 0;
};

}  // namespace troupe::data

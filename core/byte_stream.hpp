// Converts values to bytes and back: integers in fixed widths, little endian; floating-point numbers as their bits;
// texts and lists preceded by their length, variants by their kind. Owns the widths and the checks of bounds; leaves
// the meaning of the values to the caller.
//
// One function lists the fields of a structure, for writing and for reading:
// void fields(auto& f, point& p) { f(p.x, p.y); }
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::core {

class byte_writer {  ///< appends values, as bytes, to a string
 public:
  template <class... Ts>
  void operator()(const Ts&... xs) {
    (put(xs), ...);
  }
  /// Returns the bytes written so far and leaves the writer empty.
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  template <class T>
  void put(const T& x) {
    if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::underlying_type_t<T>>(x));
    } else if constexpr (std::is_same_v<T, double>) {
      put(std::bit_cast<uint64_t>(x));
    } else if constexpr (std::is_same_v<T, float>) {
      put(std::bit_cast<uint32_t>(x));
    } else if constexpr (std::is_integral_v<T>) {
      static_assert(std::endian::native == std::endian::little);
      out_.append(reinterpret_cast<const char*>(&x), sizeof x);
    } else {
      // The parameter of fields() is not const, because a byte_reader assigns to the fields; a byte_writer only reads
      // them, so the const_cast is safe.
      fields(*this, const_cast<T&>(x));
    }
  }
  void put(const std::string& x) {
    put(uint64_t{x.size()});
    out_ += x;
  }
  void put(const std::vector<bool>& x) {
    put(uint64_t{x.size()});
    for (const bool one : x) put(one);
  }
  template <class T>
  void put(const std::vector<T>& x) {
    put(uint64_t{x.size()});
    if constexpr (std::is_arithmetic_v<T>)
      out_.append(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(T));
    else
      for (const auto& one : x) put(one);
  }
  template <class T>
  void put(const std::optional<T>& x) {
    put(x.has_value());
    if (x) put(*x);
  }
  template <class... Ts>
  void put(const std::variant<Ts...>& x) {
    put(static_cast<uint8_t>(x.index()));
    std::visit([this](const auto& one) { put(one); }, x);
  }

  std::string out_;
};

/// Reads the output of a byte_writer from untrusted bytes. After the first value that is missing or invalid, all
/// further values stay unchanged and `is_whole` returns false.
class byte_reader {
 public:
  explicit byte_reader(std::string_view bytes) : rest_(bytes) {}

  template <class... Ts>
  void operator()(Ts&... xs) {
    (get(xs), ...);
  }
  /// True if every value was read without an error and no bytes are left.
  [[nodiscard]] bool is_whole() const { return good_ && rest_.empty(); }
  [[nodiscard]] bool is_good() const { return good_; }

 private:
  bool take(void* to, uint64_t bytes) {
    if (!good_ || bytes > rest_.size()) return good_ = false;
    if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return true;
  }
  template <class T>
  void get(T& x) {
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> n{};
      get(n);
      if (good_) x = static_cast<T>(n);
    } else if constexpr (std::is_same_v<T, bool>) {
      uint8_t n = 0;
      if (!take(&n, 1)) return;
      if (n > 1) good_ = false;
      x = n == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      take(&x, sizeof x);
    } else {
      fields(*this, x);
    }
  }
  /// Returns the item count stored at the current position; fails if the remaining bytes cannot hold that many items of
  /// at least `item_bytes` each.
  uint64_t count(uint64_t item_bytes) {
    uint64_t n = 0;
    get(n);
    if (good_ && n > rest_.size() / item_bytes) good_ = false;
    return good_ ? n : 0;
  }
  void get(std::string& x) {
    x.resize(count(1));
    take(x.data(), x.size());
  }
  void get(std::vector<bool>& x) {
    x.assign(count(1), false);
    for (size_t i = 0; good_ && i < x.size(); ++i) {
      bool one = false;
      get(one);
      x[i] = one;
    }
  }
  template <class T>
  void get(std::vector<T>& x) {
    if constexpr (std::is_arithmetic_v<T>) {
      x.resize(count(sizeof(T)));
      take(x.data(), x.size() * sizeof(T));
    } else {
      const uint64_t n = count(1);
      x.clear();
      for (uint64_t i = 0; good_ && i < n; ++i) get(x.emplace_back());
    }
  }
  template <class T>
  void get(std::optional<T>& x) {
    bool there = false;
    get(there);
    x.reset();
    if (!good_ || !there) return;
    T value{};
    get(value);
    x = std::move(value);
  }
  template <class... Ts>
  void get(std::variant<Ts...>& x) {
    uint8_t kind = 0;
    get(kind);
    size_t tried = 0;
    const bool is_known = good_ && ((tried++ == kind && (get(x.template emplace<Ts>()), true)) || ...);
    if (!is_known) good_ = false;
  }

  std::string_view rest_;
  bool good_ = true;
};

/// Returns the fields of a structure as bytes.
template <class T>
std::string as_bytes(const T& x) {
  byte_writer out;
  out(x);
  return out.take();
}
/// Returns the structure that `bytes` holds; nullopt if the bytes are not exactly one such structure.
template <class T>
std::optional<T> from_bytes(std::string_view bytes) {
  byte_reader in(bytes);
  T out{};
  in(out);
  if (!in.is_whole()) return std::nullopt;
  return out;
}

}  // namespace troupe::core

// Python pickles, protocols 2 to 5, as inert values. Owns the tree; calls nothing, imports nothing: what a
// pickle would call or build stays a node that says so. What the names mean is left to torch_archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::checkpoint {

/// Bytes of one pickle that is read.
inline constexpr uint64_t max_pickle_bytes = uint64_t{1} << 28;
/// Values inside values.
inline constexpr uint16_t max_pickle_depth = 1000;

/// What a value of a pickle is.
enum class pickle_kind : uint8_t {
  none,
  boolean,
  integer,      ///< fits 64 bits
  big_integer,  ///< text(): its little-endian two's complement bytes
  real,
  text,   ///< UTF-8 as it stands in the file
  bytes,  ///< text(): the bytes
  list,   ///< items(): the elements; tuple and set (frozen or not) alike
  tuple,
  set,
  dict,        ///< items(): key, value, key, value ... as set, a key set twice comes twice; OrderedDict as well
  global,      ///< a name that Python would import: items() are module and name, both texts
  object,      ///< a call that was not made: target(), args(), state(), and items() that were put into it
  persistent,  ///< items(): the one value that stands for something outside
};

/// A value of a pickle_tree, by number. Shared values have one number.
using pickle_ref = uint32_t;

/// Values of one pickle, which outlives them where it lies in the caller's memory; movable. No value holds itself, and
/// none is deeper than max_pickle_depth; but values may be shared so often that walking every path would never end.
class pickle_tree {
 public:
  pickle_tree() = default;
  pickle_tree(pickle_tree&&) = default;
  pickle_tree& operator=(pickle_tree&&) = default;

  [[nodiscard]] pickle_ref root() const { return root_; }
  /// Numbers run from 0 to size() - 1, and not all are reached from the root.
  [[nodiscard]] size_t size() const { return nodes_.size(); }
  /// Bytes of the pickle, up to and with its end mark.
  [[nodiscard]] size_t bytes_read() const { return bytes_read_; }

  [[nodiscard]] pickle_kind kind(pickle_ref v) const { return nodes_[v].kind; }
  [[nodiscard]] bool boolean(pickle_ref v) const { return nodes_[v].a != 0; }
  [[nodiscard]] int64_t integer(pickle_ref v) const;
  [[nodiscard]] double real(pickle_ref v) const;
  [[nodiscard]] std::string_view text(pickle_ref v) const;  ///< of text, bytes, big_integer
  [[nodiscard]] std::span<const pickle_ref> items(pickle_ref v) const;

  [[nodiscard]] pickle_ref target(pickle_ref object) const { return nodes_[object].a; }  ///< a global
  [[nodiscard]] pickle_ref args(pickle_ref object) const { return nodes_[object].b; }    ///< a tuple
  /// What the pickle would hand to __setstate__; for a dict (an OrderedDict's attributes) as well.
  [[nodiscard]] std::optional<pickle_ref> state(pickle_ref v) const;

  /// Whether `v` is this global. `builtins` and Python 2's `__builtin__` are one module.
  [[nodiscard]] bool is_global(pickle_ref v, std::string_view module, std::string_view name) const;
  /// Whether `v` is an uncalled call of it.
  [[nodiscard]] bool is_call(pickle_ref v, std::string_view module, std::string_view name) const;
  [[nodiscard]] std::string global_name(pickle_ref global) const;  ///< "module.name", fit for a message

  /// The value of a text key in a dict, the later of two; nothing where it is missing or `dict` is none.
  [[nodiscard]] std::optional<pickle_ref> find(pickle_ref dict, std::string_view key) const;
  [[nodiscard]] std::optional<pickle_ref> find(pickle_ref dict, int64_t key) const;

 private:
  friend class pickle_parser;
  static constexpr uint32_t nothing = 0xFFFFFFFF;
  struct node {
    pickle_kind kind = pickle_kind::none;
    bool owned = false;     ///< text in own_text_, not in the pickle
    uint32_t a = 0, b = 0;  ///< by kind: 64 bits of a number, place and length of text, target and args
    uint32_t state = nothing;
    uint32_t list = nothing;  ///< place in lists_
  };

  std::span<const std::byte> pickle_;
  std::vector<std::byte> own_pickle_;  ///< what pickle_ is, where it was read from a file
  std::vector<node> nodes_;
  std::vector<std::vector<pickle_ref>> lists_;
  std::string own_text_;
  pickle_ref root_ = 0;
  size_t bytes_read_ = 0;
};

/// Reads the pickle at the start of `bytes`; what follows its end mark is left alone. Refused with the offset:
/// protocols beyond 5 and opcodes outside the list (extensions, out-of-band buffers, protocol 0's text numbers),
/// lengths beyond the file, calls of what is no global or with what is no tuple, values that hold themselves.
/// Memory is at most max_pickle_memory_factor times the pickle and a constant.
core::result<pickle_tree> read_pickle(std::span<const std::byte> bytes);

/// The same of a file, from its byte `begin` on, where at most `bytes` may belong to the pickle: they are copied out of
/// the file as far as it goes, and the tree keeps them. What the file refuses is an error of kind `io` that names it.
core::result<pickle_tree> read_pickle(const core::source_file& file, uint64_t begin, uint64_t bytes);

/// The worst case is a pickle of empty lists: a byte each.
inline constexpr size_t max_pickle_memory_factor = 256;

}  // namespace troupe::checkpoint

// Reads Python pickles, protocols 2 to 5, as inert values. Owns the tree; calls and imports nothing: a call or an
// object of the pickle becomes a node that describes it. Leaves the meaning of names to torch_archive.
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
#include "formats/torch/pickle_ref.hpp"

namespace troupe::formats {

/// Largest pickle that is read, in bytes.
inline constexpr uint64_t max_pickle_bytes = uint64_t{1} << 28;
/// Deepest nesting of values in a pickle that is read.
inline constexpr uint16_t max_pickle_depth = 1000;

/// Kind of a value of a pickle.
enum class pickle_kind : uint8_t {
  none,
  boolean,
  integer,      ///< an integer that fits 64 bits
  big_integer,  ///< an integer beyond 64 bits; text() returns its little-endian two's complement bytes
  real,
  text,   ///< a str; text() returns its bytes as in the file, normally UTF-8
  bytes,  ///< bytes or a bytearray; text() returns them
  list,   ///< a list; items() returns the elements, also for `tuple` and `set`
  tuple,
  set,
  /// A dict or an OrderedDict; items() returns key, value, key, value ... in the order of the pickle, a repeated key
  /// twice.
  dict,
  global,      ///< a name that Python would import; items() returns module and name, two texts
  object,      ///< a call that is not executed: target(), args(), state(), and items() that are added to its result
  persistent,  ///< an object outside the pickle; items() returns one value, its persistent id
};

/// Values of one pickle; movable. If the pickle is in the caller's memory, that memory must outlive the tree. No value
/// contains itself, and none is deeper than max_pickle_depth; values may be shared so often that walking every path
/// would never end.
class pickle_tree {
 public:
  pickle_tree() = default;
  pickle_tree(pickle_tree&&) = default;
  pickle_tree& operator=(pickle_tree&&) = default;

  [[nodiscard]] pickle_ref root() const { return root_; }
  /// Returns the number of values. Values are numbered from 0 to size() - 1; the root does not reach all of them.
  [[nodiscard]] size_t size() const { return nodes_.size(); }
  /// Returns the size of the pickle in bytes, its end mark included.
  [[nodiscard]] size_t bytes_read() const { return bytes_read_; }

  [[nodiscard]] pickle_kind kind(pickle_ref v) const { return nodes_[v].kind; }
  [[nodiscard]] bool boolean(pickle_ref v) const { return nodes_[v].a != 0; }
  [[nodiscard]] int64_t integer(pickle_ref v) const;
  [[nodiscard]] double real(pickle_ref v) const;
  /// Returns the text or bytes of a text, bytes or big_integer.
  [[nodiscard]] std::string_view text(pickle_ref v) const;
  [[nodiscard]] std::span<const pickle_ref> items(pickle_ref v) const;

  /// returns the global that the unexecuted call would call
  [[nodiscard]] pickle_ref target(pickle_ref object) const { return nodes_[object].a; }
  /// returns the tuple of arguments of an unexecuted call
  [[nodiscard]] pickle_ref args(pickle_ref object) const { return nodes_[object].b; }
  /// Returns the value that the pickle passes to __setstate__ of an object, or the attributes of an OrderedDict;
  /// nothing if there is none.
  [[nodiscard]] std::optional<pickle_ref> state(pickle_ref v) const;

  /// True if `v` is the global `module`.`name`. `builtins` and Python 2's `__builtin__` count as one module.
  [[nodiscard]] bool is_global(pickle_ref v, std::string_view module, std::string_view name) const;
  /// True if `v` is a recorded call of the global `module`.`name`.
  [[nodiscard]] bool is_call(pickle_ref v, std::string_view module, std::string_view name) const;
  [[nodiscard]] std::string global_name(pickle_ref global) const;  ///< returns "module.name", escaped for messages

  /// Returns the value of a text key in a dict, the later value of a repeated key; nothing if the key is missing or
  /// `dict` is not a dict.
  [[nodiscard]] std::optional<pickle_ref> find(pickle_ref dict, std::string_view key) const;
  [[nodiscard]] std::optional<pickle_ref> find(pickle_ref dict, int64_t key) const;

 private:
  friend class pickle_parser;
  static constexpr uint32_t nothing = 0xFFFFFFFF;
  struct node {
    pickle_kind kind = pickle_kind::none;
    bool owned = false;     ///< true: the text is in own_text_, not in the pickle
    uint32_t a = 0, b = 0;  ///< 64 bits of a number, or offset and length of a text, or target and args of a call
    uint32_t state = nothing;
    uint32_t list = nothing;  ///< index in lists_ of the value's items; `nothing`: no items
  };

  std::span<const std::byte> pickle_;
  std::vector<std::byte> own_pickle_;  ///< bytes of pickle_, if the pickle was read from a file
  std::vector<node> nodes_;
  std::vector<std::vector<pickle_ref>> lists_;
  std::string own_text_;
  pickle_ref root_ = 0;
  size_t bytes_read_ = 0;
};

/// Reads the pickle at the beginning of `bytes`; ignores bytes after its end mark. Refused with the offset: protocols
/// beyond 5 and opcodes outside pickle::op (extensions, out-of-band buffers, protocol 0's text numbers), lengths beyond
/// the file, calls of a value that is not a global or with arguments that are not a tuple, values that contain
/// themselves. Memory is at most 256 bytes for each byte of the pickle, plus a constant; the worst case is a pickle of
/// empty lists, one byte each.
core::result<pickle_tree> read_pickle(std::span<const std::byte> bytes);

/// Reads a pickle of at most `bytes` bytes from byte `begin` of a file on, like the overload for memory. The tree keeps
/// a copy of the pickle's bytes. An error of reading is of kind `io` and names the file.
core::result<pickle_tree> read_pickle(const core::source_file& file, uint64_t begin, uint64_t bytes);

}  // namespace troupe::formats

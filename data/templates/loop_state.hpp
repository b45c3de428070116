// The object `loop` of a `for`: where the loop is, and the items around that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/error.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// The state of one `for`. An item that `last` or `nextitem` has asked for early is stored in `after`.
struct loop_state {
  cursor from{};
  int64_t index0 = -1;
  std::optional<int64_t> length{};
  std::optional<value> before{}, current{}, after{};
  bool has_ended = false;
  bool is_closed = false;

  /// Makes the next item the current one. Returns false if there is none.
  core::result<bool> advance();
  /// Returns the item after the current one, without making it the current one; nullopt if there is none.
  core::result<std::optional<value>> peek();
  /// Returns the number of all items. All items are made, if that is necessary.
  core::result<int64_t> count(allowance& left);
  /// Ends the loop. A namespace may keep the object, but not the items and frames that it refers to.
  void close();
  /// Returns an attribute of `loop`, such as `index0` or `first`; nullopt if there is none of this name.
  /// Fails if the loop has ended.
  core::result<std::optional<value>> attribute(std::string_view name, allowance& left);
};

}  // namespace troupe::data::templates

#include "data/templates/loop_state.hpp"

#include <memory>
#include <utility>

namespace troupe::data::templates {

core::result<std::optional<value>> loop_state::peek() {
  if (!after && !has_ended) {
    TROUPE_ASSIGN(auto one, from.next());
    after = std::move(one);
    has_ended = !after.has_value();
  }
  return after;
}

core::result<bool> loop_state::advance() {
  TROUPE_ASSIGN(auto next, peek());
  if (!next) return false;
  ++index0;
  before = std::exchange(current, std::move(next));
  after.reset();
  return true;
}

core::result<int64_t> loop_state::count(allowance& left) {
  if (length) return *length;
  if (from.length) {
    length = static_cast<int64_t>(*from.length);
    return *length;
  }
  values rest;
  for (;;) {
    TROUPE_ASSIGN(auto one, from.next());
    if (!one) break;
    rest.push_back(*std::move(one));
  }
  length = index0 + 1 + (after ? 1 : 0) + static_cast<int64_t>(rest.size());
  TROUPE_ASSIGN(const auto list, list_of(std::move(rest), left));
  TROUPE_ASSIGN(auto again, items_of(list, left));
  from = std::move(again);
  return *length;
}

void loop_state::close() {
  is_closed = true;
  from = {};
  before.reset();
  current.reset();
  after.reset();
}

core::result<std::optional<value>> loop_state::attribute(std::string_view name, allowance& left) {
  if (is_closed) return core::refused("reading 'loop' after its loop has ended is not supported");
  const auto number = [](int64_t x) { return std::optional<value>(whole(x)); };
  if (name == "index") return number(index0 + 1);
  if (name == "index0") return number(index0);
  if (name == "first") return std::optional<value>(boolean(index0 == 0));
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "last") {
    TROUPE_ASSIGN(const auto next, peek());
    return std::optional<value>(boolean(!next));
  }
  if (name == "nextitem") {
    TROUPE_ASSIGN(auto next, peek());
    return next ? std::move(next) : std::optional<value>(undefined("there is no next item"));
  }
  if (name == "previtem")
    return index0 > 0 && before ? before : std::optional<value>(undefined("there is no previous item"));
  if (name == "length" || name == "revindex" || name == "revindex0") {
    TROUPE_ASSIGN(const int64_t all, count(left));
    return number(name == "length" ? all : name == "revindex" ? all - index0 : all - index0 - 1);
  }
  return std::optional<value>();
}

}  // namespace troupe::data::templates

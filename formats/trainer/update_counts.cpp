#include "formats/trainer/update_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.hpp"

namespace troupe::formats {

core::result<uint64_t> steps_from(double number) {
  if (number >= 0 && number <= static_cast<double>(max_exact_steps) && number == std::floor(number))
    return static_cast<uint64_t>(number);
  return core::fail(core::error_kind::bad_input, fmt::format("a number of steps was wanted, got {}", number));
}

core::result<uint64_t> steps_from(int64_t number) {
  // The comparison is between integers: a conversion to double would round 2^53 + 1 into the range.
  if (number >= 0 && static_cast<uint64_t>(number) <= max_exact_steps) return static_cast<uint64_t>(number);
  return core::fail(core::error_kind::bad_input, fmt::format("a number of steps was wanted, got {}", number));
}

core::result<uint64_t> steps_at(const torch_archive& file, pickle_ref value) {
  const auto bad = [](const std::string& why) { return core::fail(core::error_kind::bad_input, why); };
  const auto& tree = file.tree();
  if (tree.kind(value) == pickle_kind::integer) return steps_from(tree.integer(value));
  if (tree.kind(value) == pickle_kind::real) return steps_from(tree.real(value));
  TROUPE_ASSIGN(const auto t, file.tensor(value));
  if (t.numel != 1) return bad("one number was wanted");
  std::array<std::byte, 8> bytes{};
  TROUPE_TRY(file.check_sum(t));
  TROUPE_TRY(file.read(t.begin, std::span(bytes).first(core::size_of(t.type))));
  const auto as = [&]<class number>(number n) {
    std::copy_n(bytes.begin(), sizeof n, std::as_writable_bytes(std::span(&n, 1)).begin());
    return n;
  };
  if (t.type == core::dtype::f32) return steps_from(double{as(float{})});
  if (t.type == core::dtype::f64) return steps_from(as(double{}));
  if (t.type == core::dtype::i64) return steps_from(as(int64_t{}));
  if (t.type == core::dtype::i32) return steps_from(int64_t{as(int32_t{})});
  return bad(fmt::format("a number was wanted, got one of {}", core::name_of(t.type)));
}

void update_counts::add_parameter(std::string_view name, uint64_t updates) {
  if (!least_ || updates < *least_) {
    least_ = updates;
    of_least_ = name;
  }
  most_ = std::max(most_.value_or(0), updates);
}

void update_counts::add_group(uint64_t updates) { of_groups_ = std::max(of_groups_.value_or(0), updates); }

std::optional<uint64_t> update_counts::updates() const { return most_ ? most_ : of_groups_; }

std::optional<std::string> update_counts::difference() const {
  if (least_ == most_) return std::nullopt;
  return fmt::format("the optimizer counts {} updates of one parameter and {} of {}: every parameter continues with {}",
                     *most_, *least_, core::shown(of_least_), *most_);
}

}  // namespace troupe::formats
